//! The HTTP port: health, metrics, and a page that says what this is.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;

use crate::telemetry::metrics::Metrics;
use crate::transport::readiness::{self, Readiness};

const PAGE: &str = include_str!("index.html");

/// The routes of the HTTP port.
pub fn routes(readiness: Readiness, metrics: Arc<Metrics>) -> Router {
    Router::new()
        .route(
            "/",
            get(|| async { ([(CONTENT_TYPE, "text/html; charset=utf-8")], PAGE) }),
        )
        .route("/healthz", get(|| async { "alive\n" }))
        .route("/readyz", get(ready).with_state(readiness))
        .route("/metrics", get(text).with_state(metrics))
}

async fn ready(State(readiness): State<Readiness>) -> Response {
    let (code, state, reason) = match readiness.state() {
        readiness::State::Ready => (StatusCode::OK, "ready", String::new()),
        readiness::State::NotReady(reason) => {
            (StatusCode::SERVICE_UNAVAILABLE, "not ready", reason)
        }
        readiness::State::Draining => {
            let reason = "the server is going away".to_owned();
            (StatusCode::SERVICE_UNAVAILABLE, "draining", reason)
        }
    };
    let body = serde_json::json!({ "state": state, "reason": reason }).to_string();
    (code, [(CONTENT_TYPE, "application/json")], body).into_response()
}

async fn text(State(metrics): State<Arc<Metrics>>) -> Response {
    match metrics.text() {
        Ok(text) => ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "the metrics could not be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
