//! A store, a clock and the verbs of the protocol with defaults, so that a case is a few lines.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::domain::command::{
    Answer, Command, Complete, Completed, Expire, Grant, Park, ParkAnswer, PersonAnswer, Recover,
    Reexecute, ReexecuteVerdict, Release, Released, Renew, Renewed, Reserve, ReserveVerdict,
    Reserved, Resolution, Resolve,
};
use crate::domain::decision::aged;
use crate::domain::key::RecordKey;
use crate::domain::outcome::Outcome;
use crate::domain::policy::{EffectClass, Terms};
use crate::domain::record::{Record, RequestId, StateName};
use crate::domain::token::Token;
use crate::port::clock::ManualClock;
use crate::port::store::{AuditEntry, Store, Swept};

pub use super::values::{
    LEASE, TICK, effect, fingerprint, key_of, name_of, outcome, secs, start, terms,
};

/// A store under test and its clock.
#[derive(Debug)]
pub struct Scene {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Its clock.
    pub clock: ManualClock,
    /// What new grants are given under.
    pub terms: Terms,
    calls: AtomicU64,
}

/// One reservation as its holder knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// The record.
    pub key: RecordKey,
    /// The reservation.
    pub token: Token,
    /// The call that got it.
    pub request: Reserve,
    /// What it got.
    pub grant: Grant,
}

impl Scene {
    /// Takes an empty store and the clock that it was made with.
    pub fn new(store: Arc<dyn Store>, clock: ManualClock) -> Self {
        let terms = Terms::default();
        Self {
            store,
            clock,
            terms,
            calls: AtomicU64::new(0),
        }
    }

    /// Gives new grants under other terms.
    #[must_use]
    pub fn under(mut self, terms: Terms) -> Self {
        self.terms = terms;
        self
    }

    /// Gives new grants under a class, with a window of an hour and a settle time of 20 s.
    #[must_use]
    pub fn of_class(self, effect_class: EffectClass) -> Self {
        let terms = Terms {
            effect_class,
            ..terms()
        };
        self.under(terms)
    }

    /// A request id that nobody has used yet.
    pub fn new_id(&self) -> RequestId {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let mut bytes = [0; 16];
        bytes[8..].copy_from_slice(&number.to_be_bytes());
        RequestId::from_bytes(bytes)
    }

    /// A new call for a key, by a caller that can recover.
    pub fn ask(&self, key: &str) -> Reserve {
        Reserve {
            key: key_of(key),
            operation: "invoice.create".to_owned(),
            fingerprint: Some(fingerprint(1)),
            request_id: self.new_id(),
            lease: LEASE,
            holder: "worker-1".to_owned(),
            trace_id: String::new(),
            attributes: BTreeMap::new(),
            can_recover: true,
            terms: self.terms.clone(),
        }
    }

    /// Moves the clock on.
    pub fn later(&self, span: Duration) {
        self.clock.advance(span);
    }

    /// Moves the clock to where the lease of a call made now is out.
    pub fn lease_out(&self) {
        self.clock.advance(LEASE);
    }

    /// Carries out a command; a store that fails fails the test.
    pub async fn apply(&self, command: Command) -> Answer {
        self.store.apply(command).await.expect("the store answers")
    }

    /// Reserves; the whole answer.
    pub async fn reserved(&self, request: &Reserve) -> Reserved {
        match self
            .apply(Command::Reserve(Arc::new(request.clone())))
            .await
        {
            Answer::Reserve(reserved) => reserved,
            other => panic!("Reserve was answered {other:?}"),
        }
    }

    /// Reserves; the verdict alone.
    pub async fn reserve(&self, request: &Reserve) -> ReserveVerdict {
        self.reserved(request).await.verdict
    }

    /// Makes a new call for a key; the verdict's name.
    pub async fn says(&self, key: &str) -> &'static str {
        name_of(&self.reserve(&self.ask(key)).await)
    }

    /// Makes a call that must be GRANTED or RECOVER.
    pub async fn hold(&self, request: &Reserve) -> Held {
        let grant = match self.reserve(request).await {
            ReserveVerdict::Granted(grant) => grant,
            ReserveVerdict::Recover(recover) => recover.grant,
            other => panic!("neither GRANTED nor RECOVER but {other:?}"),
        };
        let token = Token {
            generation: grant.generation,
            fence: grant.fence,
        };
        Held {
            key: request.key.clone(),
            token,
            request: request.clone(),
            grant,
        }
    }

    /// A new call that must be GRANTED.
    pub async fn granted(&self, key: &str) -> Held {
        let request = self.ask(key);
        let held = self.hold(&request).await;
        assert_eq!(self.state(key).await, Some(StateName::Running));
        held
    }

    /// A new call that must be RECOVER.
    pub async fn recover(&self, key: &str) -> Recover {
        match self.reserve(&self.ask(key)).await {
            ReserveVerdict::Recover(recover) => *recover,
            other => panic!("not RECOVER but {other:?}"),
        }
    }

    /// A granted reservation, and the one that took over from it.
    pub async fn taken_over(&self, key: &str) -> (Held, Held) {
        let first = self.granted(key).await;
        self.lease_out();
        let second = self.hold(&self.ask(key)).await;
        assert_eq!(self.state(key).await, Some(StateName::Recovering));
        (first, second)
    }

    /// The same, and the second one has been granted another run.
    pub async fn running_again(&self, key: &str) -> (Held, Held) {
        let (first, second) = self.taken_over(key).await;
        assert!(matches!(
            self.reexecute(&second).await,
            ReexecuteVerdict::Granted(_)
        ));
        (first, second)
    }

    /// A reservation whose outcome `outcome("done")` is recorded.
    pub async fn completed(&self, key: &str) -> Held {
        let held = self.granted(key).await;
        assert!(self.complete(&held, outcome("done")).await.outcome_used);
        held
    }

    /// A reservation that its holder has parked.
    pub async fn parked(&self, key: &str) -> Held {
        let held = self.granted(key).await;
        assert!(self.park(&held).await.parked);
        held
    }

    /// Reports an outcome.
    pub async fn complete(&self, held: &Held, outcome: Outcome) -> Completed {
        let (key, token) = (held.key.clone(), held.token);
        let command = Complete {
            key,
            token,
            outcome,
            retention: None,
        };
        match self.apply(Command::Complete(Box::new(command))).await {
            Answer::Complete(completed) => *completed,
            other => panic!("Complete was answered {other:?}"),
        }
    }

    /// Renews a lease.
    pub async fn renew(&self, held: &Held, lease: Duration) -> Renewed {
        let (key, token) = (held.key.clone(), held.token);
        match self
            .apply(Command::Renew(Renew { key, token, lease }))
            .await
        {
            Answer::Renew(renewed) => renewed,
            other => panic!("Renew was answered {other:?}"),
        }
    }

    /// Gives a reservation back.
    pub async fn release(&self, held: &Held) -> Released {
        let (key, token, reason) = (held.key.clone(), held.token, "not sent".to_owned());
        match self
            .apply(Command::Release(Release { key, token, reason }))
            .await
        {
            Answer::Release(released) => released,
            other => panic!("Release was answered {other:?}"),
        }
    }

    /// Hands the record to a person.
    pub async fn park(&self, held: &Held) -> ParkAnswer {
        let (key, token, note) = (held.key.clone(), held.token, "nobody can tell".to_owned());
        match self.apply(Command::Park(Park { key, token, note })).await {
            Answer::Park(parked) => parked,
            other => panic!("Park was answered {other:?}"),
        }
    }

    /// A new call to run again, whose look-up began after the record had settled.
    pub fn ask_again(&self, held: &Held) -> Reexecute {
        Reexecute {
            key: held.key.clone(),
            token: held.token,
            lease: LEASE,
            request_id: self.new_id(),
            settled_seen: true,
            actor: "worker-1".to_owned(),
        }
    }

    /// Asks to run again.
    pub async fn reexecute(&self, held: &Held) -> ReexecuteVerdict {
        self.reexecute_as(self.ask_again(held)).await
    }

    /// Asks to run again by this call.
    pub async fn reexecute_as(&self, command: Reexecute) -> ReexecuteVerdict {
        match self.apply(Command::Reexecute(command)).await {
            Answer::Reexecute(verdict) => verdict,
            other => panic!("Reexecute was answered {other:?}"),
        }
    }

    /// Expires the record as it is now.
    pub async fn expire(&self, key: &str, allow_rerun: bool) -> PersonAnswer {
        let etag = self.record(key).await.etag();
        let (reason, actor) = ("as asked".to_owned(), "kari".to_owned());
        let key = key_of(key);
        self.expire_as(Expire {
            key,
            reason,
            allow_rerun,
            etag,
            actor,
        })
        .await
    }

    /// Expires by this call.
    pub async fn expire_as(&self, command: Expire) -> PersonAnswer {
        match self.apply(Command::Expire(command)).await {
            Answer::Expire(answer) => answer,
            other => panic!("Expire was answered {other:?}"),
        }
    }

    /// Resolves the record as it is now.
    pub async fn resolve(&self, key: &str, resolution: Resolution) -> PersonAnswer {
        let etag = self.record(key).await.etag();
        let (reason, actor) = ("looked it up".to_owned(), "kari".to_owned());
        let key = key_of(key);
        self.resolve_as(Resolve {
            key,
            etag,
            reason,
            actor,
            resolution,
        })
        .await
    }

    /// Resolves by this call.
    pub async fn resolve_as(&self, command: Resolve) -> PersonAnswer {
        match self.apply(Command::Resolve(Box::new(command))).await {
            Answer::Resolve(answer) => answer,
            other => panic!("Resolve was answered {other:?}"),
        }
    }

    /// Reads a record as it is stored, aged or not.
    pub async fn find(&self, key: &str) -> Option<Record> {
        let reading = self
            .store
            .read(vec![key_of(key)])
            .await
            .expect("the store reads");
        let mut records = reading.records;
        assert_eq!(records.len(), 1);
        records.remove(0).expect("the record is sound")
    }

    /// Reads a record that must be there.
    pub async fn record(&self, key: &str) -> Record {
        self.find(key).await.expect("the record is there")
    }

    /// The state that a reader is told now; `None`: the key is as new.
    pub async fn state(&self, key: &str) -> Option<StateName> {
        let record = self.find(key).await?;
        aged(&record, self.clock.now()).map(|record| record.state_name())
    }

    /// Reads a record's whole audit trail.
    pub async fn audit(&self, key: &str) -> Vec<AuditEntry> {
        let entries = self.store.audit(key_of(key), 0, 1000).await;
        entries.expect("the store reads its audit trail")
    }

    /// Sweeps until nothing is left to sweep; the sum.
    pub async fn sweep(&self) -> Swept {
        let mut sum = Swept::default();
        loop {
            let swept = self.store.sweep(100).await.expect("the store sweeps");
            if swept == Swept::default() {
                return sum;
            }
            sum.buried += swept.buried;
            sum.deleted += swept.deleted;
        }
    }
}
