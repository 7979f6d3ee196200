//! The form in which every engine keeps a namespace: the JSON of its environments.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::namespace::{Environment, Namespace, SignalThresholds};
use crate::domain::policy::{EffectClass, FingerprintMode, OutcomeMode, Policy, Terms};
use crate::domain::time::{Timestamp, micros};
use crate::port::store::StoreError;

#[derive(Serialize, Deserialize)]
struct Stored {
    name: String,
    default_lease_us: i64,
    max_total_lease_us: i64,
    max_wait_us: i64,
    retention_us: i64,
    tombstone_retention_us: i64,
    effect_class: String,
    keyed_window_us: i64,
    settle_max_pause_us: i64,
    settle_max_delay_us: i64,
    fingerprint_required: bool,
    payload_bytes_max: u64,
    digest_only: bool,
    mismatch_http_status: u16,
    max_recoveries: u32,
    duplicate_ratio_low: f64,
    duplicate_ratio_high: f64,
    oldest_in_flight_us: i64,
    distinct_effect_ids: u32,
}

/// Makes the body of a namespace; its name, time of creation and version are columns.
pub(super) fn encode_namespace(namespace: &Namespace) -> Vec<u8> {
    let environments: Vec<_> = namespace.environments.iter().map(encode).collect();
    serde_json::to_vec(&environments).expect("plain numbers and texts always serialise")
}

/// Reads a namespace back.
///
/// # Errors
///
/// `Corrupt`: something in it cannot be right.
pub(super) fn decode_namespace(
    name: String,
    created_at: i64,
    version: i64,
    body: &[u8],
) -> Result<Namespace, StoreError> {
    let corrupt = |problem: String| StoreError::Corrupt(format!("namespace {name}: {problem}"));
    let stored: Vec<Stored> =
        serde_json::from_slice(body).map_err(|error| corrupt(error.to_string()))?;
    let environments = stored
        .into_iter()
        .map(decode)
        .collect::<Result<_, _>>()
        .map_err(&corrupt)?;
    let created_at = Timestamp::from_micros(created_at);
    let namespace = Namespace {
        name,
        environments,
        created_at,
        version,
    };
    let checked = namespace.check();
    checked
        .map_err(|error| StoreError::Corrupt(format!("namespace {}: {error}", namespace.name)))?;
    Ok(namespace)
}

fn encode(environment: &Environment) -> Stored {
    let (policy, signals) = (&environment.policy, &environment.signal_thresholds);
    let terms = &policy.terms;
    Stored {
        name: environment.name.clone(),
        default_lease_us: micros(policy.default_lease),
        max_total_lease_us: micros(terms.max_total_lease),
        max_wait_us: micros(policy.max_wait),
        retention_us: micros(terms.retention),
        tombstone_retention_us: micros(terms.tombstone_retention),
        effect_class: class_name(terms.effect_class).to_owned(),
        keyed_window_us: micros(terms.keyed_window),
        settle_max_pause_us: micros(terms.settle_max_pause),
        settle_max_delay_us: micros(terms.settle_max_delay),
        fingerprint_required: policy.fingerprint == FingerprintMode::Required,
        payload_bytes_max: terms.payload_bytes_max,
        digest_only: terms.outcome_mode == OutcomeMode::DigestOnly,
        mismatch_http_status: policy.mismatch_http_status,
        max_recoveries: terms.max_recoveries,
        duplicate_ratio_low: signals.duplicate_ratio_low,
        duplicate_ratio_high: signals.duplicate_ratio_high,
        oldest_in_flight_us: micros(signals.oldest_in_flight),
        distinct_effect_ids: signals.distinct_effect_ids,
    }
}

fn decode(stored: Stored) -> Result<Environment, String> {
    let effect_class = CLASSES
        .iter()
        .find(|class| class_name(**class) == stored.effect_class)
        .ok_or_else(|| format!("effect class {} is not known", stored.effect_class))?;
    let full = if stored.digest_only {
        OutcomeMode::DigestOnly
    } else {
        OutcomeMode::Full
    };
    let required = stored.fingerprint_required;
    let terms = Terms {
        effect_class: *effect_class,
        keyed_window: span(stored.keyed_window_us)?,
        settle_max_pause: span(stored.settle_max_pause_us)?,
        settle_max_delay: span(stored.settle_max_delay_us)?,
        max_total_lease: span(stored.max_total_lease_us)?,
        retention: span(stored.retention_us)?,
        tombstone_retention: span(stored.tombstone_retention_us)?,
        payload_bytes_max: stored.payload_bytes_max,
        outcome_mode: full,
        max_recoveries: stored.max_recoveries,
    };
    let policy = Policy {
        terms,
        default_lease: span(stored.default_lease_us)?,
        max_wait: span(stored.max_wait_us)?,
        fingerprint: if required {
            FingerprintMode::Required
        } else {
            FingerprintMode::Optional
        },
        mismatch_http_status: stored.mismatch_http_status,
    };
    let signal_thresholds = SignalThresholds {
        duplicate_ratio_low: stored.duplicate_ratio_low,
        duplicate_ratio_high: stored.duplicate_ratio_high,
        oldest_in_flight: span(stored.oldest_in_flight_us)?,
        distinct_effect_ids: stored.distinct_effect_ids,
    };
    Ok(Environment {
        name: stored.name,
        policy,
        signal_thresholds,
    })
}

const CLASSES: [EffectClass; 6] = [
    EffectClass::Opaque,
    EffectClass::Receipt,
    EffectClass::Keyed,
    EffectClass::Fenced,
    EffectClass::Queryable,
    EffectClass::Repeatable,
];

const fn class_name(class: EffectClass) -> &'static str {
    match class {
        EffectClass::Opaque => "OPAQUE",
        EffectClass::Receipt => "RECEIPT",
        EffectClass::Keyed => "KEYED",
        EffectClass::Fenced => "FENCED",
        EffectClass::Queryable => "QUERYABLE",
        EffectClass::Repeatable => "REPEATABLE",
    }
}

fn span(micros: i64) -> Result<Duration, String> {
    u64::try_from(micros)
        .map(Duration::from_micros)
        .map_err(|_negative| "a negative span".into())
}
