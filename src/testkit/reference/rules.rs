//! One function for each operation: what is said, and what is then so.

use super::{CACHE_BOUND, Hold, Record, Reference, Reopens, Said, State};
use crate::domain::policy::EffectClass;

impl Reference {
    pub(super) fn reserve(&mut self, id: u8, lease: u64, can_recover: bool, request: u8) -> Said {
        let now = self.now;
        let Some(record) = &mut self.record else {
            return self.grant(id, lease, request);
        };
        match &mut record.state {
            State::Released { .. } if record.burnt.contains(&id) => return waiting(false, 0),
            State::Released { .. } => return self.grant(id, lease, request),
            State::Expired {
                reopens: Reopens::At(at),
                ..
            } if *at <= now => {
                return self.grant(id, lease, request);
            }
            State::Expired {
                reopens: Reopens::At(_),
                ..
            } => return waiting(false, 0),
            State::Expired {
                reopens: reopens @ Reopens::Unset,
                ..
            } => {
                *reopens = Reopens::At(now + CACHE_BOUND);
                return waiting(false, 0);
            }
            _ if record.request != request => return Said::Mismatch,
            State::Completed { outcome, token, .. } => {
                return Said::Replay {
                    outcome: *outcome,
                    token: *token,
                };
            }
            State::Parked => return Said::Parked,
            State::Expired { .. } => return Said::Expired,
            State::Running(hold) | State::Recovering(Some(hold)) => {
                if hold.id == id && !hold.used {
                    let cap = hold.began + self.rules.max_total_lease;
                    hold.ends = hold.ends.max(cap.min(now + lease));
                    return self.right();
                }
                if hold.ends > now {
                    return waiting(false, hold.ends - now);
                }
            }
            State::Recovering(None) => {}
        }
        if !can_recover || record.burnt.contains(&id) {
            return waiting(true, 0);
        }
        if let Some((outcome, token)) = record.kept {
            self.decide(outcome, token);
            return Said::Replay { outcome, token };
        }
        let owned = !matches!(record.state, State::Recovering(None));
        if owned && record.recoveries >= self.rules.max_recoveries {
            record.state = State::Parked;
            return Said::Parked;
        }
        if let State::Running(hold) = &record.state {
            record.settled_at = record.settled_at.max(hold.ends + self.rules.settle);
        }
        record.tainted = true;
        record.recoveries += 1;
        let hold = self.begin(id, lease);
        self.current().state = State::Recovering(Some(hold));
        self.right()
    }

    /// A first grant, one after a release, or one of a key that opened again.
    fn grant(&mut self, id: u8, lease: u64, request: u8) -> Said {
        let reopened = self
            .record
            .as_ref()
            .filter(|record| !matches!(record.state, State::Released { .. }));
        let rerun = reopened.map_or(0, |record| record.rerun + 1);
        if reopened.is_some() || self.record.is_none() {
            self.generations += 1;
            self.record = Some(Record {
                generation: self.generations,
                rerun,
                newest: 0,
                request,
                attempt: 0,
                tainted: false,
                recoveries: 0,
                exposed: 0,
                settled_at: 0,
                approved: false,
                released: None,
                burnt: Vec::new(),
                kept: None,
                resolved: None,
                state: State::Parked,
            });
        }
        let hold = self.begin(id, lease);
        let now = self.now;
        let record = self.current();
        record.request = request;
        record.exposed = now;
        record.state = State::Running(hold);
        self.right()
    }

    fn current(&mut self) -> &mut Record {
        self.record.as_mut().expect("there is a record")
    }

    fn begin(&mut self, id: u8, lease: u64) -> Hold {
        let (now, newest) = (self.now, self.tokens.len());
        let generation = self.current().generation;
        self.tokens.push(generation);
        let record = self.current();
        record.newest = newest;
        record.attempt += 1;
        record.released = None;
        let ends = now + lease.min(self.rules.max_total_lease);
        Hold {
            id,
            ends,
            began: now,
            used: false,
            run: None,
        }
    }

    /// What the newest reservation may do.
    fn right(&self) -> Said {
        let record = self.record.as_ref().expect("there is a record");
        let (token, attempt, rerun) = (record.newest, record.attempt, record.rerun);
        match &record.state {
            State::Running(hold) => Said::Granted {
                token,
                attempt,
                lease: hold.ends.saturating_sub(self.now),
                rerun,
            },
            State::Recovering(Some(hold)) => Said::Recover {
                token,
                attempt,
                lease: hold.ends.saturating_sub(self.now),
                rerun,
                settled: self.settled(record),
                approved: record.approved,
            },
            other => panic!("nobody holds {other:?}"),
        }
    }

    fn settled(&self, record: &Record) -> bool {
        self.rules.class == EffectClass::Queryable && record.settled_at < self.now
    }

    pub(super) fn decide(&mut self, outcome: u8, token: usize) {
        let until = self.now + self.rules.retention;
        let record = self.current();
        record.kept = None;
        record.approved = false;
        record.released = record.released.filter(|released| *released != token);
        record.state = State::Completed {
            outcome,
            token,
            until,
        };
    }

    /// The record, if the token is its current one and somebody holds it.
    fn held(&mut self, token: usize) -> Option<&mut Record> {
        self.record.as_mut().filter(|record| {
            let owned = matches!(record.state, State::Running(_) | State::Recovering(Some(_)));
            owned && record.newest == token
        })
    }

    pub(super) fn complete(&mut self, token: usize, outcome: u8) -> Said {
        let completed = |verdict, used| Said::Completed { verdict, used };
        let generation = self.tokens[token];
        let Some(record) = self
            .record
            .as_mut()
            .filter(|record| record.generation == generation)
        else {
            return completed("SUPERSEDED", false);
        };
        let newest = record.newest == token;
        match record.state {
            State::Completed {
                outcome: stored, ..
            }
            | State::Expired {
                outcome: stored, ..
            } => {
                let other = if newest { "DIVERGENT" } else { "SUPERSEDED" };
                completed(
                    if stored == outcome {
                        "ALREADY_RECORDED"
                    } else {
                        other
                    },
                    false,
                )
            }
            State::Running(_) if !newest => {
                record.kept = record.kept.or(Some((outcome, token)));
                completed("SUPERSEDED", false)
            }
            State::Running(_) | State::Recovering(_) | State::Released { .. } | State::Parked => {
                self.decide(outcome, token);
                completed(if newest { "RECORDED" } else { "SUPERSEDED" }, true)
            }
        }
    }

    pub(super) fn renew(&mut self, token: usize, lease: u64) -> Said {
        let (now, rules) = (self.now, self.rules);
        let Some(record) = self.held(token) else {
            return Said::Renewed {
                held: false,
                lease: 0,
                settled: false,
            };
        };
        let settled_at = record.settled_at;
        let (hold, recovering) = match &mut record.state {
            State::Recovering(Some(hold)) => (hold, true),
            State::Running(hold) => (hold, false),
            other => panic!("nobody holds {other:?}"),
        };
        hold.ends = hold
            .ends
            .max((now + lease).min(hold.began + rules.max_total_lease));
        hold.used = true;
        hold.run = hold.run.map(|(id, _)| (id, true));
        let settled = recovering && rules.class == EffectClass::Queryable && settled_at < now;
        Said::Renewed {
            held: true,
            lease: hold.ends.saturating_sub(now),
            settled,
        }
    }

    pub(super) fn release(&mut self, token: usize) -> Said {
        let (now, generation) = (self.now, self.tokens[token]);
        let Some(record) = self.held(token) else {
            let repeated = self.record.as_ref().is_some_and(|record| {
                record.generation == generation && record.released == Some(token)
            });
            return Said::Done(repeated);
        };
        record.released = Some(token);
        if let Some((outcome, by)) = record.kept {
            self.decide(outcome, by);
            return Said::Done(true);
        }
        record.recoveries = record.recoveries.saturating_sub(1);
        let clean = !record.tainted && matches!(record.state, State::Running(_));
        if let State::Running(hold) | State::Recovering(Some(hold)) = &record.state {
            record.burnt.push(hold.id);
        }
        record.state = if clean {
            State::Released { at: now }
        } else {
            State::Recovering(None)
        };
        Said::Done(true)
    }

    pub(super) fn park(&mut self, token: usize) -> Said {
        let generation = self.tokens[token];
        if self.held(token).is_none() {
            return Said::Done(self.record.as_ref().is_some_and(|record| {
                let own = record.generation == generation && record.newest == token;
                own && matches!(record.state, State::Parked)
            }));
        }
        let record = self.current();
        if let Some((outcome, by)) = record.kept {
            self.decide(outcome, by);
            return Said::Done(false);
        }
        record.state = State::Parked;
        Said::Done(true)
    }

    pub(super) fn reexecute(
        &mut self,
        token: usize,
        id: u8,
        lease: u64,
        settled_seen: bool,
    ) -> Said {
        let (now, rules, generation) = (self.now, self.rules, self.tokens[token]);
        if self.held(token).is_none() {
            let own = self.record.as_ref().is_some_and(|record| {
                record.generation == generation
                    && record.newest == token
                    && matches!(record.state, State::Parked)
            });
            return if own { Said::Parked } else { Said::Superseded };
        }
        let record = self.current();
        let hold = match &mut record.state {
            State::Running(hold) if hold.run == Some((id, false)) => return self.right(),
            State::Running(_) => return Said::Superseded,
            State::Recovering(Some(hold)) => hold,
            other => panic!("nobody holds {other:?}"),
        };
        hold.used = true;
        let allowed = match rules.class {
            _ if record.approved => true,
            EffectClass::Keyed => {
                now + rules.max_total_lease + rules.settle < record.exposed + rules.window
            }
            EffectClass::Queryable if record.settled_at >= now => {
                return Said::TooEarly { look_again: false };
            }
            EffectClass::Queryable if !settled_seen => return Said::TooEarly { look_again: true },
            EffectClass::Opaque => false,
            EffectClass::Receipt
            | EffectClass::Repeatable
            | EffectClass::Fenced
            | EffectClass::Queryable => true,
        };
        if !allowed {
            record.state = State::Parked;
            return Said::Parked;
        }
        let ends = hold.ends.max(now + lease.min(rules.max_total_lease));
        let hold = Hold {
            ends,
            began: now,
            run: Some((id, false)),
            ..hold.clone()
        };
        record.approved = false;
        record.state = State::Running(hold);
        self.right()
    }
}

fn waiting(needs_recovery: bool, lease: u64) -> Said {
    Said::InProgress {
        needs_recovery,
        lease,
    }
}
