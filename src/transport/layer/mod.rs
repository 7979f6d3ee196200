//! What every gRPC call passes through, one concern per file: from the outside in trace, panics,
//! deadline, auth, shed, refusals. They are one function, for each layer costs every call an allocation.

pub mod auth;
pub mod deadline;
mod panics;
mod refusals;
pub mod shed;
pub mod trace;

use std::sync::Arc;

use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tracing::Instrument;

use self::auth::Credentials;
use self::deadline::DeadlineOptions;
use self::shed::CallLimit;
use self::trace::Methods;
use crate::service::gate::Call;
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

impl Guards {
    /// Passes a call on to its handler, who finds in it what the layers know of it, and its answer
    /// back.
    pub(super) async fn pass<B, F>(
        &self,
        mut request: Request<B>,
        handler: impl FnOnce(Request<B>) -> F,
    ) -> Response<Body>
    where
        F: Future<Output = Response<Body>>,
    {
        let followed = trace::follow(&self.methods, request.uri().path(), request.headers());
        let answer = async {
            let until = deadline::of(self.deadlines, request.headers())?;
            let path = request.uri().path();
            let caller = auth::authenticate(&self.credentials, path, request.headers())?;
            let entered = self.calls.enter(path);
            let _under_way =
                entered.inspect_err(|_| self.metrics.shed(Arc::clone(&followed.method)))?;
            if let Some(caller) = caller {
                request.extensions_mut().insert(Call {
                    caller,
                    deadline: until.answer,
                    trace_id: followed.trace_id.clone(),
                });
            }
            deadline::keep(until.end, handler(request)).await
        };
        let answer = panics::caught(answer)
            .instrument(followed.span.clone())
            .await;
        let response = answer.map_or_else(Status::into_http, refusals::explain);
        followed.answered(&response, &self.metrics);
        response
    }
}
