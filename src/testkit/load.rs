//! Callers under load: they repeat each call unchanged until it is answered, as every client must,
//! and write down what they were told, so that one broken promise is noticed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::values::{LEASE, key_of, outcome};
use crate::domain::command::{
    Answer, Command, Complete, CompleteVerdict, Completed, Reserve, ReserveVerdict,
};
use crate::domain::outcome::Outcome;
use crate::domain::policy::Terms;
use crate::domain::record::{Fence, RecordState, RequestId};
use crate::domain::token::Token;
use crate::port::store::Store;

/// The longest that a call goes unanswered before the test fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause before a call is repeated.
const PAUSE: Duration = Duration::from_millis(5);

/// Random numbers that a failed test can be repeated with.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Takes the seed from `ONCEGATE_TEST_SEED`, or a fresh one, and prints it.
    #[expect(
        clippy::print_stderr,
        reason = "shown with a failed test, to repeat it"
    )]
    pub fn cast() -> Self {
        let given = std::env::var("ONCEGATE_TEST_SEED").ok();
        let seed = given.map_or_else(
            || getrandom::u64().expect("the operating system has random bytes"),
            |text| text.parse().expect("ONCEGATE_TEST_SEED is a number"),
        );
        eprintln!("ONCEGATE_TEST_SEED={seed}");
        Self(seed)
    }

    /// The next number (splitmix64).
    pub const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not zero.
    pub const fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    /// A span below `end`, to the microsecond.
    pub fn span(&mut self, end: Duration) -> Duration {
        let micros = u64::try_from(end.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.below(micros.max(1)))
    }

    /// Dice of their own for another task.
    #[must_use]
    pub const fn split(&mut self) -> Self {
        Self(self.roll())
    }
}

/// A request id as clients make them.
pub fn new_request_id() -> RequestId {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system has random bytes");
    RequestId::from_bytes(bytes)
}

/// A new call for a key.
pub fn ask(key: &str) -> Reserve {
    Reserve {
        key: key_of(key),
        operation: "invoice.create".to_owned(),
        fingerprint: None,
        request_id: new_request_id(),
        lease: LEASE,
        holder: String::new(),
        trace_id: String::new(),
        attributes: std::collections::BTreeMap::new(),
        can_recover: true,
        terms: Terms::default(),
    }
}

/// Repeats a command until the store answers it.
pub async fn insist(store: &dyn Store, command: &Command) -> Answer {
    let give_up = Instant::now() + PATIENCE;
    loop {
        match store.apply(command.clone()).await {
            Ok(answer) => return answer,
            Err(error) if error.is_retryable() && Instant::now() < give_up => sleep(PAUSE).await,
            Err(error) => panic!("{} was not answered: {error}", command.name()),
        }
    }
}

/// Repeats a Reserve until it is answered.
pub async fn reserve(store: &dyn Store, request: &Reserve) -> ReserveVerdict {
    match insist(store, &Command::Reserve(Arc::new(request.clone()))).await {
        Answer::Reserve(reserved) => reserved.verdict,
        other => panic!("Reserve was answered {other:?}"),
    }
}

/// Is granted a new key.
pub async fn granted(store: &dyn Store, key: &str) -> Token {
    match reserve(store, &ask(key)).await {
        ReserveVerdict::Granted(grant) => Token {
            generation: grant.generation,
            fence: grant.fence,
        },
        other => panic!("{key} was not granted but {other:?}"),
    }
}

/// The command that completes a reservation.
pub fn completion(key: &str, token: Token, outcome: Outcome) -> Command {
    let key = key_of(key);
    Command::Complete(Box::new(Complete {
        key,
        token,
        outcome,
        retention: None,
    }))
}

/// Repeats a Complete until it is answered.
pub async fn complete(store: &dyn Store, key: &str, token: Token, done: Outcome) -> Completed {
    match insist(store, &completion(key, token, done)).await {
        Answer::Complete(completed) => *completed,
        other => panic!("Complete was answered {other:?}"),
    }
}

/// What callers were told of each key. Whoever is told something that breaks an earlier answer
/// fails the test.
#[derive(Debug, Default)]
pub struct Ledger {
    keys: Mutex<HashMap<String, Told>>,
    answered: watch::Sender<u64>,
}

#[derive(Debug, Default, Clone)]
struct Told {
    granted: Option<Fence>,
    effects: u32,
    payload: Option<Vec<u8>>,
    acknowledged: bool,
}

impl Ledger {
    /// Somebody was GRANTED a key; the same fence again is the same grant.
    pub fn granted(&self, key: &str, fence: Fence) {
        let mut keys = self.keys();
        let first = *keys
            .entry(key.to_owned())
            .or_default()
            .granted
            .get_or_insert(fence);
        assert_eq!(first, fence, "{key} was granted twice");
    }

    /// Runs the effect: in this test, a count and a result of its own.
    pub fn run_effect(&self, key: &str) -> String {
        let mut keys = self.keys();
        let told = keys.entry(key.to_owned()).or_default();
        told.effects += 1;
        assert_eq!(told.effects, 1, "the effect of {key} ran twice");
        format!(
            "{key}:{:032x}",
            u128::from_be_bytes(*new_request_id().as_bytes())
        )
    }

    /// An outcome was shown, or its recording acknowledged.
    pub fn outcome(&self, key: &str, payload: &[u8], acknowledged: bool) {
        let mut keys = self.keys();
        let told = keys.entry(key.to_owned()).or_default();
        let first = told.payload.get_or_insert_with(|| payload.to_vec());
        assert_eq!(first, payload, "two outcomes were shown for {key}");
        told.acknowledged |= acknowledged;
    }

    /// Waits until one more call than now was answered.
    pub async fn goes_on(&self) {
        let mut answered = self.answered.subscribe();
        let changed = timeout(PATIENCE, answered.changed()).await;
        changed
            .expect("some call is answered")
            .expect("the ledger is there");
    }

    /// A call was answered.
    pub fn answered(&self) {
        self.answered.send_modify(|calls| *calls += 1);
    }

    /// How many keys were granted.
    pub fn grants(&self) -> usize {
        self.keys()
            .values()
            .filter(|told| told.granted.is_some())
            .count()
    }

    /// How many outcomes were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.keys()
            .values()
            .filter(|told| told.acknowledged)
            .count()
    }

    /// The keys whose outcome was acknowledged, with its payload.
    pub fn outcomes(&self) -> Vec<(String, Vec<u8>)> {
        let keys = self.keys();
        let acknowledged = keys.iter().filter(|(_, told)| told.acknowledged);
        let outcomes = acknowledged.map(|(key, told)| (key.clone(), told.payload.clone()));
        outcomes
            .map(|(key, payload)| (key, payload.unwrap_or_default()))
            .collect()
    }

    /// Compares everything that was told with what is stored in the end.
    pub async fn settle(&self, store: &dyn Store) {
        let told: Vec<_> = self.keys().clone().into_iter().collect();
        for some in told.chunks(500) {
            let keys = some.iter().map(|(key, _)| key_of(key)).collect();
            let reading = store.read(keys).await.expect("the store reads");
            for ((key, told), record) in some.iter().zip(reading.records) {
                let record = record.expect("the record is sound");
                let record = record.unwrap_or_else(|| panic!("{key} is gone"));
                if let Some(fence) = told.granted {
                    assert_eq!(record.fence, fence, "{key}");
                }
                let payload = match record.state {
                    RecordState::Completed(completion) => Some(completion.outcome.payload),
                    RecordState::Running(_)
                    | RecordState::Recovering(_)
                    | RecordState::Released { .. }
                    | RecordState::Parked { .. }
                    | RecordState::Expired(_) => None,
                };
                assert_eq!(
                    payload, told.payload,
                    "what was told of {key} is not what is stored"
                );
            }
        }
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<String, Told>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One caller's whole work on a key that others may want too: reserve, and if it is granted, make
/// sure that the same call gets the same reservation, run the effect, complete. `true`: granted.
pub async fn work(store: &dyn Store, ledger: &Ledger, key: &str) -> bool {
    let request = ask(key);
    let verdict = reserve(store, &request).await;
    ledger.answered();
    let token = match verdict {
        ReserveVerdict::Granted(grant) => Token {
            generation: grant.generation,
            fence: grant.fence,
        },
        ReserveVerdict::Replay(replay) => {
            ledger.outcome(key, &replay.outcome.payload, false);
            return false;
        }
        ReserveVerdict::InProgress(_) => return false,
        other => panic!("{key}: {other:?}"),
    };
    ledger.granted(key, token.fence);
    let again = reserve(store, &request).await;
    ledger.answered();
    match again {
        ReserveVerdict::Granted(again) => ledger.granted(key, again.fence),
        other => panic!("{key}: the call that was granted got {other:?} when it was repeated"),
    }
    let payload = ledger.run_effect(key);
    let completed = complete(store, key, token, outcome(&payload)).await;
    ledger.answered();
    let recorded = matches!(
        completed.verdict,
        CompleteVerdict::Recorded | CompleteVerdict::AlreadyRecorded
    );
    assert!(recorded, "{key}: {completed:?}");
    ledger.outcome(key, payload.as_bytes(), true);
    true
}
