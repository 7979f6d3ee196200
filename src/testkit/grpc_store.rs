//! A store that is asked through a server, so that the one suite of the stores also holds the wire,
//! the conversions and the services.
//!
//! Commands go over gRPC. What has no rpc of its own (records as they are stored, the sweeper, the
//! audit trail of a record that is gone) is read from the store behind the server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use tonic::{Code, Request, Response, Status};
use tonic_types::StatusExt;

use super::conformance::Fixture;
use super::grpc_answers as from;
use super::grpc_questions as ask;
use super::server::{TestServer, options};
use crate::domain::caller::{Caller, Role};
use crate::domain::command::{Answer, Command, Completed, Expire, PersonAnswer, Refusal, Reserve};
use crate::domain::key::{KeyDigest, RecordKey};
use crate::domain::outcome::OutcomeDigest;
use crate::domain::policy::{Policy, Terms};
use crate::domain::record::StateName;
use crate::port::clock::{Clock, ManualClock};
use crate::port::store::{Applied, Store, StoreError};
use crate::proto::v1 as pb;
use crate::store::front::Front;
use crate::store::memory::MemoryStore;
use crate::transport::grpc::convert::policy::policy_message;
use crate::transport::layer::auth::{Credential, Credentials};

/// The callers of the suite, by name; each one's token is its name.
const ACTORS: [&str; 2] = ["worker-1", "kari"];

/// A store behind a server.
#[derive(Debug)]
pub struct GrpcStore {
    server: TestServer,
    behind: Arc<Behind>,
    /// The terms that the namespace has now.
    terms: tokio::sync::Mutex<Option<Terms>>,
}

/// The store behind the server, and what of its answers the wire does not carry.
#[derive(Debug)]
struct Behind {
    store: MemoryStore,
    diverges: Mutex<HashMap<(KeyDigest, OutcomeDigest), bool>>,
    /// An Expire that was carried out: the second statement that its rpc makes is lost, so that one
    /// command is one statement as in any other store.
    expired: Mutex<Option<Expire>>,
}

/// A fresh server over a fresh store.
pub async fn over_grpc(clock: ManualClock) -> Fixture {
    let behind = Arc::new(Behind {
        store: MemoryStore::new(Clock::Manual(clock)),
        diverges: Mutex::default(),
        expired: Mutex::default(),
    });
    let credentials = ACTORS.map(|name| Credential {
        sha256: Sha256::digest(name).into(),
        caller: Arc::new(Caller {
            name: name.to_owned(),
            role: Role::Admin,
            namespace: None,
            environment: None,
        }),
    });
    let mut options = options();
    options.routes.credentials = Credentials::new(credentials.into());
    let server = TestServer::with(Arc::clone(&behind) as Arc<dyn Store>, options).await;
    let store = Arc::new(GrpcStore {
        server,
        behind,
        terms: tokio::sync::Mutex::default(),
    });
    Fixture {
        store,
        keep: Box::new(()),
    }
}

impl GrpcStore {
    /// Gives the namespace the terms that the next grant is to be given under.
    async fn set_terms(&self, key: &RecordKey, terms: &Terms) {
        let mut set = self.terms.lock().await;
        if set.as_ref() == Some(terms) {
            return;
        }
        let policy = Policy {
            default_lease: Policy::default().default_lease.min(terms.max_total_lease),
            terms: terms.clone(),
            ..Policy::default()
        };
        let namespace = self.behind.store.namespace(key.namespace()).await;
        let stored = namespace.expect("memory is there");
        let environment = pb::Environment {
            name: key.environment().to_owned(),
            policy: Some(policy_message(&policy, 0)),
            signal_thresholds: None,
        };
        let namespace = Some(pb::Namespace {
            name: key.namespace().to_owned(),
            environments: vec![environment],
            created_at: None,
            etag: stored
                .as_ref()
                .map_or(0, |stored| stored.version)
                .to_string(),
        });
        let mut admin = self.server.admin();
        if stored.is_some() {
            let request = by("kari", pb::UpdateNamespaceRequest { namespace });
            admin.update_namespace(request).await.expect("a policy");
        } else {
            let request = by("kari", pb::CreateNamespaceRequest { namespace });
            admin.create_namespace(request).await.expect("a policy");
        }
        *set = Some(terms.clone());
    }

    async fn reserve(&self, c: &Reserve) -> Result<pb::ReserveResponse, StoreError> {
        self.set_terms(&c.key, &c.terms).await;
        let mut request = by("worker-1", ask::reserve(c));
        if !c.trace_id.is_empty() {
            let header = format!("00-{}-00f067aa0ba902b7-01", c.trace_id);
            let header = header.parse().expect("a header");
            request.metadata_mut().insert("traceparent", header);
        }
        told(self.server.gate().reserve(request).await)
    }

    async fn expire(&self, c: Expire) -> Result<PersonAnswer, StoreError> {
        *self.behind.expired.lock().expect("not poisoned") = None;
        let told = self
            .server
            .gate()
            .expire(by(&c.actor, ask::expire(&c)))
            .await;
        let done = self.behind.expired.lock().expect("not poisoned").is_some();
        let told = match told {
            Err(status) if done && status.code() == Code::Unavailable => Ok(()),
            told => told.map(|_| ()),
        };
        self.person(c.key, told).await
    }

    /// A person's answer holds the record as it is stored.
    async fn person<T>(
        &self,
        key: RecordKey,
        told: Result<T, Status>,
    ) -> Result<PersonAnswer, StoreError> {
        match told {
            Ok(_) => {
                let record = self.behind.store.read(vec![key]).await?.records.remove(0)?;
                Ok(Ok(Box::new(record.expect("it was just answered"))))
            }
            Err(status) => match refused(&status) {
                Some(refusal) => Ok(Err(refusal)),
                None => Err(failed(&status)),
            },
        }
    }
}

impl GrpcStore {
    async fn ask(&self, command: Command) -> Result<Answer, StoreError> {
        let secrets = self.token_secrets().await?;
        let identity = command.key().digest();
        let issue = |token| secrets.issue(&identity, token);
        let mut gate = self.server.gate();
        match command {
            Command::Reserve(c) => {
                let told = self.reserve(&c).await?;
                Ok(Answer::Reserve(from::reserved(told, &secrets, &identity)))
            }
            Command::Complete(c) => {
                let message = ask::complete(&c, issue(c.token));
                let told = told(gate.complete(by("worker-1", message)).await)?;
                let diverges = self.behind.diverged(identity, c.outcome.digest);
                Ok(Answer::Complete(Box::new(Completed {
                    diverges,
                    ..from::completed(told)
                })))
            }
            Command::Renew(c) => {
                let message = ask::renew(&c, issue(c.token));
                let told = told(gate.renew(by("worker-1", message)).await)?;
                Ok(Answer::Renew(from::renewed(&told)))
            }
            Command::Release(c) => {
                let message = ask::release(&c, issue(c.token));
                let told = told(gate.release(by("worker-1", message)).await)?;
                Ok(Answer::Release(from::released(told)))
            }
            Command::Park(c) => {
                let message = ask::park(&c, issue(c.token));
                let told = told(gate.park(by("worker-1", message)).await)?;
                Ok(Answer::Park(from::parked(told)))
            }
            Command::Reexecute(c) => {
                let message = ask::reexecute(&c, issue(c.token));
                let told = told(gate.reexecute(by(&c.actor, message)).await)?;
                let verdict = from::reexecuted(told, &secrets, &identity);
                Ok(Answer::Reexecute(verdict))
            }
            Command::Expire(c) => Ok(Answer::Expire(self.expire(c).await?)),
            Command::Resolve(c) => {
                let request = by(&c.actor, ask::resolve(&c));
                let told = self.server.support().resolve(request).await;
                Ok(Answer::Resolve(self.person(c.key, told).await?))
            }
        }
    }
}

#[async_trait]
impl Front for GrpcStore {
    fn behind(&self) -> &dyn Store {
        self.behind.as_ref()
    }

    async fn on_carry_out(&self, command: Command) -> Result<Applied, StoreError> {
        Ok(Applied {
            answer: self.ask(command).await?,
            stands: None,
        })
    }
}

impl Behind {
    fn diverged(&self, key: KeyDigest, outcome: OutcomeDigest) -> bool {
        let diverges = self.diverges.lock().expect("not poisoned");
        diverges.get(&(key, outcome)).copied().unwrap_or(false)
    }
}

#[async_trait]
impl Front for Behind {
    fn behind(&self) -> &dyn Store {
        &self.store
    }

    async fn on_carry_out(&self, command: Command) -> Result<Applied, StoreError> {
        let reported = match &command {
            Command::Complete(complete) => Some((command.key().digest(), complete.outcome.digest)),
            _ => None,
        };
        let expire = match &command {
            Command::Expire(expire) => Some(expire.clone()),
            _ => None,
        };
        if expire.is_some() && *self.expired.lock().expect("not poisoned") == expire {
            return Err(StoreError::Unavailable("lost".to_owned()));
        }
        let applied = self.store.carry_out(command).await?;
        if matches!(applied.answer, Answer::Expire(Ok(_))) {
            *self.expired.lock().expect("not poisoned") = expire;
        }
        if let (Some(reported), Answer::Complete(completed)) = (reported, &applied.answer) {
            let mut diverges = self.diverges.lock().expect("not poisoned");
            diverges.insert(reported, completed.diverges);
        }
        Ok(applied)
    }
}

fn by<T>(actor: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let header = format!("Bearer {actor}").parse().expect("a header");
    request.metadata_mut().insert("authorization", header);
    request
}

/// What a person's request was refused for.
fn refused(status: &Status) -> Option<Refusal> {
    let details = status.get_error_details();
    let info = details.error_info()?;
    match info.reason.as_str() {
        "RECORD_NOT_FOUND" => Some(Refusal::NotFound),
        "ETAG_MISMATCH" => Some(Refusal::EtagMismatch),
        "NOT_EXPIRABLE" | "NOT_RESOLVABLE" => {
            let named = info.metadata.get("state")?;
            let state = StateName::ALL
                .into_iter()
                .find(|state| state.name() == named)?;
            Some(Refusal::WrongState(state))
        }
        _ => None,
    }
}

fn told<T>(response: Result<Response<T>, Status>) -> Result<T, StoreError> {
    match response {
        Ok(told) => Ok(told.into_inner()),
        Err(status) => Err(failed(&status)),
    }
}

fn failed(status: &Status) -> StoreError {
    match status.code() {
        Code::DataLoss => StoreError::Corrupt(status.to_string()),
        Code::Unavailable => StoreError::Unavailable(status.to_string()),
        _ => panic!("the server refuses: {status:?}"),
    }
}
