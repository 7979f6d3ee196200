//! Points in time as the database tells them. Nothing here asks what time it is.

use std::time::Duration;

/// Microseconds since 1970-01-01T00:00:00Z on the database's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The point that lies before every other one in use.
    pub const EPOCH: Self = Self(0);

    /// Takes microseconds since the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Gives microseconds since the epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The point `span` later; stops at the end of time instead of overflowing.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(micros(span)))
    }

    /// How long after `earlier` this is; zero if it is not after.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// A span in whole microseconds, at most `i64::MAX`.
pub fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
