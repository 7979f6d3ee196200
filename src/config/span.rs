//! Durations as people write them: `250ms`, `30s`, `15m`.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A duration in its text form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(pub Duration);

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        humantime::parse_duration(&text)
            .map(Self)
            .map_err(|error| format!("{text:?} is no duration such as \"30s\": {error}"))
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", humantime::format_duration(self.0))
    }
}
