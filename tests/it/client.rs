//! Callers of real servers over gRPC: each call is repeated unchanged until it is answered, over
//! restarts too, and what it was told is written down.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test fails at an answer that it does not expect"
)]

use std::path::PathBuf;
use std::time::Duration;

use oncegate::domain::record::Fence;
use oncegate::proto::v1 as pb;
use oncegate::testkit::load::{Ledger, new_request_id};
use oncegate::testkit::process::Server;
use oncegate::testkit::values::LEASE;
use pb::complete_response::Verdict as Completed;
use pb::gate_service_client::GateServiceClient;
use pb::reserve_response::Verdict;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use crate::cli::PROGRAM;

/// The longest that a call goes unanswered before the test fails.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long one try may take: what a killed server swallowed is asked again.
const ONE_TRY: Duration = Duration::from_secs(5);

pub(crate) type Gate = GateServiceClient<Channel>;

/// The release binary where there is one, else the one that these tests are built with.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("ONCEGATE_TEST_BIN").map_or_else(|| PROGRAM.into(), PathBuf::from)
}

/// Whether [`program`] is the release binary, which has the limits that users are promised.
pub(crate) fn is_release() -> bool {
    std::env::var_os("ONCEGATE_TEST_BIN").is_some()
}

/// A client with a connection of its own.
pub(crate) fn gate(server: &Server) -> Gate {
    let endpoint = Endpoint::from_shared(server.endpoint()).expect("an address is a URL");
    GateServiceClient::new(endpoint.connect_lazy())
}

/// The identity of a key.
pub(crate) fn key(name: &str) -> pb::RecordKey {
    pb::RecordKey {
        namespace: "terminal".to_owned(),
        environment: "live".to_owned(),
        account: "acct".to_owned(),
        key: name.to_owned(),
    }
}

/// A new Reserve of a key, by a caller that can recover.
pub(crate) fn ask(name: &str) -> pb::ReserveRequest {
    pb::ReserveRequest {
        key: Some(key(name)),
        operation: "slot.claim".to_owned(),
        request_id: new_request_id().as_bytes().to_vec(),
        lease: Some(seconds(LEASE.as_secs())),
        holder: "pod-1".to_owned(),
        can_recover: true,
        ..pb::ReserveRequest::default()
    }
}

/// The same, that waits for half a minute.
pub(crate) fn ask_and_wait(name: &str) -> pb::ReserveRequest {
    pb::ReserveRequest {
        wait: Some(seconds(30)),
        ..ask(name)
    }
}

/// What an effect came to.
pub(crate) fn outcome(payload: impl AsRef<[u8]>) -> pb::Outcome {
    pb::Outcome {
        status: pb::OutcomeStatus::Succeeded.into(),
        payload: payload.as_ref().to_vec(),
        content_type: "application/json".to_owned(),
        effect_id: "slot-7".to_owned(),
        ..pb::Outcome::default()
    }
}

/// The Complete of a reservation.
pub(crate) fn completion(
    name: &str,
    token: &str,
    payload: impl AsRef<[u8]>,
) -> pb::CompleteRequest {
    pb::CompleteRequest {
        key: Some(key(name)),
        token: token.to_owned(),
        outcome: Some(outcome(payload)),
        retention: None,
    }
}

pub(crate) fn seconds(seconds: u64) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(seconds).expect("a short time"),
        nanos: 0,
    }
}

/// Repeats a call until it is answered.
pub(crate) async fn insist<T, F>(mut call: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let give_up = Instant::now() + PATIENCE;
    loop {
        match timeout(ONE_TRY, call()).await {
            Ok(Ok(answer)) => return answer.into_inner(),
            failed => assert!(
                Instant::now() < give_up,
                "not answered: {:?}",
                failed.map(drop_answer)
            ),
        }
        sleep(Duration::from_millis(10)).await;
    }
}

fn drop_answer<T>(result: Result<T, Status>) -> Result<(), Status> {
    result.map(drop)
}

/// One caller's whole work on a key that others may want too: reserve, and if it is granted, run
/// the effect and complete.
pub(crate) async fn work(gate: &Gate, ledger: &Ledger, name: &str) {
    let request = ask(name);
    let answer = insist(|| reserve(gate, &request)).await;
    ledger.answered();
    let reservation = match answer.verdict.expect("a verdict") {
        Verdict::Granted(reservation) => reservation,
        Verdict::Replay(replay) => {
            return ledger.outcome(name, &replay.outcome.expect("an outcome").payload, false);
        }
        Verdict::InProgress(_) => return,
        other => panic!("{name}: {other:?}"),
    };
    ledger.granted(name, Fence::new(reservation.fence));
    let payload = ledger.run_effect(name);
    let request = completion(name, &reservation.token, &payload);
    let answer = insist(|| complete(gate, &request)).await;
    let recorded = matches!(
        answer.verdict(),
        Completed::Recorded | Completed::AlreadyRecorded
    );
    assert!(recorded, "{name}: {answer:?}");
    ledger.outcome(name, payload.as_bytes(), true);
    ledger.answered();
}

pub(crate) async fn reserve(
    gate: &Gate,
    request: &pb::ReserveRequest,
) -> Result<Response<pb::ReserveResponse>, Status> {
    gate.clone().reserve(request.clone()).await
}

pub(crate) async fn complete(
    gate: &Gate,
    request: &pb::CompleteRequest,
) -> Result<Response<pb::CompleteResponse>, Status> {
    gate.clone().complete(request.clone()).await
}
