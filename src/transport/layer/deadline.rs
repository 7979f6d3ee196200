//! Until when an answer is of use: the call's own `grpc-timeout`, or the server's default.

use std::time::Duration;

use http::HeaderMap;
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Status};

const HEADER: &str = "grpc-timeout";
/// The part of a call's time that is kept for a handler's own answer, e.g. that the outcome of a
/// write is not known, to reach its caller.
const ANSWER_TIME_MAX: Duration = Duration::from_millis(50);
const ANSWER_SHARE: u32 = 10;

/// How long a call has.
pub(super) struct Until {
    /// When its handler must have answered.
    pub(super) answer: Instant,
    /// When an answer is of no more use.
    pub(super) end: Instant,
}

/// What a server decides about deadlines.
#[derive(Debug, Clone, Copy)]
pub struct DeadlineOptions {
    /// For calls that name none.
    pub default: Duration,
    /// The longest.
    pub max: Duration,
}

/// How long a call has that begins now.
pub(super) fn of(options: DeadlineOptions, headers: &HeaderMap) -> Result<Until, Status> {
    let started = Instant::now();
    let given = timeout(headers)?;
    let time = given.unwrap_or(options.default).min(options.max);
    if time.is_zero() {
        return Err(exceeded());
    }
    let end = started + time;
    let answer_time = (time / ANSWER_SHARE).min(ANSWER_TIME_MAX);
    Ok(Until {
        answer: end - answer_time,
        end,
    })
}

/// Answers when the deadline is over. What a handler has begun by then goes on in its owner task.
pub(super) async fn keep<T>(end: Instant, answer: impl Future<Output = T>) -> Result<T, Status> {
    timeout_at(end, answer).await.map_err(|_elapsed| exceeded())
}

fn exceeded() -> Status {
    Status::new(Code::DeadlineExceeded, "the call's deadline is over")
}

/// At most eight digits and a unit, as gRPC over HTTP/2 has it.
fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Status> {
    let Some(header) = headers.get(HEADER) else {
        return Ok(None);
    };
    let malformed = || Status::invalid_argument("the header grpc-timeout is malformed");
    let text = header.to_str().map_err(|_not_text| malformed())?;
    let (digits, unit) = text
        .split_at_checked(text.len().saturating_sub(1))
        .ok_or_else(malformed)?;
    let plain = (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let number: u64 = digits
        .parse()
        .ok()
        .filter(|_| plain)
        .ok_or_else(malformed)?;
    match unit {
        "H" => Ok(Some(Duration::from_secs(number * 3600))),
        "M" => Ok(Some(Duration::from_secs(number * 60))),
        "S" => Ok(Some(Duration::from_secs(number))),
        "m" => Ok(Some(Duration::from_millis(number))),
        "u" => Ok(Some(Duration::from_micros(number))),
        "n" => Ok(Some(Duration::from_nanos(number))),
        _ => Err(malformed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_eight_digits_and_a_unit_and_nothing_else() {
        for (text, want) in [
            ("1H", Some(Duration::from_hours(1))),
            ("2M", Some(Duration::from_mins(2))),
            ("99999999S", Some(Duration::from_secs(99_999_999))),
            ("15m", Some(Duration::from_millis(15))),
            ("7u", Some(Duration::from_micros(7))),
            ("0n", Some(Duration::ZERO)),
            ("", None),
            ("S", None),
            ("1", None),
            ("-1S", None),
            ("+1S", None),
            ("1.5S", None),
            ("123456789S", None),
            ("1 S", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, text.parse().expect("a header"));
            assert_eq!(timeout(&headers).ok().flatten(), want, "{text:?}");
        }
    }
}
