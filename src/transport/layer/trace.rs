//! The trace that a call belongs to (W3C Trace Context, `traceparent`), its span, and how long it
//! took.

use std::collections::HashMap;
use std::sync::Arc;

use http::{HeaderMap, Response};
use tokio::time::Instant;
use tonic::body::Body;
use tonic::{Code, Status};
use tracing::Span;

use crate::telemetry::metrics::Metrics;

/// The methods that are served, each by its path and by its label.
#[derive(Debug)]
pub struct Methods {
    labels: HashMap<String, Arc<str>>,
    other: Arc<str>,
}

impl Methods {
    /// Takes the paths.
    pub fn new(paths: impl IntoIterator<Item = String>) -> Self {
        let labelled = |path: String| {
            let label = path.trim_start_matches('/').into();
            (path, label)
        };
        Self {
            labels: paths.into_iter().map(labelled).collect(),
            other: "other".into(),
        }
    }

    fn label(&self, path: &str) -> Arc<str> {
        Arc::clone(self.labels.get(path).unwrap_or(&self.other))
    }
}

/// A call from its arrival on.
pub(super) struct Followed {
    started: Instant,
    /// Anybody can make up a name: there is one label for all methods that are not ours.
    pub(super) method: Arc<str>,
    /// 32 lower-case hexadecimal digits; empty: the call belongs to no trace.
    pub(super) trace_id: String,
    pub(super) span: Span,
}

/// Follows a call from its arrival to its answer. What belongs to no trace has no span unless
/// somebody debugs: nobody could look for it, and it costs every call.
pub(super) fn follow(ours: &Methods, path: &str, headers: &HeaderMap) -> Followed {
    let started = Instant::now();
    let method = ours.label(path);
    let trace_id = trace_id(headers).unwrap_or_default().to_owned();
    let span = if trace_id.is_empty() {
        tracing::debug_span!("rpc", method = &*method)
    } else {
        tracing::info_span!("rpc", method = &*method, trace_id)
    };
    Followed {
        started,
        method,
        trace_id,
        span,
    }
}

impl Followed {
    /// Counts the call.
    pub(super) fn answered(self, response: &Response<Body>, metrics: &Metrics) {
        let code = Status::from_header_map(response.headers()).map_or(Code::Ok, |s| s.code());
        metrics.rpc(self.method, name(code), self.started.elapsed());
    }
}

/// `00-<trace id>-<parent id>-<flags>`; later versions may add to its end. All zeros is none.
fn trace_id(headers: &HeaderMap) -> Option<&str> {
    let header = headers.get("traceparent")?.to_str().ok()?;
    let mut parts = header.split('-');
    let (version, id) = (parts.next()?, parts.next()?);
    let hex = |text: &str| {
        text.bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let valid = version.len() == 2
        && hex(version)
        && version != "ff"
        && id.len() == 32
        && hex(id)
        && id.bytes().any(|b| b != b'0');
    valid.then_some(id)
}

const fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_traceparent_names_a_trace() {
        const ID: &str = "0af7651916cd43dd8448eb211c80319c";
        for (header, valid) in [
            (format!("00-{ID}-b7ad6b7169203331-01"), true),
            (format!("01-{ID}-b7ad6b7169203331-01-more"), true),
            (format!("ff-{ID}-b7ad6b7169203331-01"), false),
            (
                format!("00-{}-b7ad6b7169203331-01", ID.to_uppercase()),
                false,
            ),
            (format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)), false),
            (format!("00-{}-b7ad6b7169203331-01", &ID[1..]), false),
            (String::new(), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", header.parse().expect("a header"));
            assert_eq!(trace_id(&headers), valid.then_some(ID), "{header}");
        }
    }
}
