//! Why a command did not do what was asked, as its user reads it.

use std::time::Duration;

use tonic::Status;
use tonic_types::StatusExt;

use super::exit::Exit;
use crate::config::Problems;
use crate::domain::error::InvalidField;

/// An exit code and the lines that explain it. The first line is the message.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) lines: Vec<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            lines: vec![message.into()],
        }
    }

    /// The arguments are wrong; nothing was sent.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn hint(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Says under what the message happened.
    #[must_use]
    pub(crate) fn within(mut self, what: &str) -> Self {
        if let Some(first) = self.lines.first_mut() {
            *first = format!("{what}: {first}");
        }
        self
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let mut failure = Self::new(Exit::of_status(status.code()), message_of(&status));
        let details = status.get_error_details();
        if let Some(request) = details.bad_request() {
            for violation in &request.field_violations {
                let line = format!("field: {}: {}", violation.field, violation.description);
                failure.lines.push(line);
            }
        }
        if let Some(info) = details.error_info() {
            if info.reason == "MESSAGE_TOO_LARGE" {
                failure.exit = Exit::Usage;
            }
            failure.lines.push(format!("reason: {}", info.reason));
            let page = format!("read: docs/errors/{}.md", info.reason);
            failure.lines.push(page);
        } else {
            failure
                .lines
                .push(format!("gRPC code: {:?}", status.code()));
        }
        if let Some(delay) = retry_after(&status) {
            failure
                .lines
                .push(format!("ask again in {}", super::text::span(delay)));
        }
        failure
    }
}

impl From<InvalidField> for Failure {
    fn from(invalid: InvalidField) -> Self {
        Self::usage(invalid.to_string())
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        let mut failure = Self::usage("the configuration cannot be used:");
        // A driver's text may itself have several lines, and an empty last one.
        let lines = problems.0.iter().flat_map(|problem| problem.lines());
        failure.lines.extend(lines.map(str::to_owned));
        failure
    }
}

/// What ends a server: settings that cannot be used, or anything else.
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<Problems>() {
            Ok(problems) => problems.into(),
            Err(error) => Self::new(Exit::Failed, format!("{error:#}")),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Exit::Failed, error.to_string())
    }
}

/// How long the server wants to be left alone, if it says so.
pub(crate) fn retry_after(status: &Status) -> Option<Duration> {
    status
        .get_error_details()
        .retry_info()
        .and_then(|info| info.retry_delay)
}

/// The message, with the causes that a transport error hides behind its own.
fn message_of(status: &Status) -> String {
    let mut message = status.message().to_owned();
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let text = error.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        cause = error.source();
    }
    super::text::one_line(&message)
}

#[cfg(test)]
mod tests {
    use tonic::Code;
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn an_error_shows_message_field_reason_and_page() {
        let mut details = ErrorDetails::new();
        details
            .set_error_info("INVALID_FIELD", "oncegate", [])
            .add_bad_request_violation("key.key", "must be 1..=255 bytes, is 300");
        let status = Status::with_error_details(Code::InvalidArgument, "the key is bad", details);
        let failure = Failure::from(status);
        assert_eq!(failure.exit, Exit::Usage);
        assert_eq!(
            failure.lines,
            [
                "the key is bad",
                "field: key.key: must be 1..=255 bytes, is 300",
                "reason: INVALID_FIELD",
                "read: docs/errors/INVALID_FIELD.md",
            ]
        );
    }

    #[test]
    fn problems_of_a_configuration_are_usage_errors_one_a_line() {
        let problems = || Problems(vec!["a.b: bad\n".to_owned(), "c.d: worse".to_owned()]);
        for failure in [
            Failure::from(problems()),
            anyhow::Error::from(problems()).into(),
        ] {
            assert_eq!(failure.exit, Exit::Usage);
            let want = [
                "the configuration cannot be used:",
                "a.b: bad",
                "c.d: worse",
            ];
            assert_eq!(failure.lines, want);
        }
    }

    #[test]
    fn a_message_that_is_too_large_is_the_callers_fault() {
        let mut details = ErrorDetails::new();
        details.set_error_info("MESSAGE_TOO_LARGE", "oncegate", []);
        let status = Status::with_error_details(Code::ResourceExhausted, "too large", details);
        assert_eq!(Failure::from(status).exit, Exit::Usage);
    }

    #[test]
    fn an_error_without_a_reason_shows_its_code() {
        let failure = Failure::from(Status::unavailable("nobody there"));
        assert_eq!(failure.exit, Exit::Unavailable);
        assert_eq!(failure.lines, ["nobody there", "gRPC code: Unavailable"]);
    }
}
