//! How values are written for people. Nothing that came from elsewhere may steer the terminal.

use std::time::Duration;

/// Replaces what could steer a terminal, and line ends, by their escapes.
pub(crate) fn one_line(text: &str) -> String {
    escaped(text, char::is_control)
}

/// Replaces what could steer a terminal; line ends and tabs stay.
pub(crate) fn lines(text: &str) -> String {
    escaped(text, |c| c.is_control() && !matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, must: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if must(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A span without the digits that nobody reads: `1m 30s`, `1.5s`, `0s`.
pub(crate) fn span(span: Duration) -> String {
    let millis = span.as_millis();
    if millis >= 10_000 {
        return humantime::format_duration(Duration::from_secs(span.as_secs())).to_string();
    }
    let (seconds, rest) = (millis / 1000, millis % 1000);
    if rest == 0 {
        return format!("{seconds}s");
    }
    format!("{seconds}.{rest:03}")
        .trim_end_matches('0')
        .to_owned()
        + "s"
}

/// A duration of the protocol; `-` if there is none.
pub(crate) fn proto_span(duration: Option<&prost_types::Duration>) -> String {
    duration.map_or_else(|| "-".to_owned(), |given| span(to_std(*given)))
}

/// A duration of the protocol as one of ours; a negative one is zero.
pub(crate) fn to_std(duration: prost_types::Duration) -> Duration {
    Duration::try_from(duration).unwrap_or_default()
}

/// A duration for the protocol. The arguments' limits keep it in range.
pub(crate) fn to_proto(span: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(span.subsec_nanos()).unwrap_or(0),
    }
}

/// A time of the protocol: `2026-05-04 03:02:01Z`; `-` if there is none.
pub(crate) fn time(time: Option<&prost_types::Timestamp>) -> String {
    time.and_then(|time| jiff::Timestamp::new(time.seconds, time.nanos).ok())
        .map_or_else(
            || "-".to_owned(),
            |time| time.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
        )
}

/// An enum value's name without the enum's own: `OUTCOME_STATUS_FAILED` is `FAILED`.
pub(crate) fn enum_name(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_steer_the_terminal() {
        assert_eq!(one_line("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(lines("a\u{9b}b\n\tc"), "a\\u{9b}b\n\tc");
    }

    #[test]
    fn a_span_shows_what_people_read() {
        for (millis, want) in [
            (0, "0s"),
            (1, "0.001s"),
            (1500, "1.5s"),
            (9_999, "9.999s"),
            (10_400, "10s"),
            (90_000, "1m 30s"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), want);
        }
    }

    #[test]
    fn a_time_is_shown_in_utc() {
        let shown = time(Some(&prost_types::Timestamp {
            seconds: 86_399,
            nanos: 5,
        }));
        assert_eq!(shown, "1970-01-01 23:59:59Z");
        assert_eq!(time(None), "-");
    }

    #[test]
    fn a_duration_survives_the_way_to_the_protocol_and_back() {
        let span = Duration::from_millis(1_234_567);
        assert_eq!(to_std(to_proto(span)), span);
    }
}
