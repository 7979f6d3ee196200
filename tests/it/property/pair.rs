//! A store and the reference machine side by side: one step on both, and the answers compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use oncegate::domain::command::{
    Command, Complete, Expire, Park, Reexecute, Release, Renew, Reserve, Resolution, Resolve,
};
use oncegate::domain::decision::aged;
use oncegate::domain::key::RecordKey;
use oncegate::domain::outcome::{Outcome, OutcomeDigest};
use oncegate::domain::policy::Terms;
use oncegate::domain::record::{Etag, Record, RequestId};
use oncegate::domain::token::Token;
use oncegate::port::clock::ManualClock;
use oncegate::port::store::Store;
use oncegate::testkit::reference::{Ask, Reference, Rules};
use oncegate::testkit::scene::{fingerprint, outcome, secs};
use proptest::prelude::*;

use super::watch::Watch;

/// One step. Numbers of tokens and etags are taken modulo what there is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
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
    See,
    Expire {
        etag: usize,
        allow_rerun: bool,
    },
    Resolve {
        etag: usize,
    },
    Wait(u64),
    Sweep,
}

/// A store, the machine, and what both have been told so far.
pub(super) struct Pair {
    store: Arc<dyn Store>,
    clock: ManualClock,
    reference: Reference,
    rules: Rules,
    key: RecordKey,
    pub(super) tokens: Vec<Token>,
    etags: Vec<Etag>,
    pub(super) digests: [OutcomeDigest; 3],
    pub(super) downstream: Vec<String>,
    pub(super) watch: Watch,
}

impl Pair {
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: ManualClock,
        rules: Rules,
        key: RecordKey,
    ) -> Self {
        let downstream = (0..6).map(|rerun| key.downstream_key(rerun)).collect();
        Self {
            store,
            clock,
            reference: Reference::new(rules),
            rules,
            key,
            tokens: Vec::new(),
            etags: Vec::new(),
            digests: [0, 1, 2].map(|number| outcome_of(number).digest),
            downstream,
            watch: Watch::default(),
        }
    }

    /// Takes one step on both sides.
    pub(super) async fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Wait(seconds) => {
                self.clock.advance(secs(seconds));
                self.reference.wait(seconds);
            }
            Step::Sweep => {
                self.store.sweep(100).await.expect("the store sweeps");
            }
            Step::See => self.see().await,
            Step::Reserve { .. }
            | Step::Complete { .. }
            | Step::Renew { .. }
            | Step::Release { .. }
            | Step::Park { .. }
            | Step::Reexecute { .. }
            | Step::Expire { .. }
            | Step::Resolve { .. } => {
                let Some((command, ask)) = self.ask(step).await else {
                    return Ok(());
                };
                let answer = self
                    .store
                    .apply(command.clone())
                    .await
                    .expect("the store answers");
                let want = self.reference.ask(ask);
                let said = self.said(&command, answer)?;
                prop_assert_eq!(said, want, "after {:?}", ask);
            }
        }
        let record = self.read().await;
        let state = record
            .as_ref()
            .and_then(|record| aged(record, self.clock.now()));
        let state = state.map(|record| record.state_name().name());
        prop_assert_eq!(state, self.reference.state(), "after {:?}", step);
        self.watch.outcome_stays(record.as_ref())
    }

    async fn read(&self) -> Option<Record> {
        let reading = self
            .store
            .read(vec![self.key.clone()])
            .await
            .expect("the store reads");
        reading
            .records
            .into_iter()
            .next()
            .expect("one")
            .expect("sound")
    }

    async fn see(&mut self) {
        let etag = self.read().await.map(|record| record.etag());
        if let Some(etag) = etag.filter(|etag| !self.etags.contains(etag)) {
            self.etags.push(etag);
            self.reference.see();
        }
    }

    /// The step as each side is asked it; `None`: there is no such token or etag yet.
    async fn ask(&mut self, step: Step) -> Option<(Command, Ask)> {
        match step {
            Step::Reserve {
                id,
                lease,
                can_recover,
                request,
            } => {
                let command = self.reserve(id, lease, can_recover, request);
                let ask = Ask::Reserve {
                    id,
                    lease,
                    can_recover,
                    request,
                };
                Some((Command::Reserve(Arc::new(command)), ask))
            }
            Step::Complete { token: back, .. }
            | Step::Renew { token: back, .. }
            | Step::Release { token: back }
            | Step::Park { token: back }
            | Step::Reexecute { token: back, .. } => {
                let token = self.tokens.len().checked_sub(1 + back)?;
                self.ask_with(step, token)
            }
            Step::Expire { etag, allow_rerun } => self.expire(etag, allow_rerun).await,
            Step::Resolve { etag } => self.resolve(etag).await,
            Step::See | Step::Wait(_) | Step::Sweep => None,
        }
    }

    /// The steps under a token, by its number.
    fn ask_with(&self, step: Step, token: usize) -> Option<(Command, Ask)> {
        let (key, of) = (self.key.clone(), self.tokens[token]);
        match step {
            Step::Complete { outcome, .. } => {
                let reported = outcome_of(outcome);
                let command = Complete {
                    key,
                    token: of,
                    outcome: reported,
                    retention: None,
                };
                Some((
                    Command::Complete(Box::new(command)),
                    Ask::Complete { token, outcome },
                ))
            }
            Step::Renew { lease, .. } => {
                let command = Renew {
                    key,
                    token: of,
                    lease: secs(lease),
                };
                Some((Command::Renew(command), Ask::Renew { token, lease }))
            }
            Step::Release { .. } => {
                let command = Release {
                    key,
                    token: of,
                    reason: String::new(),
                };
                Some((Command::Release(command), Ask::Release { token }))
            }
            Step::Park { .. } => {
                let command = Park {
                    key,
                    token: of,
                    note: String::new(),
                };
                Some((Command::Park(command), Ask::Park { token }))
            }
            Step::Reexecute {
                id,
                lease,
                settled_seen,
                ..
            } => {
                let (asked, request_id, actor) = (secs(lease), request_id(id), String::new());
                let command = Reexecute {
                    key,
                    token: of,
                    lease: asked,
                    request_id,
                    settled_seen,
                    actor,
                };
                let ask = Ask::Reexecute {
                    token,
                    id,
                    lease,
                    settled_seen,
                };
                Some((Command::Reexecute(command), ask))
            }
            Step::Reserve { .. }
            | Step::See
            | Step::Expire { .. }
            | Step::Resolve { .. }
            | Step::Wait(_)
            | Step::Sweep => None,
        }
    }

    fn reserve(&self, id: u8, lease: u64, can_recover: bool, request: u8) -> Reserve {
        Reserve {
            key: self.key.clone(),
            operation: "op".to_owned(),
            fingerprint: Some(fingerprint(request)),
            request_id: request_id(id),
            lease: secs(lease),
            holder: String::new(),
            trace_id: String::new(),
            attributes: BTreeMap::new(),
            can_recover,
            terms: terms(self.rules),
        }
    }

    /// A sighting by its number from the newest, made now if it is the newest.
    async fn etag(&mut self, back: usize) -> Option<usize> {
        if back == 0 {
            self.see().await;
        }
        self.etags.len().checked_sub(1 + back)
    }

    async fn expire(&mut self, etag: usize, allow_rerun: bool) -> Option<(Command, Ask)> {
        let etag = self.etag(etag).await?;
        let (reason, actor) = (String::new(), String::new());
        let (key, seen) = (self.key.clone(), self.etags[etag]);
        let command = Expire {
            key,
            reason,
            allow_rerun,
            etag: seen,
            actor,
        };
        Some((Command::Expire(command), Ask::Expire { etag, allow_rerun }))
    }

    /// Each sighting has one thing that a person found out under it.
    async fn resolve(&mut self, etag: usize) -> Option<(Command, Ask)> {
        let etag = self.etag(etag).await?;
        let current = self.read().await.map(|record| record.etag()) == Some(self.etags[etag]);
        let happened = etag.is_multiple_of(3).then_some(1);
        let resolution = happened.map_or(Resolution::NothingHappened, |number| {
            Resolution::Happened(outcome_of(number))
        });
        let (reason, actor) = (String::new(), String::new());
        let (key, seen) = (self.key.clone(), self.etags[etag]);
        let command = Resolve {
            key,
            etag: seen,
            reason,
            actor,
            resolution,
        };
        Some((
            Command::Resolve(Box::new(command)),
            Ask::Resolve {
                etag,
                current,
                happened,
            },
        ))
    }
}

fn request_id(number: u8) -> RequestId {
    RequestId::from_bytes([number; 16])
}

fn terms(rules: Rules) -> Terms {
    Terms {
        effect_class: rules.class,
        keyed_window: secs(rules.window),
        settle_max_pause: secs(rules.settle - 5),
        settle_max_delay: secs(5),
        max_total_lease: secs(rules.max_total_lease),
        retention: secs(rules.retention),
        tombstone_retention: secs(rules.tombstone),
        max_recoveries: rules.max_recoveries,
        ..Terms::default()
    }
}

fn outcome_of(number: u8) -> Outcome {
    outcome(&format!("outcome {number}"))
}
