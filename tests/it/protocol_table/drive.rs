//! Drives a store into a state of the table and carries out one operation there.

use std::sync::Arc;

use oncegate::domain::command::{
    CompleteVerdict, Expire, PersonAnswer, ReexecuteVerdict, Refusal, Resolution, Resolve,
};
use oncegate::domain::decision::aged;
use oncegate::domain::policy::{EffectClass, Terms};
use oncegate::domain::record::{Etag, Fence, Generation, Record, RecordState, Reopening, Version};
use oncegate::port::clock::{Clock, ManualClock};
use oncegate::store::memory::MemoryStore;
use oncegate::testkit::scene::{Held, LEASE, Scene, key_of, outcome, secs, start, terms};

/// The states of the table, in its order.
pub(super) const STATES: [&str; 9] = [
    "ABSENT",
    "RUNNING",
    "RECOVERING owned",
    "RECOVERING unowned",
    "RELEASED",
    "COMPLETED",
    "PARKED",
    "EXPIRED",
    "EXPIRED reopening",
];

const KEY: &str = "k";

/// What is asked in a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Case {
    pub(super) state: String,
    pub(super) operation: String,
    pub(super) token: String,
}

/// What comes of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Driven {
    pub(super) answer: String,
    pub(super) after: String,
}

/// The tokens of one record.
struct Tokens {
    current: Held,
    superseded: Held,
    other: Held,
}

/// Carries out a row on a fresh store.
pub(super) async fn carry_out(case: &Case) -> Driven {
    let clock = ManualClock::new(start());
    let store = Arc::new(MemoryStore::new(Clock::Manual(clock.clone())));
    let rules = Terms {
        effect_class: EffectClass::Repeatable,
        ..terms()
    };
    let scene = Scene::new(store, clock).under(rules);
    let tokens = drive(&scene, &case.state).await;
    assert_eq!(state(&scene).await, case.state, "the state was not reached");
    let held = match case.token.as_str() {
        "superseded" => &tokens.superseded,
        "other generation" => &tokens.other,
        _ => &tokens.current,
    };
    let answer = operate(&scene, &case.operation, held).await;
    Driven {
        answer,
        after: state(&scene).await,
    }
}

/// A generation before this one, a superseded reservation in this one, and then the state.
async fn drive(scene: &Scene, state: &str) -> Tokens {
    let other = scene.completed(KEY).await;
    for _ in 0..2 {
        scene.expire(KEY, true).await.expect("it is completed");
    }
    scene.later(secs(60));
    let superseded = scene.granted(KEY).await;
    if state.starts_with("RECOVERING") {
        scene.lease_out();
    } else {
        scene.release(&superseded).await;
    }
    let current = scene.hold(&scene.ask(KEY)).await;
    match state {
        "RECOVERING unowned" | "RELEASED" => {
            scene.release(&current).await;
        }
        "PARKED" => {
            scene.park(&current).await;
        }
        "COMPLETED" | "EXPIRED" | "EXPIRED reopening" | "ABSENT" => {
            scene.complete(&current, outcome("done")).await;
        }
        _ => {}
    }
    match state {
        "EXPIRED" => drop(scene.expire(KEY, false).await),
        "EXPIRED reopening" => drop(scene.expire(KEY, true).await),
        "ABSENT" => {
            scene.later(secs(400 * 86_400));
            scene.sweep().await;
        }
        _ => {}
    }
    Tokens {
        current,
        superseded,
        other,
    }
}

/// The state in the table's words.
async fn state(scene: &Scene) -> String {
    let Some(record) = scene.find(KEY).await else {
        return "ABSENT".to_owned();
    };
    let Some(record) = aged(&record, scene.clock.now()) else {
        return "ABSENT".to_owned();
    };
    let detail = match &record.state {
        RecordState::Recovering(Some(_)) => " owned",
        RecordState::Recovering(None) => " unowned",
        RecordState::Expired(tombstone) if tombstone.reopening != Reopening::Never => " reopening",
        RecordState::Running(_)
        | RecordState::Released { .. }
        | RecordState::Completed(_)
        | RecordState::Parked { .. }
        | RecordState::Expired(_) => "",
    };
    format!("{}{detail}", record.state_name().name())
}

/// Carries out the operation; the answer in the table's words.
async fn operate(scene: &Scene, operation: &str, held: &Held) -> String {
    let yes = |yes: bool, word: &str| {
        if yes {
            word.to_owned()
        } else {
            format!("not {word}")
        }
    };
    match operation {
        "Reserve" => scene.says(KEY).await.to_owned(),
        "Complete" => {
            // Another outcome than the one that stands in COMPLETED and EXPIRED.
            let completed = scene.complete(held, outcome("other")).await;
            let verdict = match completed.verdict {
                CompleteVerdict::Recorded => "RECORDED",
                CompleteVerdict::AlreadyRecorded => "ALREADY_RECORDED",
                CompleteVerdict::Divergent => "DIVERGENT",
                CompleteVerdict::Superseded => "SUPERSEDED",
            };
            format!("{verdict}, {}", yes(completed.outcome_used, "used"))
        }
        "Renew" => yes(scene.renew(held, LEASE).await.held, "held"),
        "Release" => yes(scene.release(held).await.released, "released"),
        "Park" => yes(scene.park(held).await.parked, "parked"),
        "Reexecute" => match scene.reexecute(held).await {
            ReexecuteVerdict::Granted(_) => "GRANTED",
            ReexecuteVerdict::TooEarly { .. } => "TOO_EARLY",
            ReexecuteVerdict::Parked { .. } => "PARKED",
            ReexecuteVerdict::Superseded { .. } => "SUPERSEDED",
        }
        .to_owned(),
        "Expire" => {
            let (key, etag) = (key_of(KEY), etag(scene).await);
            let (reason, actor) = (String::new(), String::new());
            let command = Expire {
                key,
                reason,
                allow_rerun: true,
                etag,
                actor,
            };
            person(&scene.expire_as(command).await, "NOT_EXPIRABLE")
        }
        "Resolve" => {
            let (key, etag) = (key_of(KEY), etag(scene).await);
            let (reason, actor) = (String::new(), String::new());
            let resolution = Resolution::NothingHappened;
            let command = Resolve {
                key,
                etag,
                reason,
                actor,
                resolution,
            };
            person(&scene.resolve_as(command).await, "NOT_RESOLVABLE")
        }
        "Lookup" => yes(state(scene).await != "ABSENT", "found"),
        other => panic!("the table has no operation {other}"),
    }
}

/// The record's etag; for an absent one, some etag.
async fn etag(scene: &Scene) -> Etag {
    let none = Etag {
        generation: Generation::new(1),
        fence: Fence::new(1),
        version: Version::new(1),
    };
    scene.find(KEY).await.as_ref().map_or(none, Record::etag)
}

fn person(answer: &PersonAnswer, wrong_state: &str) -> String {
    match answer {
        Ok(_) => "OK",
        Err(Refusal::NotFound) => "NOT_FOUND",
        Err(Refusal::EtagMismatch) => "ETAG_MISMATCH",
        Err(Refusal::WrongState(_)) => wrong_state,
    }
    .to_owned()
}
