//! What every gRPC call passes through, one concern per file: from the outside in trace, panics,
//! deadline, auth, shed, refusals. They are one middleware, for each one costs every call an allocation.

pub mod auth;
pub mod deadline;
mod panics;
mod refusals;
pub mod shed;
pub mod trace;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tonic::Status;
use tracing::Instrument;

use self::auth::Credentials;
use self::deadline::DeadlineOptions;
use self::shed::CallLimit;
use self::trace::Methods;
use crate::telemetry::metrics::Metrics;

/// What calls are checked against and counted in.
#[derive(Debug)]
pub struct Guards {
    /// Who may call.
    pub credentials: Credentials,
    /// How long a call may take.
    pub deadlines: DeadlineOptions,
    /// How many may be at work.
    pub calls: CallLimit,
    /// Where calls are counted.
    pub metrics: Arc<Metrics>,
    /// The methods that there are.
    pub methods: Methods,
}

/// Passes a call on to its handler, and its answer back.
pub async fn pass(State(guards): State<Arc<Guards>>, mut request: Request, next: Next) -> Response {
    let call = trace::follow(&mut request);
    let answer = async {
        let end = deadline::set(guards.deadlines, &mut request)?;
        auth::authenticate(&guards.credentials, &mut request)?;
        let path = request.uri().path();
        let entered = guards.calls.enter(path);
        let _under_way =
            entered.inspect_err(|_| guards.metrics.shed(guards.methods.label(path)))?;
        deadline::keep(end, next.run(request)).await
    };
    let answer = panics::caught(answer).instrument(call.span.clone()).await;
    let response = answer.map_or_else(Status::into_http, refusals::explain);
    call.answered(&response, &guards.methods, &guards.metrics);
    response
}
