//! A panic is a defect of this service: it is logged here, and its caller learns nothing of it.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tonic::Status;

/// Answers INTERNAL where a handler panicked.
pub(super) async fn caught<T>(
    answer: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    // Nothing of the request is used again, so no broken invariant can be seen.
    let answer = AssertUnwindSafe(answer).catch_unwind().await;
    answer.unwrap_or_else(|panic| {
        tracing::error!(panic = text(&*panic), "a handler panicked");
        Err(Status::internal(""))
    })
}

fn text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("not a text")
}
