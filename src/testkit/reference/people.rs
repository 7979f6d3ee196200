//! What people decide, in the machine's own words.

use super::{CACHE_BOUND, Reference, Reopens, Said, State};

impl Reference {
    pub(super) fn expire(&mut self, etag: usize, allow_rerun: bool) -> Said {
        let (now, rules, seen) = (self.now, self.rules, self.sightings[etag]);
        let Some(record) = &mut self.record else {
            return Said::Person("NOT_FOUND");
        };
        if record.generation != seen {
            return Said::Person("ETAG_MISMATCH");
        }
        match &mut record.state {
            State::Completed { outcome, until, .. } => {
                let until = *until + rules.tombstone.max(CACHE_BOUND);
                let reopens = if allow_rerun {
                    Reopens::Unset
                } else {
                    Reopens::Never
                };
                record.state = State::Expired {
                    outcome: *outcome,
                    until,
                    reopens,
                };
            }
            State::Expired { reopens, .. } => match reopens {
                Reopens::Never if allow_rerun => *reopens = Reopens::Unset,
                Reopens::Unset => *reopens = Reopens::At(now + CACHE_BOUND),
                Reopens::Never | Reopens::At(_) => {}
            },
            _ => return Said::Person("NOT_EXPIRABLE"),
        }
        Said::Person("OK")
    }

    pub(super) fn resolve(&mut self, etag: usize, current: bool, happened: Option<u8>) -> Said {
        let Some(record) = &mut self.record else {
            return Said::Person("NOT_FOUND");
        };
        if record.resolved == Some((etag, happened)) {
            return Said::Person("OK");
        }
        if !current {
            return Said::Person("ETAG_MISMATCH");
        }
        if !matches!(record.state, State::Parked) {
            return Said::Person("NOT_RESOLVABLE");
        }
        record.resolved = Some((etag, happened));
        let newest = record.newest;
        if let Some(outcome) = happened {
            self.decide(outcome, newest);
        } else {
            record.recoveries = 0;
            record.approved = true;
            record.released = None;
            record.state = State::Recovering(None);
        }
        Said::Person("OK")
    }
}
