//! Policies and the enums they choose from.

use super::field::known;
use super::time::{duration, duration_or_zero, span};
use crate::domain::error::InvalidField;
use crate::domain::limits;
use crate::domain::policy::{EffectClass, FingerprintMode, OutcomeMode, Policy, Terms};
use crate::proto::v1 as pb;

/// The class that a request names, if it names one.
pub(super) const fn effect_class(given: pb::EffectClass) -> Option<EffectClass> {
    match given {
        pb::EffectClass::Unspecified => None,
        pb::EffectClass::Opaque => Some(EffectClass::Opaque),
        pb::EffectClass::Receipt => Some(EffectClass::Receipt),
        pb::EffectClass::Keyed => Some(EffectClass::Keyed),
        pb::EffectClass::Fenced => Some(EffectClass::Fenced),
        pb::EffectClass::Queryable => Some(EffectClass::Queryable),
        pb::EffectClass::Repeatable => Some(EffectClass::Repeatable),
    }
}

/// A class as its number.
pub fn effect_class_number(class: EffectClass) -> i32 {
    let class = match class {
        EffectClass::Opaque => pb::EffectClass::Opaque,
        EffectClass::Receipt => pb::EffectClass::Receipt,
        EffectClass::Keyed => pb::EffectClass::Keyed,
        EffectClass::Fenced => pb::EffectClass::Fenced,
        EffectClass::Queryable => pb::EffectClass::Queryable,
        EffectClass::Repeatable => pb::EffectClass::Repeatable,
    };
    class.into()
}

/// A policy with every default filled in. Its ranges are the domain's to check.
///
/// # Errors
///
/// Names the field that is malformed.
pub fn policy(given: Option<pb::NamespacePolicy>) -> Result<Policy, InvalidField> {
    let Some(given) = given else {
        return Ok(Policy::default());
    };
    let defaults = Policy::default();
    let fingerprint = match known("fingerprint", given.fingerprint)? {
        pb::FingerprintMode::Unspecified => defaults.fingerprint,
        pb::FingerprintMode::Optional => FingerprintMode::Optional,
        pb::FingerprintMode::Required => FingerprintMode::Required,
    };
    let default_lease = duration("default_lease", given.default_lease)?;
    let max_wait = duration("max_wait", given.max_wait)?;
    let mismatch_http_status = given.mismatch_http_status;
    Ok(Policy {
        terms: terms(&given, &defaults.terms)?,
        default_lease: default_lease.unwrap_or(defaults.default_lease),
        max_wait: max_wait.unwrap_or(defaults.max_wait),
        fingerprint,
        mismatch_http_status: number("mismatch_http_status", mismatch_http_status)?
            .unwrap_or(defaults.mismatch_http_status),
    })
}

fn terms(given: &pb::NamespacePolicy, defaults: &Terms) -> Result<Terms, InvalidField> {
    let effect_class = effect_class(known("effect_class", given.effect_class)?);
    let outcome_mode = match known("outcome_mode", given.outcome_mode)? {
        pb::OutcomeMode::Unspecified => defaults.outcome_mode,
        pb::OutcomeMode::Full => OutcomeMode::Full,
        pb::OutcomeMode::DigestOnly => OutcomeMode::DigestOnly,
    };
    let or = |field, given, default| Ok(duration(field, given)?.unwrap_or(default));
    let tombstone = duration_or_zero("tombstone_retention", given.tombstone_retention)?;
    let payload_bytes_max = number("payload_bytes_max", given.payload_bytes_max)?;
    Ok(Terms {
        effect_class: effect_class.unwrap_or(defaults.effect_class),
        keyed_window: or("keyed_window", given.keyed_window, defaults.keyed_window)?,
        settle_max_pause: or(
            "settle_max_pause",
            given.settle_max_pause,
            defaults.settle_max_pause,
        )?,
        settle_max_delay: or(
            "settle_max_delay",
            given.settle_max_delay,
            defaults.settle_max_delay,
        )?,
        max_total_lease: or(
            "max_total_lease",
            given.max_total_lease,
            defaults.max_total_lease,
        )?,
        retention: or("retention", given.retention, defaults.retention)?,
        tombstone_retention: tombstone.unwrap_or(defaults.tombstone_retention),
        payload_bytes_max: payload_bytes_max
            .unwrap_or(defaults.payload_bytes_max)
            .min(limits::PAYLOAD_BYTES_CAP),
        outcome_mode,
        max_recoveries: number("max_recoveries", given.max_recoveries)?
            .unwrap_or(defaults.max_recoveries),
    })
}

/// A number of which zero means the default.
pub(super) fn number<G, T>(field: &str, given: G) -> Result<Option<T>, InvalidField>
where
    G: Copy + Default + PartialOrd + std::fmt::Display,
    T: TryFrom<G>,
{
    if given == G::default() {
        return Ok(None);
    }
    let number = T::try_from(given).map_err(|_out_of_range| {
        let problem = if given < G::default() {
            "must not be negative".to_owned()
        } else {
            format!("{given} is too large")
        };
        InvalidField::new(field, problem)
    })?;
    Ok(Some(number))
}

/// A policy as a message. `version` is that of its namespace.
pub fn policy_message(policy: &Policy, version: i64) -> pb::NamespacePolicy {
    let terms = &policy.terms;
    let fingerprint = match policy.fingerprint {
        FingerprintMode::Optional => pb::FingerprintMode::Optional,
        FingerprintMode::Required => pb::FingerprintMode::Required,
    };
    let outcome_mode = match terms.outcome_mode {
        OutcomeMode::Full => pb::OutcomeMode::Full,
        OutcomeMode::DigestOnly => pb::OutcomeMode::DigestOnly,
    };
    let set = |length: std::time::Duration| (!length.is_zero()).then(|| span(length));
    pb::NamespacePolicy {
        default_lease: Some(span(policy.default_lease)),
        max_total_lease: Some(span(terms.max_total_lease)),
        max_wait: Some(span(policy.max_wait)),
        retention: Some(span(terms.retention)),
        tombstone_retention: Some(span(terms.tombstone_retention)),
        effect_class: effect_class_number(terms.effect_class),
        keyed_window: set(terms.keyed_window),
        settle_max_pause: set(terms.settle_max_pause),
        settle_max_delay: set(terms.settle_max_delay),
        fingerprint: fingerprint.into(),
        payload_bytes_max: i64::try_from(terms.payload_bytes_max).unwrap_or(i64::MAX),
        outcome_mode: outcome_mode.into(),
        mismatch_http_status: i32::from(policy.mismatch_http_status),
        max_recoveries: i32::try_from(terms.max_recoveries).unwrap_or(i32::MAX),
        etag: version.to_string(),
    }
}
