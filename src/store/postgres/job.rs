//! What a worker can be asked beside commands on records.

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::domain::key::RecordKey;
use crate::domain::namespace::Namespace;
use crate::domain::token::TokenSecrets;
use crate::port::store::{AuditEntry, Health, Reading, StoreError, Swept};

/// A question, until when it is worth another try, and who waits for the answer.
#[derive(Debug)]
pub(super) struct Pending<Q, A> {
    pub(super) question: Q,
    pub(super) deadline: Instant,
    pub(super) reply: oneshot::Sender<Result<A, StoreError>>,
}

/// The questions.
#[derive(Debug)]
pub(super) enum Job {
    Read(Pending<Vec<RecordKey>, Reading>),
    Sweep(Pending<u32, Swept>),
    Namespace(Pending<String, Option<Namespace>>),
    Namespaces(Pending<(String, u32), Vec<Namespace>>),
    PutNamespace(Pending<Namespace, Option<Namespace>>),
    Audit(Pending<(RecordKey, i64, u32), Vec<AuditEntry>>),
    TokenSecrets(Pending<(), TokenSecrets>),
    Check(Pending<(), Health>),
}
