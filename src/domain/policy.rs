//! What a namespace's owner chooses for its records, and the part of it that a record keeps.

use std::time::Duration;

use super::error::InvalidField;
use super::limits;

const DAY: Duration = Duration::from_hours(24);

/// What the effect's other side can do; it decides what may happen after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EffectClass {
    /// Nothing is known: never repeated automatically.
    Opaque,
    /// The effect and a receipt row are written in one transaction.
    Receipt,
    /// The other side deduplicates by the downstream key for a known window.
    Keyed,
    /// The other side refuses fences lower than one it has seen.
    Fenced,
    /// The other side can only be asked what happened.
    Queryable,
    /// Repeating the effect is harmless.
    Repeatable,
}

/// Whether a Reserve must bring a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FingerprintMode {
    /// A Reserve may come without one.
    Optional,
    /// A Reserve without one is refused.
    Required,
}

/// Whether payloads are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutcomeMode {
    /// Payloads are kept and replayed.
    Full,
    /// Only digests are kept.
    DigestOnly,
}

/// What decides about a record; snapshotted into it at its grant, so that a later change of the
/// namespace's policy does not change what was promised.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Terms {
    /// What the other side can do.
    pub effect_class: EffectClass,
    /// KEYED: how long the other side remembers a key.
    pub keyed_window: Duration,
    /// The longest that a holder can be paused and still send.
    pub settle_max_pause: Duration,
    /// The longest that a request can be under way.
    pub settle_max_delay: Duration,
    /// The longest that one reservation can be renewed, from its start.
    pub max_total_lease: Duration,
    /// How long an outcome is kept, from its completion.
    pub retention: Duration,
    /// How long a tombstone stays after that; zero: the key may be used again.
    pub tombstone_retention: Duration,
    /// The largest payload that is kept.
    pub payload_bytes_max: u64,
    /// Whether payloads are kept at all.
    pub outcome_mode: OutcomeMode,
    /// The takeover after this many parks the record instead.
    pub max_recoveries: u32,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            effect_class: EffectClass::Opaque,
            keyed_window: Duration::ZERO,
            settle_max_pause: Duration::ZERO,
            settle_max_delay: Duration::ZERO,
            max_total_lease: Duration::from_mins(15),
            retention: DAY,
            tombstone_retention: DAY * 30,
            payload_bytes_max: 256 * 1024,
            outcome_mode: OutcomeMode::Full,
            max_recoveries: 5,
        }
    }
}

impl Terms {
    /// How long after a lease's end the effect of its holder can still arrive.
    pub fn settle_time(&self) -> Duration {
        self.settle_max_pause.saturating_add(self.settle_max_delay)
    }

    /// The retention of one outcome: what its caller asked for or the namespace's, never so short
    /// that a key of class KEYED could be used again while the other side remembers it.
    pub fn retention_of(&self, asked: Option<Duration>) -> Duration {
        let retention = asked.unwrap_or(self.retention);
        let least = match self.effect_class {
            EffectClass::Keyed => self.keyed_window.saturating_sub(self.tombstone_retention),
            EffectClass::Opaque
            | EffectClass::Receipt
            | EffectClass::Fenced
            | EffectClass::Queryable
            | EffectClass::Repeatable => Duration::ZERO,
        };
        retention
            .max(least)
            .clamp(limits::RETENTION_MIN, limits::RETENTION_CAP)
    }

    /// Checks that the class has what it needs.
    ///
    /// # Errors
    ///
    /// Names the setting that is missing or too short.
    pub fn check(&self) -> Result<(), InvalidField> {
        match self.effect_class {
            EffectClass::Keyed if self.keyed_window.is_zero() => Err(InvalidField::new(
                "keyed_window",
                "is required for effect class KEYED",
            )),
            EffectClass::Keyed
                if self.retention.saturating_add(self.tombstone_retention) < self.keyed_window =>
            {
                let problem = "retention + tombstone_retention must be at least keyed_window";
                Err(InvalidField::new("tombstone_retention", problem))
            }
            EffectClass::Queryable if self.settle_max_pause.is_zero() => {
                let problem = "is required for effect class QUERYABLE";
                Err(InvalidField::new("settle_max_pause", problem))
            }
            EffectClass::Queryable if self.settle_max_delay.is_zero() => {
                let problem = "is required for effect class QUERYABLE";
                Err(InvalidField::new("settle_max_delay", problem))
            }
            EffectClass::Keyed
            | EffectClass::Queryable
            | EffectClass::Opaque
            | EffectClass::Receipt
            | EffectClass::Fenced
            | EffectClass::Repeatable => Ok(()),
        }
    }
}

/// What holds for the records of one namespace and environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The part that a record keeps.
    pub terms: Terms,
    /// The lease of a call that names none.
    pub default_lease: Duration,
    /// The longest that a call may wait for a running holder.
    pub max_wait: Duration,
    /// Whether a fingerprint is required.
    pub fingerprint: FingerprintMode,
    /// What HTTP middleware answers to a mismatch: 422 or 409.
    pub mismatch_http_status: u16,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            terms: Terms::default(),
            default_lease: Duration::from_secs(30),
            max_wait: Duration::from_secs(30),
            fingerprint: FingerprintMode::Optional,
            mismatch_http_status: 422,
        }
    }
}

impl Policy {
    /// Checks every setting against its range and against the others.
    ///
    /// # Errors
    ///
    /// Names the first setting that is out of its range.
    pub fn check(&self) -> Result<(), InvalidField> {
        let terms = &self.terms;
        let day_cap = limits::RETENTION_CAP;
        within(
            "max_total_lease",
            terms.max_total_lease,
            limits::LEASE_MIN,
            limits::TOTAL_LEASE_CAP,
        )?;
        within(
            "default_lease",
            self.default_lease,
            limits::LEASE_MIN,
            terms.max_total_lease,
        )?;
        within("max_wait", self.max_wait, Duration::ZERO, limits::WAIT_CAP)?;
        within("retention", terms.retention, limits::RETENTION_MIN, day_cap)?;
        within(
            "tombstone_retention",
            terms.tombstone_retention,
            Duration::ZERO,
            day_cap,
        )?;
        within("keyed_window", terms.keyed_window, Duration::ZERO, day_cap)?;
        within(
            "settle_max_pause",
            terms.settle_max_pause,
            Duration::ZERO,
            day_cap,
        )?;
        within(
            "settle_max_delay",
            terms.settle_max_delay,
            Duration::ZERO,
            day_cap,
        )?;
        if terms.payload_bytes_max > limits::PAYLOAD_BYTES_CAP {
            let problem = format!("must be 0..={}", limits::PAYLOAD_BYTES_CAP);
            return Err(InvalidField::new("payload_bytes_max", problem));
        }
        if !matches!(self.mismatch_http_status, 409 | 422) {
            return Err(InvalidField::new(
                "mismatch_http_status",
                "must be 409 or 422",
            ));
        }
        if terms.max_recoveries == 0 || terms.max_recoveries > limits::RECOVERIES_CAP {
            let problem = format!("must be 1..={}", limits::RECOVERIES_CAP);
            return Err(InvalidField::new("max_recoveries", problem));
        }
        terms.check()
    }
}

fn within(field: &str, value: Duration, min: Duration, max: Duration) -> Result<(), InvalidField> {
    if value < min || value > max {
        let problem = format!("must be {min:?}..={max:?}, is {value:?}");
        return Err(InvalidField::new(field, problem));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(Policy::default().check(), Ok(()));
    }

    #[test]
    fn a_class_without_what_it_needs_is_refused() {
        let hour = Duration::from_hours(1);
        let base = Terms::default;
        for (terms, field) in [
            (
                Terms {
                    effect_class: EffectClass::Keyed,
                    ..base()
                },
                Some("keyed_window"),
            ),
            (
                Terms {
                    effect_class: EffectClass::Keyed,
                    keyed_window: hour,
                    ..base()
                },
                None,
            ),
            (
                Terms {
                    effect_class: EffectClass::Keyed,
                    keyed_window: DAY * 2,
                    tombstone_retention: Duration::ZERO,
                    ..base()
                },
                Some("tombstone_retention"),
            ),
            (
                Terms {
                    effect_class: EffectClass::Queryable,
                    ..base()
                },
                Some("settle_max_pause"),
            ),
            (
                Terms {
                    effect_class: EffectClass::Queryable,
                    settle_max_pause: hour,
                    ..base()
                },
                Some("settle_max_delay"),
            ),
        ] {
            assert_eq!(
                terms.check().err().map(|e| e.field).as_deref(),
                field,
                "{terms:?}"
            );
        }
    }

    #[test]
    fn a_keyed_outcome_is_remembered_at_least_as_long_as_by_the_other_side() {
        let terms = Terms {
            effect_class: EffectClass::Keyed,
            keyed_window: DAY * 3,
            tombstone_retention: DAY,
            ..Terms::default()
        };
        assert_eq!(terms.retention_of(Some(Duration::from_mins(1))), DAY * 2);
        assert_eq!(Terms::default().retention_of(None), DAY);
        assert_eq!(
            Terms::default().retention_of(Some(Duration::ZERO)),
            limits::RETENTION_MIN
        );
    }
}
