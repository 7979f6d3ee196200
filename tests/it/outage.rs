//! Postgres behind a network that breaks: connections cut in mid-call, answers lost after the
//! commit, a server that is gone, a network that swallows everything. Every call is repeated
//! unchanged until it is answered; no right is given twice and no outcome is lost.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test fails at an answer that it does not expect"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use oncegate::domain::command::{Answer, Command, CompleteVerdict, Reserve, ReserveVerdict};
use oncegate::domain::token::Token;
use oncegate::port::store::{Store, StoreError};
use oncegate::store::postgres::PostgresOptions;
use oncegate::testkit::chaos_proxy::Mode;
use oncegate::testkit::load::{Dice, Ledger, ask, complete, completion, reserve, work};
use oncegate::testkit::values::{key_of, outcome};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::rig::{Rig, SERVERS, alone};

/// Cuts for each server.
const CUTS: u64 = 300;

// Field case A1. Field case A4. Field case B2. Field case B11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_at_any_moment_costs_no_grant_and_no_outcome() {
    let _alone = alone().await;
    let mut dice = Dice::cast();
    for server in SERVERS {
        let rig = Rig::start(server, |options| {
            options.retry_for = Duration::from_secs(1);
            options.connect_timeout = Duration::from_secs(1);
        })
        .await;
        let ledger = Arc::new(Ledger::default());
        let (mut callers, stop) = contending_callers(&rig, &ledger);
        for _ in 0..CUTS {
            // Between two cuts somebody gets an answer, so that the storm reaches every step.
            ledger.goes_on().await;
            sleep(dice.span(Duration::from_millis(20))).await;
            rig.proxy.cut_one(dice.roll());
        }
        stop.store(true, Ordering::SeqCst);
        while let Some(done) = callers.join_next().await {
            done.expect("no promise was broken");
        }
        ledger.settle(rig.store.as_ref()).await;
        assert!(
            ledger.acknowledged() > 100,
            "{server}: only {}",
            ledger.acknowledged()
        );
        assert_eq!(ledger.acknowledged(), ledger.grants(), "{server}");
    }
}

/// Nine callers, three at a time on one key, until they are told to stop.
pub(crate) fn contending_callers(
    rig: &Rig,
    ledger: &Arc<Ledger>,
) -> (JoinSet<()>, Arc<AtomicBool>) {
    let stop = Arc::new(AtomicBool::new(false));
    let next = Arc::new(AtomicU64::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..9 {
        let (store, ledger) = (Arc::clone(&rig.store), Arc::clone(ledger));
        let (stop, next) = (Arc::clone(&stop), Arc::clone(&next));
        callers.spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let key = format!("storm-{}", next.fetch_add(1, Ordering::SeqCst) / 3);
                work(store.as_ref(), &ledger, &key).await;
            }
        });
    }
    (callers, stop)
}

fn reserve_command(request: &Reserve) -> Command {
    Command::Reserve(Arc::new(request.clone()))
}

async fn granted(store: &dyn Store, request: &Reserve) -> Token {
    match reserve(store, request).await {
        ReserveVerdict::Granted(grant) => Token {
            generation: grant.generation,
            fence: grant.fence,
        },
        other => panic!("{other:?}"),
    }
}

/// One connection: no other one tries again before the network is away.
fn one_try_at_a_time(options: &mut PostgresOptions) {
    options.connections = 1;
    options.retry_for = Duration::from_secs(2);
}

/// Applies a command whose answer is lost after the commit. `told`: the network stays away until
/// the store has told its caller that the outcome is unknown; else the store finds out by itself.
async fn apply_and_lose_answer(
    rig: &Rig,
    command: Command,
    part_of_the_request: impl Into<Vec<u8>>,
    told: bool,
) -> Result<Answer, StoreError> {
    rig.proxy.lose_answer_to(part_of_the_request);
    let going_away = async {
        while rig.proxy.answers_lost() == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        if told {
            rig.proxy.set(Mode::Refuse);
        }
    };
    let (answer, ()) = tokio::join!(rig.store.apply(command), going_away);
    assert_eq!(rig.proxy.answers_lost(), 1);
    assert_eq!(
        matches!(answer, Err(StoreError::OutcomeUnknown(_))),
        told,
        "{answer:?}"
    );
    rig.proxy.set(Mode::Forward);
    answer
}

// Field case A5. Field case I1.
#[tokio::test]
async fn a_reserve_whose_answer_was_lost_gets_its_own_reservation_back() {
    for (server, told) in each_server_and_way() {
        let mut rig = Rig::start(server, one_try_at_a_time).await;
        let (mine, theirs) = (ask("lost"), ask("lost"));
        let command = reserve_command(&mine);
        // A first call opens the connection and prepares the statement.
        reserve(rig.store.as_ref(), &ask("warm-up")).await;
        drop(apply_and_lose_answer(&rig, command, *mine.key.digest().as_bytes(), told).await);

        let other = reserve(rig.store.as_ref(), &theirs).await;
        assert!(
            matches!(other, ReserveVerdict::InProgress(_)),
            "{server}: {other:?}"
        );
        let token = granted(rig.store.as_ref(), &mine).await;
        assert_eq!(token, granted(rig.store.as_ref(), &mine).await);
        let fence = "SELECT fence FROM oncegate_record WHERE key = 'lost'";
        assert_eq!(token.fence.get(), rig.number(fence).await, "{server}");
        let other = reserve(rig.store.as_ref(), &theirs).await;
        assert!(
            matches!(other, ReserveVerdict::InProgress(_)),
            "{server}: {other:?}"
        );
    }
}

// Field case B11. Field case I1.
#[tokio::test]
async fn a_complete_whose_answer_was_lost_is_recorded_once() {
    for (server, told) in each_server_and_way() {
        let rig = Rig::start(server, one_try_at_a_time).await;
        let store = rig.store.as_ref();
        let warm_up = granted(store, &ask("warm-up")).await;
        complete(store, "warm-up", warm_up, outcome("done")).await;
        let mine = ask("lost");
        let token = granted(store, &mine).await;
        let done = outcome("invoice number 4711");
        // The statement that writes is the one that carries the payload.
        let (command, part) = (
            completion("lost", token, done.clone()),
            b"number 4711".as_slice(),
        );
        if let Ok(answer) = apply_and_lose_answer(&rig, command, part, told).await {
            let Answer::Complete(completed) = answer else {
                panic!("{answer:?}")
            };
            assert_eq!(
                completed.verdict,
                CompleteVerdict::AlreadyRecorded,
                "{server}"
            );
        }
        let again = complete(store, "lost", token, done.clone()).await;
        assert_eq!(again.verdict, CompleteVerdict::AlreadyRecorded, "{server}");
        let other = complete(store, "lost", token, outcome("another")).await;
        assert_eq!(other.verdict, CompleteVerdict::Divergent, "{server}");
        for request in [mine, ask("lost")] {
            let verdict = reserve(store, &request).await;
            let ReserveVerdict::Replay(replay) = verdict else {
                panic!("{server}: {verdict:?}")
            };
            assert_eq!(replay.outcome, done, "{server}");
        }
    }
}

fn each_server_and_way() -> impl Iterator<Item = (&'static str, bool)> {
    SERVERS
        .into_iter()
        .flat_map(|server| [(server, false), (server, true)])
}

/// Nothing of a store whose database is away grants, confirms or claims to be ready.
async fn is_away(store: &dyn Store, token: Token, bound: Duration) {
    let asked = [
        reserve_command(&ask("new")),
        reserve_command(&ask("held")),
        reserve_command(&ask("done")),
        completion("held", token, outcome("late")),
    ];
    for command in asked {
        let before = Instant::now();
        let answer = store.apply(command).await;
        let unavailable = matches!(
            answer,
            Err(StoreError::Unavailable(_) | StoreError::OutcomeUnknown(_))
        );
        assert!(unavailable, "{answer:?}");
        assert!(
            before.elapsed() < bound,
            "answered only after {:?}",
            before.elapsed()
        );
    }
    let read = store.read(vec![key_of("done")]).await;
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    let ready = store.check().await;
    assert!(
        matches!(ready, Err(StoreError::Unavailable(_))),
        "{ready:?}"
    );
}

// Field case G1. Field case H4.
#[tokio::test]
async fn a_database_that_is_away_grants_nothing_and_is_back_without_a_restart() {
    let _alone = alone().await;
    for server in SERVERS {
        for mode in [Mode::Refuse, Mode::Blackhole] {
            let rig = Rig::start(server, |options| {
                options.connections = 2;
                options.retry_for = Duration::from_millis(500);
                options.connect_timeout = Duration::from_millis(500);
                options.statement_timeout = Duration::from_millis(500);
            })
            .await;
            let store = rig.store.as_ref();
            let held = granted(store, &ask("held")).await;
            let done = granted(store, &ask("done")).await;
            complete(store, "done", done, outcome("once")).await;

            rig.proxy.set(mode);
            // A statement's own limit and its grace, and one more try to connect.
            is_away(store, held, Duration::from_millis(500 + 1000 + 500 + 500)).await;

            rig.proxy.set(Mode::Forward);
            rig.recovers_within(Duration::from_secs(3)).await;
            let verdict = complete(store, "held", held, outcome("late")).await.verdict;
            let recorded = matches!(
                verdict,
                CompleteVerdict::Recorded | CompleteVerdict::AlreadyRecorded
            );
            assert!(recorded, "{server}, {mode:?}: {verdict:?}");
            let replay = reserve(store, &ask("done")).await;
            assert!(
                matches!(replay, ReserveVerdict::Replay(_)),
                "{server}, {mode:?}"
            );
            granted(store, &ask("after")).await;
        }
    }
}

// Field case A1. Field case A4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_database_gives_one_grant_for_each_key_and_no_errors() {
    let _alone = alone().await;
    let rig = Rig::start(SERVERS[0], |_| {}).await;
    reserve(rig.store.as_ref(), &ask("warm-up")).await;
    rig.proxy.set(Mode::Delay(Duration::from_millis(25)));
    for key in ["one", "two", "three"] {
        let mut racers = JoinSet::new();
        for _ in 0..50 {
            let (store, request) = (Arc::clone(&rig.store), ask(key));
            racers.spawn(async move { store.apply(reserve_command(&request)).await });
        }
        let mut grants = 0;
        for answer in racers.join_all().await {
            match answer {
                Ok(Answer::Reserve(reserved)) => match reserved.verdict {
                    ReserveVerdict::Granted(_) => grants += 1,
                    ReserveVerdict::InProgress(_) => {}
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(grants, 1, "{key}");
    }
}
