//! Whether Redis is asked before the store, or beside it. Beside it nothing is lost when Redis does
//! not know, but the store is asked for nothing each time it does.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long the store is held back for Redis at the most. A busy machine needs some milliseconds for
/// any answer, and must not be made busier by asking twice for each.
pub(super) const HEAD_START: Duration = Duration::from_millis(10);
/// All of what Redis was asked.
const ALL: u32 = 1 << 16;
/// One question counts for this part of what is remembered.
const WEIGHT: u32 = 16;

/// How much of what Redis was asked lately it has known, and in time.
#[derive(Debug, Default)]
pub(super) struct HeadStart {
    known: AtomicU32,
}

impl HeadStart {
    /// It has known most of it.
    pub(super) fn is_earned(&self) -> bool {
        self.known.load(Ordering::Relaxed) > ALL / 2
    }

    /// Takes in one more question. Of two at once one may be lost, which changes little.
    pub(super) fn learn(&self, knew: bool) {
        let known = self.known.load(Ordering::Relaxed);
        let gained = if knew { ALL / WEIGHT } else { 0 };
        self.known
            .store(known - known / WEIGHT + gained, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(answers: impl IntoIterator<Item = bool>) -> HeadStart {
        let head_start = HeadStart::default();
        for knew in answers {
            head_start.learn(knew);
        }
        head_start
    }

    #[test]
    fn it_is_earned_by_most_of_the_last_answers_and_soon_lost() {
        assert!(!after([]).is_earned(), "nothing is known of it yet");
        assert!(!after([true; 8]).is_earned(), "a few are no habit");
        assert!(after([true; 16]).is_earned());
        assert!(after([true; 10_000]).is_earned());
        let hung = [[true; 100].as_slice(), &[false; 16]].concat();
        assert!(!after(hung).is_earned(), "it has stopped answering");
        let mixed = |of: usize| (0..1_000).map(move |n| n % of == 0);
        assert!(!after(mixed(3)).is_earned(), "a third is not most");
        assert!(after(mixed(3).map(|knew| !knew)).is_earned());
    }
}
