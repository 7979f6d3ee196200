//! What the database's clock says at the latest, from what it said last. For a bound that a reader
//! checks by itself: it may think that more time has passed than has, and never less.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::domain::time::Timestamp;
use crate::port::clock::Clock;

/// What was seen longer ago is not built upon: the database's clock may have been set since.
const SEEN_MAX: Duration = Duration::from_secs(10);
/// What a store's word on the time may lie behind the moment that it speaks of.
const MARGIN: Duration = Duration::from_secs(1);

/// The clock.
#[derive(Debug)]
pub(super) struct SeenClock {
    clock: Clock,
    seen: Mutex<Option<Seen>>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    /// When the question was sent: the answer is of a later moment.
    asked: Mark,
    said: Timestamp,
}

/// A moment of this machine, on a clock that goes on while the machine sleeps.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Mark(Duration);

impl Mark {
    fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
        Self(Duration::new(seconds, nanos))
    }
}

impl SeenClock {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            seen: Mutex::default(),
        }
    }

    /// The moment of a question to the database.
    pub(super) fn mark() -> Mark {
        Mark::now()
    }

    /// The database has told its time to a question.
    pub(super) fn saw(&self, asked: Mark, said: Timestamp) {
        let mut seen = self.seen();
        if seen.is_none_or(|seen| seen.asked < asked) {
            *seen = Some(Seen { asked, said });
        }
    }

    /// Its time at the latest; `None`: it has not been heard of for too long.
    pub(super) fn latest(&self) -> Option<Timestamp> {
        if let Some(now) = self.clock.injected() {
            return Some(Timestamp::from_micros(now));
        }
        let seen = (*self.seen())?;
        let passed = Mark::now().0.checked_sub(seen.asked.0)?;
        (passed <= SEEN_MAX).then(|| seen.said.plus(passed + MARGIN))
    }

    fn seen(&self) -> MutexGuard<'_, Option<Seen>> {
        // Nothing between the lock and its end can panic.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn ago(span: Duration) -> Mark {
        Mark(
            Mark::now()
                .0
                .checked_sub(span)
                .expect("the machine runs for longer"),
        )
    }

    #[test]
    fn it_is_never_behind_the_time_since_the_question() {
        let clock = SeenClock::new(Clock::Database);
        assert_eq!(clock.latest(), None);
        clock.saw(ago(Duration::from_secs(3)), at(100));
        assert!(clock.latest().expect("it was seen") >= at(104));
    }

    #[test]
    fn what_was_asked_earlier_does_not_replace_what_was_asked_later() {
        let clock = SeenClock::new(Clock::Database);
        clock.saw(ago(Duration::from_secs(1)), at(200));
        clock.saw(ago(Duration::from_secs(2)), at(100));
        assert!(clock.latest().expect("it was seen") >= at(201));
    }

    #[test]
    fn what_was_seen_too_long_ago_is_not_built_upon() {
        let clock = SeenClock::new(Clock::Database);
        clock.saw(ago(SEEN_MAX + Duration::from_millis(1)), at(100));
        assert_eq!(clock.latest(), None);
    }
}
