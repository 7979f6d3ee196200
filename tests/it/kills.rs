//! Sessions killed by the server and calls given up by their callers: neither leaves a right given
//! twice, an outcome lost, or a session stuck in a transaction.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test fails at an answer that it does not expect"
)]

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::{FutureExt, StreamExt, stream};
use oncegate::domain::command::{Answer, Command, Reserve, ReserveVerdict};
use oncegate::domain::record::{RecordState, StateName};
use oncegate::domain::token::Token;
use oncegate::port::store::Store;
use oncegate::testkit::load::{Dice, Ledger, ask, completion, reserve, work};
use oncegate::testkit::values::{key_of, outcome};
use tokio::time::{sleep, timeout};

use crate::outage::contending_callers;
use crate::rig::{Rig, SERVERS, alone};

/// Sessions killed on each server.
const KILLS: i64 = 200;
/// Calls given up on each server.
const GIVEN_UP: usize = 2_000;

// Field case B2. Field case B11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_sessions_cost_no_grant_and_no_outcome() {
    let _alone = alone().await;
    for server in SERVERS {
        let mut rig = Rig::start(server, |_| {}).await;
        let ledger = Arc::new(Ledger::default());
        let (mut callers, stop) = contending_callers(&rig, &ledger);
        let mut kills = 0;
        while kills < KILLS {
            ledger.goes_on().await;
            sleep(Duration::from_millis(50)).await;
            kills += rig
                .number(
                    "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity \
                     WHERE datname = current_database() AND application_name = 'oncegate'",
                )
                .await;
        }
        stop.store(true, Ordering::SeqCst);
        while let Some(done) = callers.join_next().await {
            done.expect("no promise was broken");
        }
        ledger.settle(rig.store.as_ref()).await;
        assert!(
            ledger.acknowledged() > 30,
            "{server}: only {}",
            ledger.acknowledged()
        );
        assert_eq!(ledger.acknowledged(), ledger.grants(), "{server}");
        assert_eq!(
            rig.sessions("state LIKE 'idle in transaction%'").await,
            0,
            "{server}"
        );
    }
}

// Field case H2. Field case C1. Field case I2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_given_up_are_finished_and_leave_every_session_clean() {
    let _alone = alone().await;
    let mut dice = Dice::cast();
    for server in SERVERS {
        let mut rig = Rig::start(server, |_| {}).await;
        let held: Vec<_> = given_up_reserves(&rig, &mut dice).await;
        let completing = held
            .iter()
            .map(|(key, request)| complete_and_hang_up(&rig, key, request));
        let hung_up = stream::iter(completing)
            .buffer_unordered(16)
            .filter(|hung_up| ready(*hung_up))
            .count()
            .await;
        assert!(hung_up > held.len() / 2, "{server}: only {hung_up}");
        all_completed(&rig, &held).await;
        assert_eq!(
            rig.sessions("state LIKE 'idle in transaction%'").await,
            0,
            "{server}"
        );
        assert!(rig.sessions("true").await <= 8, "{server}");
        let ledger = Ledger::default();
        for n in 0..50 {
            assert!(
                work(rig.store.as_ref(), &ledger, &format!("after-{n}")).await,
                "{server}"
            );
        }
    }
}

/// The call that was given up, or its repetition here, got the reservation; nobody else did. Its
/// holder hangs up right after sending Complete. Says whether that was before the answer, which can
/// be there at once when the machine lets this thread wait.
async fn complete_and_hang_up(rig: &Rig, key: &str, request: &Reserve) -> bool {
    let token = match reserve(rig.store.as_ref(), request).await {
        ReserveVerdict::Granted(grant) => Token {
            generation: grant.generation,
            fence: grant.fence,
        },
        other => panic!("{key}: {other:?}"),
    };
    let command = completion(key, token, outcome(key));
    match rig.store.apply(command).now_or_never() {
        None => true,
        Some(Ok(_)) => false,
        Some(Err(error)) => panic!("{key}: {error}"),
    }
}

/// Reserves keys, each call dropped at a random moment.
async fn given_up_reserves(rig: &Rig, dice: &mut Dice) -> Vec<(String, Reserve)> {
    let mut held = Vec::new();
    for some in 0..GIVEN_UP / 20 {
        let calls = (0..20).map(|n| {
            let key = format!("given-up-{some}-{n}");
            let request = ask(&key);
            let command = Command::Reserve(Arc::new(request.clone()));
            let patience = dice.span(Duration::from_millis(5));
            let call = timeout(patience, rig.store.apply(command));
            held.push((key, request));
            async move {
                match call.await {
                    Ok(Ok(Answer::Reserve(_))) | Err(_) => {}
                    Ok(other) => panic!("{other:?}"),
                }
            }
        });
        let calls: Vec<_> = calls.collect();
        futures::future::join_all(calls).await;
    }
    held
}

/// Waits until the outcome of every key is recorded.
async fn all_completed(rig: &Rig, held: &[(String, Reserve)]) {
    for some in held.chunks(500) {
        let keys: Vec<_> = some.iter().map(|(key, _)| key_of(key)).collect();
        let all = async {
            loop {
                let reading = rig.store.read(keys.clone()).await.expect("the store reads");
                let records = reading.records.into_iter();
                let records: Vec<_> = records
                    .map(|record| record.expect("sound").expect("there"))
                    .collect();
                if records
                    .iter()
                    .all(|record| record.state_name() == StateName::Completed)
                {
                    break records;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        let records = timeout(Duration::from_secs(30), all).await;
        for record in records.expect("every Complete that was sent is carried out") {
            let RecordState::Completed(completion) = record.state else {
                unreachable!()
            };
            assert_eq!(completion.outcome.payload, record.key.key().as_bytes());
        }
    }
}
