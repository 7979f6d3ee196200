//! Durations and points in time.

use std::time::Duration;

use crate::domain::error::InvalidField;
use crate::domain::time::Timestamp;

/// What protobuf allows for a duration: about 10,000 years.
const SECONDS_MAX: i64 = 315_576_000_000;
const NANOS_MAX: i32 = 999_999_999;
const NANOS_PER_MS: u128 = 1_000_000;
const MICROS_PER_SECOND: i64 = 1_000_000;

/// A duration of which unset and zero mean the default.
///
/// # Errors
///
/// Names the field: it is negative or malformed.
pub fn duration(
    field: &str,
    given: Option<prost_types::Duration>,
) -> Result<Option<Duration>, InvalidField> {
    Ok(duration_or_zero(field, given)?.filter(|span| !span.is_zero()))
}

/// A duration of which zero is a value of its own. Rounded up to 1 ms.
///
/// # Errors
///
/// Names the field: it is negative or malformed.
pub fn duration_or_zero(
    field: &str,
    given: Option<prost_types::Duration>,
) -> Result<Option<Duration>, InvalidField> {
    let Some(given) = given else { return Ok(None) };
    let (seconds, nanos) = (given.seconds, given.nanos);
    let mixed = (seconds > 0 && nanos < 0) || (seconds < 0 && nanos > 0);
    if mixed || !(-NANOS_MAX..=NANOS_MAX).contains(&nanos) {
        let problem = "is malformed: nanos must be 0..=999999999, of the sign of seconds";
        return Err(InvalidField::new(field, problem));
    }
    if seconds < 0 || nanos < 0 {
        return Err(InvalidField::new(field, "must not be negative"));
    }
    if seconds > SECONDS_MAX {
        let problem = format!("must be at most {SECONDS_MAX} s");
        return Err(InvalidField::new(field, problem));
    }
    let exact = Duration::new(seconds.unsigned_abs(), nanos.unsigned_abs());
    let whole_ms = exact.as_nanos().div_ceil(NANOS_PER_MS);
    Ok(Some(Duration::from_millis(
        u64::try_from(whole_ms).unwrap_or(u64::MAX),
    )))
}

/// A duration as a message.
pub fn span(span: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(span.as_secs()).unwrap_or(SECONDS_MAX),
        nanos: i32::try_from(span.subsec_nanos()).unwrap_or(NANOS_MAX),
    }
}

/// A point in time as a message.
pub fn timestamp(at: Timestamp) -> prost_types::Timestamp {
    let micros = at.as_micros();
    let nanos = micros.rem_euclid(MICROS_PER_SECOND) * 1000;
    prost_types::Timestamp {
        seconds: micros.div_euclid(MICROS_PER_SECOND),
        nanos: i32::try_from(nanos).unwrap_or(NANOS_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_refused_or_rounded_up_to_a_millisecond() {
        let given = |seconds, nanos| Some(prost_types::Duration { seconds, nanos });
        let ms = |ms| Ok(Some(Duration::from_millis(ms)));
        for (given, want) in [
            (None, Ok(None)),
            (given(0, 0), Ok(None)),
            (given(0, 1), ms(1)),
            (given(0, 1_000_000), ms(1)),
            (given(0, 1_000_001), ms(2)),
            (given(1, 999_999_999), ms(2000)),
            (given(-1, 0), Err("must not be negative")),
            (given(0, -1), Err("must not be negative")),
            (given(1, -1), Err("is malformed")),
            (given(-1, 1), Err("is malformed")),
            (given(0, 1_000_000_000), Err("is malformed")),
            (given(0, i32::MIN), Err("is malformed")),
            (given(i64::MAX, 0), Err("must be at most")),
            (given(i64::MIN, 0), Err("must not be negative")),
        ] {
            match (duration("lease", given), want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{given:?}"),
                (Err(error), Err(want)) => {
                    assert_eq!(error.field, "lease");
                    assert!(error.problem.starts_with(want), "{given:?}: {error}");
                }
                (got, want) => panic!("{given:?}: {got:?}, not {want:?}"),
            }
        }
    }

    #[test]
    fn times_before_the_epoch_keep_positive_nanos() {
        let got = timestamp(Timestamp::from_micros(-1));
        assert_eq!((got.seconds, got.nanos), (-1, 999_999_000));
    }
}
