//! The server as its clients see it: every verdict and every refusal over the wire.

mod auth;
mod batches;
mod connections;
mod drain;
mod faulty;
mod input;
mod input_of_operators;
mod limits;
mod methods;
mod operators;
mod store_failures;
mod two_servers;
mod verdicts;
mod waiting;
mod wire;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use oncegate::domain::time::Timestamp;
use oncegate::port::clock::{Clock, ManualClock};
use oncegate::port::store::Store;
use oncegate::proto::v1 as pb;
use oncegate::store::memory::MemoryStore;
use oncegate::testkit::server::TestServer;
use oncegate::testkit::values::LEASE;
use pb::reserve_response::Verdict;
use tonic::{Code, Response, Status};
use tonic_types::StatusExt;

use crate::client::{ask as reserve, completion as complete, key, outcome, seconds};

const DAY: Duration = Duration::from_hours(24);

/// A server over a store whose clock is set by hand.
struct Stage {
    server: TestServer,
    store: Arc<dyn Store>,
    clock: ManualClock,
}

impl Stage {
    async fn new() -> Self {
        let clock = ManualClock::new(Timestamp::from_micros(1_800_000_000_000_000));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Clock::Manual(clock.clone())));
        let server = TestServer::start(Arc::clone(&store)).await;
        Self {
            server,
            store,
            clock,
        }
    }

    async fn reserve(&self, request: pb::ReserveRequest) -> Verdict {
        verdict(self.server.gate().reserve(request).await)
    }

    async fn grant(&self, name: &str) -> pb::Reservation {
        granted(self.reserve(reserve(name)).await)
    }

    async fn complete(&self, name: &str, token: &str, payload: &[u8]) -> pb::CompleteResponse {
        let request = complete(name, token, payload);
        answer(self.server.gate().complete(request).await)
    }

    async fn lookup(&self, name: &str) -> pb::Record {
        let request = pb::LookupRequest {
            key: Some(key(name)),
            without_payload: false,
        };
        let found = answer(self.server.gate().lookup(request).await);
        found.record.expect("a record")
    }
}

fn answer<T>(response: Result<Response<T>, Status>) -> T {
    response.expect("an answer").into_inner()
}

fn verdict(response: Result<Response<pb::ReserveResponse>, Status>) -> Verdict {
    answer(response).verdict.expect("a verdict")
}

fn granted(verdict: Verdict) -> pb::Reservation {
    let Verdict::Granted(reservation) = verdict else {
        panic!("not granted: {verdict:?}");
    };
    reservation
}

fn recovered(verdict: Verdict) -> pb::Recover {
    let Verdict::Recover(recover) = verdict else {
        panic!("not to recover: {verdict:?}");
    };
    recover
}

/// What a refusal says.
#[derive(Debug)]
struct Refusal {
    code: Code,
    reason: String,
    metadata: HashMap<String, String>,
    fields: Vec<(String, String)>,
    retry_after: Option<Duration>,
    message: String,
}

fn refusal<T: std::fmt::Debug>(response: Result<T, Status>) -> Refusal {
    let status = response.expect_err("a refusal");
    let details = status.get_error_details();
    let info = details.error_info().cloned();
    let info = info.unwrap_or_else(|| panic!("no ErrorInfo: {status:?}"));
    assert_eq!(info.domain, "oncegate");
    let violations = details
        .bad_request()
        .map(|bad| bad.field_violations.clone());
    Refusal {
        code: status.code(),
        reason: info.reason,
        metadata: info.metadata,
        fields: violations
            .unwrap_or_default()
            .into_iter()
            .map(|violation| (violation.field, violation.description))
            .collect(),
        retry_after: details.retry_info().and_then(|retry| retry.retry_delay),
        message: status.message().to_owned(),
    }
}
