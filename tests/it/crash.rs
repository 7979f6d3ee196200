//! The server killed by `kill -9` under load, again and again. Every caller repeats its call over
//! the restart; no key is granted twice, and every outcome whose recording was acknowledged is there
//! with exactly its bytes.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use oncegate::proto::v1 as pb;
use oncegate::store::postgres;
use oncegate::testkit::load::{Dice, Ledger};
use oncegate::testkit::process::Server;
use pb::batch_reserve_result::Result as Item;
use pb::reserve_response::Verdict;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::client::{Gate, ask, gate, insist, key, program, work};
use crate::cluster::{Cluster, PROGRAMS};
use crate::durability::Traced;
use crate::rig::alone;

const KILLS: usize = 20;
/// Outcomes acknowledged on each of the two stores.
const OUTCOMES: usize = 10_000;
const CALLERS: usize = 64;

/// Refuses, in the server's own sessions, every write that would be acknowledged before it is flushed.
const DURABLE: [&str; 2] = [
    "CREATE FUNCTION durable() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NOT 'on' = ALL (ARRAY[current_setting('synchronous_commit'), current_setting('fsync'),
            current_setting('full_page_writes')])
        THEN
            RAISE EXCEPTION 'this write would not be flushed';
        END IF;
        RETURN NEW;
    END $$",
    "CREATE TRIGGER durable BEFORE INSERT OR UPDATE ON oncegate_record
     FOR EACH ROW EXECUTE FUNCTION durable()",
];

/// What the callers were told, and whether they are to stop.
#[derive(Default)]
struct Told {
    ledger: Ledger,
    stop: AtomicBool,
}

/// Callers, two at a time on one key, until they are told to stop.
fn callers(gates: &[Gate], round: usize, told: &Arc<Told>) -> JoinSet<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for gate in gates.iter().cycle().take(CALLERS) {
        let (gate, told, next) = (gate.clone(), Arc::clone(told), Arc::clone(&next));
        callers.spawn(async move {
            while !told.stop.load(Ordering::SeqCst) {
                let key = format!("crash-{round}-{}", next.fetch_add(1, Ordering::SeqCst) / 2);
                work(&gate, &told.ledger, &key).await;
            }
        });
    }
    callers
}

/// Asks for every acknowledged outcome that was not asked for yet, by Lookup and by Reserve.
async fn check(gate: &Gate, ledger: &Ledger, checked: &mut HashSet<String>) {
    let outcomes = ledger.outcomes().into_iter();
    let fresh: Vec<_> = outcomes
        .filter(|(name, _)| checked.insert(name.clone()))
        .collect();
    for some in fresh.chunks(500) {
        let requests = some.iter().map(|(name, _)| ask(name)).collect();
        let request = pb::BatchReserveRequest { requests };
        let answer = insist(|| async { gate.clone().batch_reserve(request.clone()).await }).await;
        assert_eq!(answer.results.len(), some.len());
        for ((name, payload), result) in some.iter().zip(answer.results) {
            let Some(Item::Response(response)) = result.result else {
                panic!("{name}: {result:?}");
            };
            let Some(Verdict::Replay(replay)) = response.verdict else {
                panic!("{name} was acknowledged, and is now {:?}", response.verdict);
            };
            assert_eq!(
                &replay.outcome.expect("an outcome").payload,
                payload,
                "{name}"
            );
        }
    }
    for (name, payload) in fresh.iter().step_by(10) {
        let request = pb::LookupRequest {
            key: Some(key(name)),
            without_payload: false,
        };
        let answer = insist(|| async { gate.clone().lookup(request.clone()).await }).await;
        let record = answer.record.expect("a record");
        assert_eq!(
            &record.outcome.expect("an outcome").payload,
            payload,
            "{name}"
        );
    }
}

/// Kills the server in the middle of the load, again and again. The callers of a round finish what
/// they began over the restart; then everything that they were told is asked after.
/// How many writes were acknowledged.
async fn survive(server: &mut Server, dice: &mut Dice) -> usize {
    let gates: Vec<Gate> = (0..4).map(|_| gate(server)).collect();
    let told = Arc::new(Told::default());
    let mut checked = HashSet::new();
    for round in 1..=KILLS {
        told.stop.store(false, Ordering::SeqCst);
        let mut callers = callers(&gates, round, &told);
        while told.ledger.acknowledged() < OUTCOMES * round / KILLS {
            told.ledger.goes_on().await;
            sleep(Duration::from_millis(5)).await;
            assert_eq!(callers.len(), CALLERS, "{:?}", callers.try_join_next());
        }
        sleep(dice.span(Duration::from_millis(30))).await;
        server.kill().await;
        server.launch().await;
        told.stop.store(true, Ordering::SeqCst);
        while let Some(done) = callers.join_next().await {
            done.expect("no promise was broken");
        }
        check(&gates[0], &told.ledger, &mut checked).await;
    }
    // Once more for all of them: what was found after one crash is there after the others.
    check(&gates[0], &told.ledger, &mut HashSet::new()).await;
    assert_eq!(told.ledger.acknowledged(), told.ledger.grants());
    assert!(
        told.ledger.acknowledged() >= OUTCOMES,
        "{}",
        told.ledger.acknowledged()
    );
    told.ledger.grants() + told.ledger.acknowledged()
}

/// The durability that the server's own store reads back.
async fn told_settings(server: &Server, url: &str, wanted: &[&str]) {
    let told = server.run(&["doctor", "--database-url", url]).await;
    let told = &told.expect(0).stdout;
    for setting in wanted {
        assert!(told.contains(setting), "{setting}: {told}");
    }
}

/// A caller asks one thing after the other, so no two writes of one can share a flush: there were
/// at least so many.
fn flushes_min(writes: usize) -> usize {
    writes / CALLERS
}

// Field case I1. Field case B11. Field case C7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_on_sqlite_that_is_killed_under_load_loses_and_doubles_nothing() {
    let _alone = alone().await;
    let mut dice = Dice::cast();
    let traced = Traced::new();
    let mut server = Server::start(&traced.program).await;
    let writes = survive(&mut server, &mut dice).await;
    let flushes = traced.flushes();
    assert!(
        flushes >= flushes_min(writes),
        "{flushes} flushes for {writes} writes"
    );
    let url = server.database_url();
    told_settings(&server, &url, &["journal_mode=wal", "synchronous=FULL"]).await;
    server.kill().await;
    let path = Path::new(url.trim_start_matches("sqlite://"));
    let file = rusqlite::Connection::open(path).expect("the file opens");
    let sound: String = file
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("the file can be checked");
    assert_eq!(sound, "ok");
}

// Field case I1. Field case B11. Field case C7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_on_postgres_that_is_killed_under_load_loses_and_doubles_nothing() {
    let _alone = alone().await;
    let mut dice = Dice::cast();
    // The newest, which tells whose flushes it counts.
    let cluster = Cluster::start(PROGRAMS[1]);
    let url = cluster.url();
    postgres::migrate(&url)
        .await
        .expect("an empty database migrates");
    cluster.run(&DURABLE).await;
    let own = [
        ("ONCEGATE_DATABASE_URL", url.as_str()),
        ("ONCEGATE_NAMESPACES_AUTO_CREATE", "true"),
    ];
    let before = cluster.wal_flushes().await;
    let mut server = Server::start_with(program(), &own).await;
    let writes = survive(&mut server, &mut dice).await;
    let settings = ["fsync=on", "full_page_writes=on", "synchronous_commit=on"];
    told_settings(&server, &url, &settings).await;
    server.kill().await;
    let flushes = i64::try_from(flushes_min(writes)).expect("not many");
    cluster.has_flushed(before + flushes).await;
}
