//! The flags of a policy, and a policy as a table.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cmd::args;
use crate::cmd::record::class_name;
use crate::cmd::reserve::EffectClass;
use crate::cmd::table::Sheet;
use crate::cmd::text;
use crate::domain::limits;
use crate::proto::v1;

/// What holds for the records of an environment. What is not given stays, or takes its default.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Policy")]
pub(super) struct PolicyArgs {
    /// The lease of a Reserve that names none [default: 30s].
    #[arg(long, value_name = "DURATION", value_parser = args::second_or_more)]
    default_lease: Option<Duration>,

    /// The longest that one reservation can be renewed; longer than your longest job [default: 15m].
    #[arg(long, value_name = "DURATION", value_parser = args::second_or_more)]
    max_total_lease: Option<Duration>,

    /// The longest that a Reserve waits for a running holder [default: 30s].
    #[arg(long, value_name = "DURATION", value_parser = args::positive)]
    max_wait: Option<Duration>,

    /// How long an outcome is replayed [default: 24h].
    #[arg(long, value_name = "DURATION", value_parser = args::second_or_more)]
    retention: Option<Duration>,

    /// How long a key stays closed after that; 0s opens it at once [default: 30days].
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    tombstone_retention: Option<Duration>,

    /// What the effects' other side can do [default: opaque].
    #[arg(long, value_enum, value_name = "CLASS")]
    effect_class: Option<EffectClass>,

    /// KEYED: how long the other side remembers a key.
    #[arg(long, value_name = "DURATION", value_parser = args::second_or_more)]
    keyed_window: Option<Duration>,

    /// QUERYABLE, KEYED: the longest that a holder can be paused and still send.
    #[arg(long, value_name = "DURATION", value_parser = args::positive)]
    settle_max_pause: Option<Duration>,

    /// QUERYABLE, KEYED: the longest that a request can be under way.
    #[arg(long, value_name = "DURATION", value_parser = args::positive)]
    settle_max_delay: Option<Duration>,

    /// Whether a Reserve must say what its request was [default: optional].
    #[arg(long, value_enum, value_name = "MODE")]
    fingerprint: Option<FingerprintMode>,

    /// The largest payload that is kept, up to 1048576 [default: 262144].
    #[arg(long, value_name = "BYTES", value_parser = payload_limit())]
    payload_bytes_max: Option<i64>,

    /// Whether payloads are kept or only their digests [default: full].
    #[arg(long, value_enum, value_name = "MODE")]
    outcome_mode: Option<OutcomeMode>,

    /// What HTTP middleware answers to a mismatch, 422 or 409 [default: 422].
    #[arg(long, value_name = "STATUS", value_parser = mismatch_status)]
    mismatch_http_status: Option<i32>,

    /// The takeover after this many parks a record, up to 1000 [default: 5].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..=1000))]
    max_recoveries: Option<i32>,

    #[command(flatten)]
    signals: SignalArgs,
}

/// When the signals that tell whether the gate still works turn into alerts.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Signals")]
struct SignalArgs {
    /// The share of duplicates below which the alert rings [default: 0.01].
    #[arg(long, value_name = "SHARE", value_parser = share)]
    duplicate_ratio_low: Option<f64>,

    /// The share of duplicates above which the alert rings [default: 0.2].
    #[arg(long, value_name = "SHARE", value_parser = share)]
    duplicate_ratio_high: Option<f64>,

    /// The age of the oldest record in flight from which the alert rings [default: 10m].
    #[arg(long, value_name = "DURATION", value_parser = args::positive)]
    oldest_in_flight: Option<Duration>,

    /// The number of effect ids under one key from which the alert rings [default: 2].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(2..=16))]
    distinct_effect_ids: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FingerprintMode {
    /// A Reserve may come without one.
    Optional,
    /// A Reserve without one is refused.
    Required,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutcomeMode {
    /// Payloads are kept and replayed.
    Full,
    /// Only digests are kept.
    DigestOnly,
}

fn payload_limit() -> clap::builder::RangedI64ValueParser<i64> {
    let cap = i64::try_from(limits::PAYLOAD_BYTES_CAP).unwrap_or(i64::MAX);
    clap::value_parser!(i64).range(1..=cap)
}

fn mismatch_status(text: &str) -> Result<i32, String> {
    match text {
        "422" => Ok(422),
        "409" => Ok(409),
        _ => Err("must be 422 or 409".to_owned()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text
        .parse()
        .map_err(|_error| "must be a number".to_owned())?;
    if share > 0.0 && share <= 1.0 {
        Ok(share)
    } else {
        Err("must be above 0 and at most 1".to_owned())
    }
}

/// Sets a field if its flag was given.
fn set<T, U: From<T>>(field: &mut U, given: Option<T>) {
    if let Some(value) = given {
        *field = value.into();
    }
}

impl PolicyArgs {
    /// Whether no flag was given.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Changes what was given and leaves the rest.
    pub(super) fn apply(&self, environment: &mut v1::Environment) {
        if self.is_empty() {
            return;
        }
        let span = |given: Option<Duration>| given.map(text::to_proto);
        let policy = environment.policy.get_or_insert_default();
        set(&mut policy.default_lease, span(self.default_lease));
        set(&mut policy.max_total_lease, span(self.max_total_lease));
        set(&mut policy.max_wait, span(self.max_wait));
        set(&mut policy.retention, span(self.retention));
        set(
            &mut policy.tombstone_retention,
            span(self.tombstone_retention),
        );
        set(&mut policy.keyed_window, span(self.keyed_window));
        set(&mut policy.settle_max_pause, span(self.settle_max_pause));
        set(&mut policy.settle_max_delay, span(self.settle_max_delay));
        set(&mut policy.payload_bytes_max, self.payload_bytes_max);
        set(&mut policy.mismatch_http_status, self.mismatch_http_status);
        set(&mut policy.max_recoveries, self.max_recoveries);
        if let Some(class) = self.effect_class {
            policy.set_effect_class(class.into());
        }
        if let Some(mode) = self.fingerprint {
            policy.set_fingerprint(match mode {
                FingerprintMode::Optional => v1::FingerprintMode::Optional,
                FingerprintMode::Required => v1::FingerprintMode::Required,
            });
        }
        if let Some(mode) = self.outcome_mode {
            policy.set_outcome_mode(match mode {
                OutcomeMode::Full => v1::OutcomeMode::Full,
                OutcomeMode::DigestOnly => v1::OutcomeMode::DigestOnly,
            });
        }
        self.signals.apply(environment);
    }
}

impl SignalArgs {
    fn apply(&self, environment: &mut v1::Environment) {
        if *self == Self::default() {
            return;
        }
        let signals = environment.signal_thresholds.get_or_insert_default();
        set(&mut signals.duplicate_ratio_low, self.duplicate_ratio_low);
        set(&mut signals.duplicate_ratio_high, self.duplicate_ratio_high);
        set(
            &mut signals.oldest_in_flight,
            self.oldest_in_flight.map(text::to_proto),
        );
        set(&mut signals.distinct_effect_ids, self.distinct_effect_ids);
    }
}

/// An environment with what holds in it.
pub(super) fn sheet(environment: &v1::Environment) -> Sheet {
    let sheet = Sheet::new().row("environment", &environment.name);
    let Some(policy) = &environment.policy else {
        return sheet;
    };
    let mut sheet = sheet;
    for (name, span) in [
        ("  default lease", &policy.default_lease),
        ("  max total lease", &policy.max_total_lease),
        ("  max wait", &policy.max_wait),
        ("  retention", &policy.retention),
        ("  tombstone retention", &policy.tombstone_retention),
        ("  keyed window", &policy.keyed_window),
        ("  settle max pause", &policy.settle_max_pause),
        ("  settle max delay", &policy.settle_max_delay),
    ] {
        if span.is_some() {
            sheet = sheet.row(name, text::proto_span(span.as_ref()));
        }
    }
    let fingerprint = policy.fingerprint().as_str_name();
    let mode = policy.outcome_mode().as_str_name();
    let sheet = sheet
        .row("  effect class", class_name(policy.effect_class()))
        .row(
            "  fingerprint",
            text::enum_name(fingerprint, "FINGERPRINT_MODE_"),
        )
        .row("  payload bytes max", policy.payload_bytes_max.to_string())
        .row("  outcome mode", text::enum_name(mode, "OUTCOME_MODE_"))
        .row(
            "  mismatch http status",
            policy.mismatch_http_status.to_string(),
        )
        .row("  max recoveries", policy.max_recoveries.to_string());
    let Some(signals) = &environment.signal_thresholds else {
        return sheet;
    };
    let ratios = format!(
        "below {} or above {}",
        signals.duplicate_ratio_low, signals.duplicate_ratio_high
    );
    let oldest = text::proto_span(signals.oldest_in_flight.as_ref());
    sheet
        .row("  alert on duplicates", ratios)
        .row("  alert on in flight", oldest)
        .row(
            "  alert on effect ids",
            signals.distinct_effect_ids.to_string(),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_that_is_not_given_changes_nothing() {
        let stored = v1::Environment {
            name: "live".to_owned(),
            policy: Some(v1::NamespacePolicy {
                max_recoveries: 7,
                retention: Some(text::to_proto(Duration::from_mins(1))),
                ..v1::NamespacePolicy::default()
            }),
            ..v1::Environment::default()
        };
        let mut changed = stored.clone();
        PolicyArgs::default().apply(&mut changed);
        assert_eq!(changed, stored);

        let given = PolicyArgs {
            retention: Some(Duration::from_mins(2)),
            ..PolicyArgs::default()
        };
        given.apply(&mut changed);
        let policy = changed.policy.expect("it stays");
        assert_eq!(policy.max_recoveries, 7);
        let retention = policy.retention.expect("it was given");
        assert_eq!(retention, text::to_proto(Duration::from_mins(2)));
        assert_eq!(changed.signal_thresholds, None);
    }

    #[test]
    fn a_share_is_a_number_between_nothing_and_all() {
        for text in ["0", "-0.1", "1.01", "NaN", "inf", "x"] {
            assert!(share(text).is_err(), "{text}");
        }
        assert_eq!(share("0.2"), Ok(0.2));
    }
}
