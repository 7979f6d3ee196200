//! Callers of a running server, through the client that is generated from the contract.

use std::time::Duration;

use anyhow::{bail, ensure};
use hyper_util::rt::TokioIo;
use oncegate::proto::v1::batch_complete_result::Result as Completed;
use oncegate::proto::v1::batch_reserve_result::Result as Reserved;
use oncegate::proto::v1::complete_response::Verdict as CompleteVerdict;
use oncegate::proto::v1::gate_service_client::GateServiceClient;
use oncegate::proto::v1::reserve_response::Verdict as Answer;
use oncegate::proto::v1::{
    BatchCompleteRequest, BatchReserveRequest, CompleteRequest, CompleteResponse, Fingerprint,
    Outcome, OutcomeStatus, RecordKey, ReserveRequest, ReserveResponse,
};
use oncegate::transport::coalesce::Coalesced;
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tower::service_fn;

use crate::keys::Keys;
use crate::work::{Caller, OUTCOME, Verdict};

/// How many callers share an HTTP/2 connection.
pub(crate) const CALLERS_PER_CONNECTION: u32 = 128;

/// The request ids' seed; no set of keys has it.
const REQUEST_IDS: u64 = u64::MAX;

/// The connections for as many callers, each named by its lane.
pub(crate) async fn connections(endpoint: &str, callers: u32) -> anyhow::Result<Vec<Channel>> {
    let mut channels = Vec::new();
    for _ in 0..callers.div_ceil(CALLERS_PER_CONNECTION) {
        let endpoint = Endpoint::from_shared(endpoint.to_owned())?;
        let endpoint = endpoint.connect_timeout(Duration::from_secs(5));
        let connector = service_fn(connect);
        channels.push(endpoint.connect_with_connector(connector).await?);
    }
    Ok(channels)
}

/// A connection on which the calls of many callers leave together, as the server's answers do.
async fn connect(uri: Uri) -> std::io::Result<TokioIo<Coalesced<TcpStream>>> {
    let address = uri.authority().map_or("", |authority| authority.as_str());
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(TokioIo::new(Coalesced::new(stream)))
}

/// A caller of the gate.
#[derive(Debug)]
pub(crate) struct Gate {
    client: GateServiceClient<Channel>,
    /// Which of all callers of this process it is, and how many calls it has made.
    number: u32,
    calls: u32,
}

impl Gate {
    /// A caller whose number nobody else has.
    pub(crate) fn new(channel: Channel, number: u32) -> Self {
        Self {
            client: GateServiceClient::new(channel),
            number,
            calls: 0,
        }
    }

    fn reserve_request(&mut self, key: &str) -> ReserveRequest {
        self.calls += 1;
        let id = Keys::new(REQUEST_IDS).at(self.number, self.calls);
        ReserveRequest {
            key: Some(record_key(key)),
            operation: "bench.pair".to_owned(),
            fingerprint: Some(Fingerprint {
                scheme: "raw-sha256-v1".to_owned(),
                digest: key.as_bytes().to_vec(),
            }),
            request_id: id.as_bytes()[..16].to_vec(),
            can_recover: true,
            ..ReserveRequest::default()
        }
    }
}

impl Caller for Gate {
    type Token = String;

    async fn reserve(&mut self, key: &str) -> anyhow::Result<Verdict<String>> {
        let request = self.reserve_request(key);
        let answer = self.client.reserve(request).await?;
        verdict(answer.into_inner())
    }

    async fn complete(&mut self, key: &str, token: String) -> anyhow::Result<()> {
        let request = complete_request(key, token);
        let answer = self.client.complete(request).await?;
        recorded(&answer.into_inner())
    }

    async fn batch(&mut self, keys: &[String]) -> anyhow::Result<()> {
        let asked = keys.iter().map(|key| self.reserve_request(key));
        let requests = asked.collect();
        let answer = self.client.batch_reserve(BatchReserveRequest { requests });
        let results = answer.await?.into_inner().results;
        ensure!(results.len() == keys.len(), "an answer for each item");
        let mut requests = Vec::with_capacity(keys.len());
        for (key, result) in keys.iter().zip(results) {
            match result.result {
                Some(Reserved::Response(response)) => match verdict(response)? {
                    Verdict::Granted(token) => requests.push(complete_request(key, token)),
                    Verdict::Replay | Verdict::InProgress => bail!("a new key was not granted"),
                },
                Some(Reserved::Error(error)) => bail!("an item was refused: {error:?}"),
                None => bail!("an item has no answer"),
            }
        }
        let answer = self
            .client
            .batch_complete(BatchCompleteRequest { requests });
        let results = answer.await?.into_inner().results;
        ensure!(results.len() == keys.len(), "an answer for each item");
        for result in results {
            match result.result {
                Some(Completed::Response(response)) => recorded(&response)?,
                Some(Completed::Error(error)) => bail!("an item was refused: {error:?}"),
                None => bail!("an item has no answer"),
            }
        }
        Ok(())
    }
}

fn record_key(key: &str) -> RecordKey {
    RecordKey {
        namespace: "bench".to_owned(),
        environment: "live".to_owned(),
        account: String::new(),
        key: key.to_owned(),
    }
}

fn complete_request(key: &str, token: String) -> CompleteRequest {
    CompleteRequest {
        key: Some(record_key(key)),
        token,
        outcome: Some(Outcome {
            status: OutcomeStatus::Succeeded.into(),
            payload: OUTCOME.to_vec(),
            ..Outcome::default()
        }),
        retention: None,
    }
}

fn verdict(response: ReserveResponse) -> anyhow::Result<Verdict<String>> {
    match response.verdict {
        Some(Answer::Granted(reservation)) => Ok(Verdict::Granted(reservation.token)),
        Some(Answer::InProgress(_)) => Ok(Verdict::InProgress),
        Some(Answer::Replay(replay)) => {
            let payload = replay.outcome.map(|outcome| outcome.payload);
            ensure!(payload.as_deref() == Some(&OUTCOME[..]), "another outcome");
            Ok(Verdict::Replay)
        }
        other @ (Some(
            Answer::Recover(_) | Answer::Mismatch(_) | Answer::Parked(_) | Answer::Expired(_),
        )
        | None) => bail!("not expected under this load: {other:?}"),
    }
}

fn recorded(response: &CompleteResponse) -> anyhow::Result<()> {
    let verdict = response.verdict();
    ensure!(verdict == CompleteVerdict::Recorded, "{response:?}");
    Ok(())
}

/// Calls the health check of the same server: what a call costs that does nothing.
#[derive(Debug)]
pub(crate) struct Echo(HealthClient<Channel>);

impl Echo {
    pub(crate) fn new(channel: Channel) -> Self {
        Self(HealthClient::new(channel))
    }

    /// Whether a service says that it can be used; the empty name is the process.
    pub(crate) async fn serves(&mut self, service: &str) -> anyhow::Result<bool> {
        let service = service.to_owned();
        let answer = self.0.check(HealthCheckRequest { service }).await?;
        Ok(answer.into_inner().status() == ServingStatus::Serving)
    }
}

/// An echo only ever replays.
impl Caller for Echo {
    type Token = ();

    async fn reserve(&mut self, _key: &str) -> anyhow::Result<Verdict<()>> {
        ensure!(self.serves("").await?, "the server lives");
        Ok(Verdict::Replay)
    }

    async fn complete(&mut self, _key: &str, (): ()) -> anyhow::Result<()> {
        bail!("an echo completes nothing")
    }

    async fn batch(&mut self, _keys: &[String]) -> anyhow::Result<()> {
        bail!("an echo takes no batches")
    }
}
