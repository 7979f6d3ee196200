//! A panic is a defect of this service: it is logged here, and its caller learns nothing of it.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use futures::FutureExt;
use tonic::Status;

/// Answers INTERNAL where a handler panicked.
pub async fn answer(request: Request, next: Next) -> Response {
    let method = request.uri().path().to_owned();
    // Nothing of the request is used again, so no broken invariant can be seen.
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(panic) => {
            tracing::error!(method, panic = text(&*panic), "a handler panicked");
            Status::internal("").into_http()
        }
    }
}

fn text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("not a text")
}
