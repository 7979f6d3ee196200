//! Keys that travel in one statement: one that is stuck, bad or contended concerns itself alone.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use oncegate::domain::command::{Answer, Command, Renew, ReserveVerdict};
use oncegate::domain::record::{Fence, StateName};
use oncegate::domain::token::Token;
use oncegate::port::clock::{Clock, ManualClock};
use oncegate::port::store::{Store, StoreError};
use oncegate::testkit::load::{ask, completion, granted, reserve};
use oncegate::testkit::values::{LEASE, key_of, outcome, start};
use sqlx::{Connection, Executor, PgConnection};
use tokio::time::{Instant, sleep, timeout};

use crate::rig::{Rig, SERVERS, alone};

/// Longer than everything that is not stuck may take.
const SOON: Duration = Duration::from_millis(900);

/// Another session that has locked something.
async fn locking(rig: &Rig, statement: &'static str) -> PgConnection {
    let mut other = PgConnection::connect(&rig.database.url())
        .await
        .expect("a session");
    other.execute("BEGIN").await.expect("begun");
    other.execute(statement).await.expect("locked");
    other
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("k{at}")).collect()
}

// Field case A8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_stuck_delays_only_itself() {
    let _alone = alone().await;
    for server in SERVERS {
        let rig = Rig::start(server, |_| {}).await;
        let store = rig.store.as_ref();
        let mut tokens = Vec::new();
        for name in names(40) {
            tokens.push((granted(store, &name).await, name));
        }
        let stuck = granted(store, "stuck").await;
        let mut other = locking(
            &rig,
            "SELECT FROM oncegate_record WHERE key = 'stuck' FOR UPDATE",
        )
        .await;
        let waiting = {
            let store = Arc::clone(&rig.store);
            let command = completion("stuck", stuck, outcome("late"));
            tokio::spawn(async move { store.apply(command).await })
        };
        sleep(Duration::from_millis(50)).await;
        let others = tokens
            .iter()
            .map(|(token, name)| store.apply(completion(name, *token, outcome("done"))));
        let started = Instant::now();
        for told in timeout(SOON, join_all(others))
            .await
            .expect("none of them is stuck")
        {
            assert!(told.is_ok(), "{server}: {told:?}");
        }
        let new = names(80).into_iter().skip(40);
        let new = new.map(|name| async move { reserve(store, &ask(&name)).await });
        timeout(SOON, join_all(new))
            .await
            .expect("no new key is stuck");
        assert!(!waiting.is_finished(), "{server}: {:?}", started.elapsed());
        other.execute("COMMIT").await.expect("free");
        let told = waiting.await.expect("the task ends").expect("it answers");
        assert!(matches!(told, Answer::Complete(_)), "{server}: {told:?}");
    }
}

// Field case A8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_bad_fails_only_itself() {
    for server in SERVERS {
        let mut rig = Rig::start(server, |options| options.connections = 1).await;
        rig.run(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
               RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'as_if'; END $$; \
             CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON oncegate_record FOR EACH ROW \
               WHEN (NEW.key = 'bad') EXECUTE FUNCTION refuse()",
        )
        .await;
        let store = rig.store.as_ref();
        // The one worker is busy, so that all others leave together.
        let mut other = locking(&rig, "LOCK TABLE oncegate_record IN ACCESS EXCLUSIVE MODE").await;
        let mut all = names(30);
        all.insert(15, "bad".to_owned());
        let asked = all
            .iter()
            .map(|name| store.apply(Command::Reserve(Arc::new(ask(name)))));
        let free = async {
            sleep(Duration::from_millis(100)).await;
            other.execute("COMMIT").await.expect("free");
        };
        let (told, ()) = tokio::join!(join_all(asked), free);
        for (name, told) in all.iter().zip(told) {
            let refused = matches!(told, Err(StoreError::Corrupt(_)));
            assert_eq!(refused, name == "bad", "{server}, {name}: {told:?}");
        }
    }
}

// Field case A8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_that_ask_for_one_key_at_once_one_is_granted() {
    for server in SERVERS {
        let rig = Rig::start(server, |options| options.connections = 1).await;
        let store = rig.store.as_ref();
        let mut other = locking(&rig, "LOCK TABLE oncegate_record IN ACCESS EXCLUSIVE MODE").await;
        let asked: Vec<_> = (0..120).map(|at| format!("k{}", at % 12)).collect();
        let told = asked
            .iter()
            .map(|name| async move { reserve(store, &ask(name)).await });
        let free = async {
            sleep(Duration::from_millis(100)).await;
            other.execute("COMMIT").await.expect("free");
        };
        let (told, ()) = tokio::join!(join_all(told), free);
        let granted = |told: &&ReserveVerdict| matches!(told, ReserveVerdict::Granted(_));
        assert_eq!(told.iter().filter(granted).count(), 12, "{server}");
    }
}

/// What this process knows of a record is good for a holder's report, and for no new right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_that_leaves_with_a_stale_renewal_has_a_fence_of_its_own() {
    for server in SERVERS {
        let clock = ManualClock::new(start());
        let rig = Rig::start(server, |options| {
            options.connections = 1;
            options.clock = Clock::Manual(clock.clone());
        })
        .await;
        let store = rig.store.as_ref();
        let token = granted(store, "k").await;
        clock.advance(LEASE);
        let mut other = locking(&rig, "LOCK TABLE oncegate_record IN ACCESS EXCLUSIVE MODE").await;
        let stale = Token {
            fence: Fence::new(token.fence.get() + 1_000_000),
            ..token
        };
        let renew = Command::Renew(Renew {
            key: key_of("k"),
            token: stale,
            lease: LEASE,
        });
        let (request, first) = (ask("k"), ask("busy"));
        let busy = reserve(store, &first);
        let renewed = store.apply(renew);
        let taken = async {
            sleep(Duration::from_millis(20)).await;
            reserve(store, &request).await
        };
        let free = async {
            sleep(Duration::from_millis(100)).await;
            other.execute("COMMIT").await.expect("free");
        };
        let (_busy, renewed, taken, ()) = tokio::join!(busy, renewed, taken, free);
        let Ok(Answer::Renew(renewed)) = renewed else {
            panic!("{server}: {renewed:?}")
        };
        assert_eq!(
            (renewed.held, renewed.state),
            (false, Some(StateName::Running))
        );
        let ReserveVerdict::Recover(recover) = taken else {
            panic!("{server}: {taken:?}")
        };
        assert!(recover.grant.fence > token.fence, "{server}: {recover:?}");
    }
}
