//! Whose clock decides: the database's, or in tests one that is set by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::domain::time::{Timestamp, micros};

/// Where a store takes the time from. There is no third way: a replica's own clock never decides.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The database's own clock.
    #[default]
    Database,
    /// A clock that only moves when it is told to.
    Manual(ManualClock),
}

impl Clock {
    /// The time to use in place of the database's, in microseconds; what SQL gets as its optional
    /// now.
    pub fn injected(&self) -> Option<i64> {
        match self {
            Self::Database => None,
            Self::Manual(clock) => Some(clock.now().as_micros()),
        }
    }
}

/// A clock that only moves when it is told to. Copies share it.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// Starts at `now`.
    pub fn new(now: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(now.as_micros())))
    }

    /// The time it shows.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }

    /// Moves it forward.
    pub fn advance(&self, span: Duration) {
        self.0.fetch_add(micros(span), Ordering::SeqCst);
    }
}
