//! Random sequences of operations, judged by a store and by the reference machine at once: they
//! must say the same, step by step. Beside it, what must hold whatever is said: fences rise, one
//! generation has one first run, an outcome never changes, RECOVER is no right to run.
//!
//! A failure prints the shortest sequence that shows it.

mod answers;
mod pair;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use oncegate::domain::key::RecordKey;
use oncegate::domain::policy::EffectClass;
use oncegate::port::clock::{Clock, ManualClock};
use oncegate::port::store::Store;
use oncegate::store::memory::MemoryStore;
use oncegate::testkit::conformance::Fixture;
use oncegate::testkit::databases::{postgres_15, postgres_18, sqlite};
use oncegate::testkit::reference::Rules;
use oncegate::testkit::scene::start;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Runtime;

use pair::{Pair, Step};

fn step() -> impl Strategy<Value = Step> {
    // The newest token most of the time: 0 is the newest, 1 the one before.
    let token = || prop_oneof![6 => Just(0_usize), 2 => Just(1), 1 => 2..5_usize];
    let lease = || prop_oneof![Just(1_u64), Just(30), Just(500)];
    let wait = prop_oneof![
        Just(1_u64),
        Just(29),
        Just(30),
        Just(31),
        Just(60),
        Just(200),
        Just(9_000)
    ];
    let request = prop_oneof![9 => Just(1_u8), 1 => Just(2)];
    prop_oneof![
        8 => (0..8_u8, lease(), prop::bool::weighted(0.8), request).prop_map(
            |(id, lease, can_recover, request)| Step::Reserve { id, lease, can_recover, request }
        ),
        3 => (token(), 0..3_u8).prop_map(|(token, outcome)| Step::Complete { token, outcome }),
        2 => (token(), lease()).prop_map(|(token, lease)| Step::Renew { token, lease }),
        2 => token().prop_map(|token| Step::Release { token }),
        1 => token().prop_map(|token| Step::Park { token }),
        3 => (token(), 0..3_u8, lease(), any::<bool>()).prop_map(
            |(token, id, lease, settled_seen)| Step::Reexecute { token, id, lease, settled_seen }
        ),
        1 => Just(Step::See),
        2 => (0..3_usize, any::<bool>())
            .prop_map(|(etag, allow_rerun)| Step::Expire { etag, allow_rerun }),
        2 => (0..3_usize).prop_map(|etag| Step::Resolve { etag }),
        6 => wait.prop_map(Step::Wait),
        1 => Just(Step::Sweep),
    ]
}

fn rules(class: EffectClass) -> impl Strategy<Value = Rules> {
    let tombstone = prop_oneof![Just(0_u64), Just(100), Just(20_000)];
    let retention = prop_oneof![Just(100_u64), Just(5_000)];
    (tombstone, retention, 1..4_u32).prop_map(move |(tombstone, retention, max_recoveries)| {
        let window = 700;
        // What a policy must be to be valid: the key outlives the other side's window.
        let least = if class == EffectClass::Keyed {
            window
        } else {
            0
        };
        Rules {
            class,
            window,
            settle: 45,
            max_total_lease: 90,
            retention: retention.max(least),
            tombstone,
            max_recoveries,
        }
    })
}

fn runtime() -> Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime starts")
}

/// Runs `sequences` sequences of one class against one store, each under a key of its own.
fn agree(
    runtime: &Runtime,
    store: &Arc<dyn Store>,
    clock: &ManualClock,
    class: EffectClass,
    sequences: u32,
) {
    let config = Config {
        cases: sequences,
        failure_persistence: None,
        ..Config::default()
    };
    let next = AtomicU64::new(0);
    let tested = TestRunner::new(config).run(
        &(rules(class), prop::collection::vec(step(), 1..40)),
        |(rules, steps)| {
            let key = format!("{class:?}-{}", next.fetch_add(1, Ordering::Relaxed));
            let key = RecordKey::parse("shop", "live", "", &key).expect("a valid key");
            let mut pair = Pair::new(Arc::clone(store), clock.clone(), rules, key);
            runtime.block_on(async {
                for step in steps {
                    pair.step(step).await?;
                }
                Ok(())
            })
        },
    );
    if let Err(failure) = tested {
        panic!("{failure}");
    }
}

const CLASSES: [EffectClass; 6] = [
    EffectClass::Opaque,
    EffectClass::Receipt,
    EffectClass::Keyed,
    EffectClass::Fenced,
    EffectClass::Queryable,
    EffectClass::Repeatable,
];

fn memory_agrees(class: EffectClass) {
    let clock = ManualClock::new(start());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Clock::Manual(clock.clone())));
    agree(&runtime(), &store, &clock, class, 3_400);
}

#[test]
fn memory_agrees_with_the_reference_for_opaque_effects() {
    memory_agrees(EffectClass::Opaque);
}

#[test]
fn memory_agrees_with_the_reference_for_receipt_effects() {
    memory_agrees(EffectClass::Receipt);
}

#[test]
fn memory_agrees_with_the_reference_for_keyed_effects() {
    memory_agrees(EffectClass::Keyed);
}

#[test]
fn memory_agrees_with_the_reference_for_fenced_effects() {
    memory_agrees(EffectClass::Fenced);
}

#[test]
fn memory_agrees_with_the_reference_for_queryable_effects() {
    memory_agrees(EffectClass::Queryable);
}

#[test]
fn memory_agrees_with_the_reference_for_repeatable_effects() {
    memory_agrees(EffectClass::Repeatable);
}

/// A few sequences of every class: what is new here is only how a record is stored.
fn store_agrees<F: Future<Output = Fixture>>(factory: impl FnOnce(ManualClock) -> F) {
    let (runtime, clock) = (runtime(), ManualClock::new(start()));
    let fixture = runtime.block_on(factory(clock.clone()));
    for class in CLASSES {
        agree(&runtime, &fixture.store, &clock, class, 25);
    }
}

#[test]
fn sqlite_agrees_with_the_reference() {
    store_agrees(sqlite);
}

#[test]
fn postgres_15_agrees_with_the_reference() {
    store_agrees(postgres_15);
}

#[test]
fn postgres_18_agrees_with_the_reference() {
    store_agrees(postgres_18);
}
