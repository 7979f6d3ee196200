//! The rules once more, as small as they can be said: one key, whole seconds, numbers for callers
//! and outcomes. Written from docs/protocol.md and independent of the code that decides, so that
//! the two can be held against each other. Knows nothing of payloads, evidence or stores; time
//! acts at once here, so sweeping never changes anything.

mod people;
mod rules;

use crate::domain::policy::EffectClass;

/// How long copies of an outcome may be answered from, in seconds.
const CACHE_BOUND: u64 = 60;

/// What a record is granted under, in seconds.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "named like the settings of a policy")]
pub struct Rules {
    pub class: EffectClass,
    pub window: u64,
    pub settle: u64,
    pub max_total_lease: u64,
    pub retention: u64,
    pub tombstone: u64,
    pub max_recoveries: u32,
}

/// What can be asked. Tokens are numbers of reservations in their order; etags are numbers of
/// sightings.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "named like the fields of the commands")]
pub enum Ask {
    Reserve {
        id: u8,
        lease: u64,
        can_recover: bool,
        request: u8,
    },
    Complete {
        token: usize,
        outcome: u8,
    },
    Renew {
        token: usize,
        lease: u64,
    },
    Release {
        token: usize,
    },
    Park {
        token: usize,
    },
    Reexecute {
        token: usize,
        id: u8,
        lease: u64,
        settled_seen: bool,
    },
    Expire {
        etag: usize,
        allow_rerun: bool,
    },
    Resolve {
        etag: usize,
        current: bool,
        happened: Option<u8>,
    },
}

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "named like the fields of the answers")]
pub enum Said {
    Granted {
        token: usize,
        attempt: u32,
        lease: u64,
        rerun: u32,
    },
    Recover {
        token: usize,
        attempt: u32,
        lease: u64,
        rerun: u32,
        settled: bool,
        approved: bool,
    },
    Replay {
        outcome: u8,
        token: usize,
    },
    InProgress {
        needs_recovery: bool,
        lease: u64,
    },
    Mismatch,
    Parked,
    Expired,
    Completed {
        verdict: &'static str,
        used: bool,
    },
    Renewed {
        held: bool,
        lease: u64,
        settled: bool,
    },
    Done(bool),
    TooEarly {
        look_again: bool,
    },
    Superseded,
    Person(&'static str),
}

#[derive(Debug, Clone)]
struct Hold {
    id: u8,
    ends: u64,
    began: u64,
    used: bool,
    run: Option<(u8, bool)>,
}

#[derive(Debug, Clone)]
enum State {
    Running(Hold),
    Recovering(Option<Hold>),
    Released {
        at: u64,
    },
    Completed {
        outcome: u8,
        token: usize,
        until: u64,
    },
    Parked,
    Expired {
        outcome: u8,
        until: u64,
        reopens: Reopens,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Reopens {
    Never,
    Unset,
    At(u64),
}

#[derive(Debug, Clone)]
struct Record {
    generation: u32,
    rerun: u32,
    newest: usize,
    request: u8,
    attempt: u32,
    tainted: bool,
    recoveries: u32,
    exposed: u64,
    settled_at: u64,
    approved: bool,
    released: Option<usize>,
    burnt: Vec<u8>,
    kept: Option<(u8, usize)>,
    resolved: Option<(usize, Option<u8>)>,
    state: State,
}

/// The machine.
#[derive(Debug, Clone)]
pub struct Reference {
    rules: Rules,
    now: u64,
    generations: u32,
    /// The generation of each reservation ever made.
    tokens: Vec<u32>,
    /// The generation of each sighting.
    sightings: Vec<u32>,
    record: Option<Record>,
}

impl Reference {
    /// A key that nobody has used.
    pub fn new(rules: Rules) -> Self {
        let (tokens, sightings) = (Vec::new(), Vec::new());
        Self {
            rules,
            now: 1,
            generations: 0,
            tokens,
            sightings,
            record: None,
        }
    }

    /// Lets time pass.
    pub fn wait(&mut self, seconds: u64) {
        self.now += seconds;
        let (now, rules) = (self.now, self.rules);
        let Some(record) = &mut self.record else {
            return;
        };
        if let State::Completed { outcome, until, .. } = record.state
            && until <= now
        {
            let until = until + rules.tombstone.max(CACHE_BOUND);
            record.state = State::Expired {
                outcome,
                until,
                reopens: Reopens::Never,
            };
        }
        let gone = match record.state {
            State::Expired {
                until,
                reopens: Reopens::Never,
                ..
            } => until <= now,
            State::Released { at } => at + rules.retention <= now,
            _ => false,
        };
        if gone {
            self.record = None;
        }
    }

    /// Somebody looks at the record and remembers its etag.
    pub fn see(&mut self) {
        self.sightings
            .push(self.record.as_ref().map_or(0, |record| record.generation));
    }

    /// The name of the state; `None`: the key is as new.
    pub fn state(&self) -> Option<&'static str> {
        self.record.as_ref().map(|record| match record.state {
            State::Running(_) => "RUNNING",
            State::Recovering(_) => "RECOVERING",
            State::Released { .. } => "RELEASED",
            State::Completed { .. } => "COMPLETED",
            State::Parked => "PARKED",
            State::Expired { .. } => "EXPIRED",
        })
    }

    /// Answers.
    pub fn ask(&mut self, ask: Ask) -> Said {
        match ask {
            Ask::Reserve {
                id,
                lease,
                can_recover,
                request,
            } => self.reserve(id, lease, can_recover, request),
            Ask::Complete { token, outcome } => self.complete(token, outcome),
            Ask::Renew { token, lease } => self.renew(token, lease),
            Ask::Release { token } => self.release(token),
            Ask::Park { token } => self.park(token),
            Ask::Reexecute {
                token,
                id,
                lease,
                settled_seen,
            } => self.reexecute(token, id, lease, settled_seen),
            Ask::Expire { etag, allow_rerun } => self.expire(etag, allow_rerun),
            Ask::Resolve {
                etag,
                current,
                happened,
            } => self.resolve(etag, current, happened),
        }
    }
}
