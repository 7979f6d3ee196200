//! Namespaces, their environments and signal thresholds.

use super::policy::{number, policy, policy_message};
use super::required;
use super::time::{duration, span, timestamp};
use crate::domain::error::InvalidField;
use crate::domain::key::check_name;
use crate::domain::namespace::{Environment, Namespace, SignalThresholds};
use crate::domain::time::Timestamp;
use crate::proto::v1 as pb;

/// A namespace to create.
///
/// # Errors
///
/// Names the field that is missing or malformed.
pub fn new_namespace(given: Option<pb::Namespace>) -> Result<Namespace, InvalidField> {
    let given = required("namespace", given)?;
    let name = given.name.clone();
    let mut namespace = namespace(given, 0)?;
    if namespace.environments.is_empty() {
        namespace = Namespace::with_defaults(&name);
    }
    Ok(namespace)
}

/// A namespace as it is to be, with the version that was read.
///
/// # Errors
///
/// Names the field that is missing or malformed.
pub fn changed_namespace(given: Option<pb::Namespace>) -> Result<Namespace, InvalidField> {
    let given = required("namespace", given)?;
    let version: Option<i64> = given.etag.parse().ok().filter(|version| *version > 0);
    let problem = "must be the etag of a namespace as GetNamespace shows it";
    let version = version.ok_or_else(|| InvalidField::new("namespace.etag", problem))?;
    namespace(given, version)
}

fn namespace(given: pb::Namespace, version: i64) -> Result<Namespace, InvalidField> {
    check_name("namespace.name", &given.name)?;
    let environments: Result<Vec<_>, _> = given
        .environments
        .into_iter()
        .enumerate()
        .map(|(i, given)| {
            environment(given)
                .map_err(|error| error.within(&format!("namespace.environments[{i}]")))
        })
        .collect();
    Ok(Namespace {
        name: given.name,
        environments: environments?,
        created_at: Timestamp::EPOCH,
        version,
    })
}

fn environment(given: pb::Environment) -> Result<Environment, InvalidField> {
    Ok(Environment {
        policy: policy(given.policy).map_err(|error| error.within("policy"))?,
        signal_thresholds: thresholds(given.signal_thresholds)
            .map_err(|error| error.within("signal_thresholds"))?,
        name: given.name,
    })
}

fn thresholds(given: Option<pb::SignalThresholds>) -> Result<SignalThresholds, InvalidField> {
    let defaults = SignalThresholds::default();
    let Some(given) = given else {
        return Ok(defaults);
    };
    let ratio = |given: f64, default: f64| if given == 0.0 { default } else { given };
    Ok(SignalThresholds {
        duplicate_ratio_low: ratio(given.duplicate_ratio_low, defaults.duplicate_ratio_low),
        duplicate_ratio_high: ratio(given.duplicate_ratio_high, defaults.duplicate_ratio_high),
        oldest_in_flight: duration("oldest_in_flight", given.oldest_in_flight)?
            .unwrap_or(defaults.oldest_in_flight),
        distinct_effect_ids: number("distinct_effect_ids", given.distinct_effect_ids)?
            .unwrap_or(defaults.distinct_effect_ids),
    })
}

/// A namespace as a message.
pub fn namespace_message(namespace: &Namespace) -> pb::Namespace {
    let mut environments: Vec<_> = namespace
        .environments
        .iter()
        .map(|environment| environment_message(environment, namespace.version))
        .collect();
    environments.sort_by(|one, other| one.name.cmp(&other.name));
    pb::Namespace {
        name: namespace.name.clone(),
        environments,
        created_at: Some(timestamp(namespace.created_at)),
        etag: namespace.version.to_string(),
    }
}

fn environment_message(environment: &Environment, version: i64) -> pb::Environment {
    let thresholds = &environment.signal_thresholds;
    pb::Environment {
        name: environment.name.clone(),
        policy: Some(policy_message(&environment.policy, version)),
        signal_thresholds: Some(pb::SignalThresholds {
            duplicate_ratio_low: thresholds.duplicate_ratio_low,
            duplicate_ratio_high: thresholds.duplicate_ratio_high,
            oldest_in_flight: Some(span(thresholds.oldest_in_flight)),
            distinct_effect_ids: thresholds.distinct_effect_ids,
        }),
    }
}
