//! Three servers on one store, and two hundred callers that ask for one key at the same moment:
//! one of them is granted, nobody meets an error, whatever they bring.

use std::sync::Arc;
use std::time::Duration;

use oncegate::proto::v1 as pb;
use oncegate::store::postgres;
use oncegate::testkit::databases::TempPostgres;
use oncegate::testkit::process::Server;
use pb::reserve_response::Verdict;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::{Gate, ask, complete, completion, gate, program, reserve};
use crate::rig::{SERVERS, alone};

const CALLERS: usize = 200;
/// Connections to each server.
const CHANNELS: usize = 10;
/// Longer than a debug build takes on a busy machine.
const HANG: Duration = Duration::from_mins(10);

/// What one caller was told of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Granted(i64),
    Busy,
    Replay,
    Mismatch,
}

/// Three servers on the store at a URL.
async fn fleet(url: &str) -> Vec<Server> {
    let program = program();
    let settings = [
        ("ONCEGATE_DATABASE_URL", url),
        ("ONCEGATE_NAMESPACES_AUTO_CREATE", "true"),
    ];
    let start = || Server::start_with(program.clone(), &settings);
    let (one, two, three) = tokio::join!(start(), start(), start());
    vec![one, two, three]
}

/// What each of the callers, in their order, was told of each key. `conflicting`: every second one brings another
/// fingerprint.
async fn race(fleet: &[Server], keys: usize, conflicting: bool) -> Vec<Vec<Result<Told, String>>> {
    let gates: Vec<Vec<Gate>> = fleet
        .iter()
        .map(|server| (0..CHANNELS).map(|_| gate(server)).collect())
        .collect();
    let barrier = Arc::new(Barrier::new(CALLERS));
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let own = &gates[caller % gates.len()];
        let gate = own[caller / gates.len() % CHANNELS].clone();
        let barrier = Arc::clone(&barrier);
        let digest = vec![
            if conflicting {
                u8::from(caller.is_multiple_of(2))
            } else {
                7
            };
            32
        ];
        callers.spawn(async move {
            let mut told = Vec::with_capacity(keys);
            for key in 0..keys {
                let scheme = "raw-sha256-v1".to_owned();
                let fingerprint = Some(pb::Fingerprint {
                    scheme,
                    digest: digest.clone(),
                });
                let key = format!("{conflicting}-{key}");
                let request = pb::ReserveRequest {
                    fingerprint,
                    ..ask(&key)
                };
                barrier.wait().await;
                told.push(one_call(&gate, &key, &request).await);
            }
            (caller, told)
        });
    }
    let all = timeout(HANG, callers.join_all()).await;
    let mut all = all.expect("no caller hangs");
    all.sort_by_key(|(caller, _)| *caller);
    let of_key = |key: usize| all.iter().map(|(_, told)| told[key].clone()).collect();
    (0..keys).map(of_key).collect()
}

/// Whoever is granted completes at once, so that some of the others come too late to be told that
/// somebody is at work.
async fn one_call(gate: &Gate, key: &str, request: &pb::ReserveRequest) -> Result<Told, String> {
    let answer = reserve(gate, request)
        .await
        .map_err(|status| status.to_string())?;
    match answer.into_inner().verdict {
        Some(Verdict::Granted(granted)) => {
            let done = completion(key, &granted.token, key);
            complete(gate, &done)
                .await
                .map_err(|status| status.to_string())?;
            Ok(Told::Granted(granted.fence))
        }
        Some(Verdict::InProgress(_)) => Ok(Told::Busy),
        Some(Verdict::Replay(replay)) => {
            let payload = replay.outcome.map(|outcome| outcome.payload);
            assert_eq!(payload.as_deref(), Some(key.as_bytes()));
            Ok(Told::Replay)
        }
        Some(Verdict::Mismatch(_)) => Ok(Told::Mismatch),
        other => Err(format!("{other:?}")),
    }
}

/// Every key was granted once, to a caller of its own fence, and nobody met an error.
fn one_grant_for_each_key(told: &[Vec<Result<Told, String>>]) {
    for (key, told) in told.iter().enumerate() {
        let granted = told
            .iter()
            .filter(|told| matches!(told, Ok(Told::Granted(_))))
            .count();
        assert_eq!(granted, 1, "key {key}: {told:?}");
        assert!(told.iter().all(Result::is_ok), "key {key}: {told:?}");
    }
}

fn none_mismatches(told: &[Vec<Result<Told, String>>]) {
    let mismatches = told
        .iter()
        .flatten()
        .filter(|told| **told == Ok(Told::Mismatch))
        .count();
    assert_eq!(mismatches, 0);
}

/// Whoever has the granted caller's fingerprint is told of the state; everybody else, and nobody
/// else, that it is another request.
fn mismatches_are_told_apart(told: &[Vec<Result<Told, String>>]) {
    for (key, told) in told.iter().enumerate() {
        let winner = told
            .iter()
            .position(|told| matches!(told, Ok(Told::Granted(_))));
        let winner = winner.expect("one is granted");
        for (caller, told) in told.iter().enumerate() {
            let same_request = caller % 2 == winner % 2;
            assert_eq!(
                *told == Ok(Told::Mismatch),
                !same_request,
                "key {key}: {told:?}"
            );
        }
    }
}

// Field case A1. Field case A4. Field case A6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_on_postgres_grant_each_key_once() {
    let _alone = alone().await;
    let database = TempPostgres::create(SERVERS[0]).await;
    postgres::migrate(&database.url())
        .await
        .expect("an empty database migrates");
    let fleet = fleet(&database.url()).await;
    let told = race(&fleet, 500, false).await;
    one_grant_for_each_key(&told);
    none_mismatches(&told);
    let told = race(&fleet, 20, true).await;
    one_grant_for_each_key(&told);
    mismatches_are_told_apart(&told);
}

// Field case A1. Field case A4. Field case A6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_on_one_file_grant_each_key_once() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().expect("a folder for the test");
    let url = format!("sqlite://{}", folder.path().join("shared.db").display());
    let fleet = fleet(&url).await;
    let told = race(&fleet, 500, false).await;
    one_grant_for_each_key(&told);
    none_mismatches(&told);
    let told = race(&fleet, 20, true).await;
    one_grant_for_each_key(&told);
    mismatches_are_told_apart(&told);
}
