//! What every handler does around its own three lines: who calls and until when, the owner task,
//! and the error's status.

use std::future::Future;
use std::sync::Arc;

use tonic::{Extensions, Request, Response, Status};

use super::status::{Asked, status};
use crate::domain::caller::{Caller, Role};
use crate::service::error::ServiceError;
use crate::service::gate::{Call, Gate};
use crate::transport::owner::Owner;

/// A gate and the tasks that work on it; what each gRPC service is made of.
#[derive(Debug, Clone)]
pub struct Handler {
    pub(super) gate: Gate,
    owner: Owner,
}

impl Handler {
    /// A handler for a gate, whose work `owner` keeps count of.
    pub const fn new(gate: Gate, owner: Owner) -> Self {
        Self { gate, owner }
    }

    /// Answers in a task that outlives the call.
    pub(super) async fn owned<Q, A, F>(
        &self,
        request: Request<Q>,
        asked: Asked,
        work: impl FnOnce(Gate, Call, Q) -> F,
    ) -> Result<Response<A>, Status>
    where
        A: Send + 'static,
        F: Future<Output = Result<A, ServiceError>> + Send + 'static,
    {
        let (_, mut extensions, message) = request.into_parts();
        let call = call(&mut extensions).map_err(|error| status(&error, &asked))?;
        let caller = Arc::clone(&call.caller);
        let work = work(self.gate.clone(), call, message);
        let answer = self.owner.run(work).await;
        answer
            .map(Response::new)
            .map_err(|error| status(&told(error, &caller), &asked))
    }
}

/// What a caller is told: one whose credential is not known learns nothing else, unless a genuine
/// token stood in for it.
pub(super) fn told(error: ServiceError, caller: &Caller) -> ServiceError {
    let of_input = matches!(
        error,
        ServiceError::InvalidField(_) | ServiceError::TokenInvalid
    );
    if caller.role == Role::Unknown && of_input {
        ServiceError::Unauthenticated
    } else {
        error
    }
}

/// Who calls and until when, as the layers found out. Without them nothing is answered.
pub(super) fn call(extensions: &mut Extensions) -> Result<Call, ServiceError> {
    extensions.remove().ok_or(ServiceError::Unauthenticated)
}
