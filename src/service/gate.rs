//! What all use cases share: the store, the policies, the token secrets, the waiters.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout_at};

use super::error::ServiceError;
use super::policies::Policies;
use super::wait::Waiters;
use crate::domain::caller::{Caller, Permission};
use crate::domain::command::{Answer, Command};
use crate::domain::key::{KeyDigest, RecordKey};
use crate::domain::token::{Token, TokenSecrets};
use crate::port::store::{Applied, Store, StoreError};
use crate::telemetry::metrics::Metrics;

/// The gate. Cheap to clone; all copies are the same gate.
#[derive(Debug, Clone)]
pub struct Gate {
    pub(super) store: Arc<dyn Store>,
    pub(super) policies: Arc<Policies>,
    pub(super) waiters: Arc<Waiters>,
    pub(super) metrics: Arc<Metrics>,
    secrets: Arc<OnceCell<TokenSecrets>>,
}

/// Who calls, and until when an answer is of use.
#[derive(Debug, Clone)]
pub struct Call {
    /// The authenticated caller.
    pub caller: Arc<Caller>,
    /// The call's own deadline, or the server's.
    pub deadline: Instant,
    /// The trace that the call belongs to; empty if none.
    pub trace_id: String,
}

/// What a server decides about its gate.
#[derive(Debug, Clone, Copy)]
pub struct GateOptions {
    /// Namespaces and environments are created when they are first named.
    pub namespaces_auto_create: bool,
    /// Calls that may wait at once; one more is told at once that somebody is at work.
    pub waiters_max: usize,
}

impl Gate {
    /// A gate over a store.
    pub fn new(store: Arc<dyn Store>, metrics: Arc<Metrics>, options: GateOptions) -> Self {
        let policies = Policies::new(Arc::clone(&store), options.namespaces_auto_create);
        Self {
            policies: Arc::new(policies),
            waiters: Arc::new(Waiters::new(Arc::clone(&store), options.waiters_max)),
            secrets: Arc::default(),
            store,
            metrics,
        }
    }

    /// Lets every waiting call answer at once, and new ones not wait: the server is going away.
    pub fn stop_waiting(&self) {
        self.waiters.stop();
    }

    /// Answers for waiting keys until it is dropped; a server runs it once.
    pub async fn run_waiters(&self) {
        self.waiters.run().await;
    }

    /// Another replica has changed a key: whoever waits for it here looks at once.
    pub fn changed(&self, digest: &KeyDigest) {
        self.waiters.look(digest);
    }

    /// How many calls wait.
    pub fn waiting(&self) -> usize {
        self.waiters.waiting()
    }

    /// The metrics that this gate counts into.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Refuses a caller that may not do this to records of that identity.
    pub(super) fn permit(
        call: &Call,
        permission: Permission,
        key: &RecordKey,
    ) -> Result<(), ServiceError> {
        let allowed = call
            .caller
            .may(permission, Some(key.namespace()), Some(key.environment()));
        if allowed {
            Ok(())
        } else {
            Err(ServiceError::NotPermitted)
        }
    }

    /// Checks a token against the record that it came with.
    pub(super) async fn verify(
        &self,
        call: &Call,
        key: &RecordKey,
        token: &str,
    ) -> Result<Token, ServiceError> {
        let secrets = in_time(call, self.secrets()).await?;
        secrets
            .verify(&key.digest(), token)
            .map_err(|_invalid| ServiceError::TokenInvalid)
    }

    pub(super) async fn secrets(&self) -> Result<&TokenSecrets, ServiceError> {
        let secrets = self
            .secrets
            .get_or_try_init(|| self.store.token_secrets())
            .await;
        secrets.map_err(|error| {
            tracing::warn!(%error, "the token secrets could not be read");
            error.into()
        })
    }

    /// Carries out a command and wakes whoever waits for its key.
    pub(super) async fn apply(
        &self,
        call: &Call,
        command: Command,
    ) -> Result<Answer, ServiceError> {
        Ok(self.carry_out(call, command).await?.answer)
    }

    /// The same, with what then stands there.
    pub(super) async fn carry_out(
        &self,
        call: &Call,
        command: Command,
    ) -> Result<Applied, ServiceError> {
        let (name, key) = (command.name(), command.key().clone());
        let applied = self.by_deadline(call, self.store.carry_out(command)).await;
        match applied {
            Ok(applied) => {
                self.waiters.look(&key.digest());
                Ok(applied)
            }
            Err(error) => {
                tracing::warn!(operation = name, record = ?key, %error, "the store did not answer");
                Err(error.into())
            }
        }
    }

    /// Awaits a store until the call's deadline. What it does meanwhile is finished all the same.
    pub(super) async fn by_deadline<T>(
        &self,
        call: &Call,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match timeout_at(call.deadline, work).await {
            Ok(result) => result,
            Err(_elapsed) => Err(StoreError::OutcomeUnknown(
                "the deadline came first".to_owned(),
            )),
        }
    }
}

/// Awaits what every call needs first, until the call's deadline: nothing was written by then.
pub(super) async fn in_time<T>(
    call: &Call,
    work: impl Future<Output = Result<T, ServiceError>>,
) -> Result<T, ServiceError> {
    let result = timeout_at(call.deadline, work).await;
    result.unwrap_or(Err(ServiceError::StoreUnavailable))
}

/// The answer to the command that was asked. Any other one is a defect of a store, never a verdict.
macro_rules! answer_of {
    ($answer:expr, $variant:ident) => {{
        let crate::domain::command::Answer::$variant(answer) = $answer else {
            return Err(crate::service::gate::wrong_answer());
        };
        answer
    }};
}
pub(super) use answer_of;

pub(super) fn wrong_answer() -> ServiceError {
    tracing::error!("a store answered another command than it was asked");
    ServiceError::Corrupt
}
