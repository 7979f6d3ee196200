//! Namespaces and their environments, each with its policy.

use std::time::Duration;

use super::error::InvalidField;
use super::key::check_name;
use super::limits;
use super::policy::Policy;
use super::time::Timestamp;

/// When the three signals raise an alarm.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalThresholds {
    /// The share of duplicates below which an alarm is raised.
    pub duplicate_ratio_low: f64,
    /// The share of duplicates from which an alarm is raised.
    pub duplicate_ratio_high: f64,
    /// The age of the oldest record in flight from which an alarm is raised.
    pub oldest_in_flight: Duration,
    /// The number of distinct effect ids under one key from which an alarm is raised.
    pub distinct_effect_ids: u32,
}

impl Default for SignalThresholds {
    fn default() -> Self {
        Self {
            duplicate_ratio_low: 0.01,
            duplicate_ratio_high: 0.20,
            oldest_in_flight: Duration::from_mins(10),
            distinct_effect_ids: 2,
        }
    }
}

/// One environment of a namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct Environment {
    /// Its name.
    pub name: String,
    /// What holds for its records.
    pub policy: Policy,
    /// When its signals raise an alarm.
    pub signal_thresholds: SignalThresholds,
}

/// A team's or service's space.
#[derive(Debug, Clone, PartialEq)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// Its environments, by name.
    pub environments: Vec<Environment>,
    /// When it was created.
    pub created_at: Timestamp,
    /// Rises with each change; zero before the first.
    pub version: i64,
}

impl Namespace {
    /// A namespace with the default environments and policies, not yet stored.
    pub fn with_defaults(name: &str) -> Self {
        let environments = ["live", "test"].map(|name| Environment {
            name: name.to_owned(),
            policy: Policy::default(),
            signal_thresholds: SignalThresholds::default(),
        });
        Self {
            name: name.to_owned(),
            environments: environments.into(),
            created_at: Timestamp::EPOCH,
            version: 0,
        }
    }

    /// The environment of that name.
    pub fn environment(&self, name: &str) -> Option<&Environment> {
        self.environments
            .iter()
            .find(|environment| environment.name == name)
    }

    /// Checks names, policies and thresholds.
    ///
    /// # Errors
    ///
    /// Names the first field that breaks its limit.
    pub fn check(&self) -> Result<(), InvalidField> {
        check_name("name", &self.name)?;
        let count = self.environments.len();
        if count == 0 || count > limits::ENVIRONMENTS_MAX {
            let problem = format!("must be 1..={} items, is {count}", limits::ENVIRONMENTS_MAX);
            return Err(InvalidField::new("environments", problem));
        }
        for (i, environment) in self.environments.iter().enumerate() {
            let path = format!("environments[{i}]");
            check_name("name", &environment.name).map_err(|error| error.within(&path))?;
            if self.environments[..i]
                .iter()
                .any(|earlier| earlier.name == environment.name)
            {
                return Err(InvalidField::new(format!("{path}.name"), "is listed twice"));
            }
            let policy = format!("{path}.policy");
            environment
                .policy
                .check()
                .map_err(|error| error.within(&policy))?;
            let thresholds = format!("{path}.signal_thresholds");
            environment
                .signal_thresholds
                .check()
                .map_err(|error| error.within(&thresholds))?;
        }
        Ok(())
    }
}

impl SignalThresholds {
    fn check(&self) -> Result<(), InvalidField> {
        let (low, high) = (self.duplicate_ratio_low, self.duplicate_ratio_high);
        if !(0.0..=1.0).contains(&low) {
            return Err(InvalidField::new("duplicate_ratio_low", "must be 0..=1"));
        }
        if !(low..=1.0).contains(&high) {
            let problem = "must be duplicate_ratio_low..=1";
            return Err(InvalidField::new("duplicate_ratio_high", problem));
        }
        if self.oldest_in_flight.is_zero() || self.oldest_in_flight > limits::RETENTION_CAP {
            let problem = format!("must be above zero, at most {:?}", limits::RETENTION_CAP);
            return Err(InvalidField::new("oldest_in_flight", problem));
        }
        if self.distinct_effect_ids < 2 {
            return Err(InvalidField::new(
                "distinct_effect_ids",
                "must be at least 2",
            ));
        }
        Ok(())
    }
}
