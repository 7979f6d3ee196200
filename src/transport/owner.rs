//! Work that outlives its call: a caller that hangs up drops its handler, never the work.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::Instrument;

/// Keeps count of owned work. Copies share the count.
#[derive(Debug, Clone, Default)]
pub struct Owner {
    tasks: TaskTracker,
}

impl Owner {
    /// Does the work in its caller's own task, and goes on in one of its own if that is dropped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses the answer and nothing else: the work goes on to its end.
    pub fn run<F>(&self, work: F) -> impl Future<Output = F::Output> + Send + use<F>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        Owned {
            work: Some(Box::pin(work)),
            tasks: self.tasks.clone(),
            _counted: self.tasks.token(),
        }
    }

    /// Awaits all work that is under way, and whatever is begun meanwhile.
    pub async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// How much work is under way.
    pub fn under_way(&self) -> usize {
        self.tasks.len()
    }
}

struct Owned<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    /// `None`: it has ended, or panicked.
    work: Option<Pin<Box<F>>>,
    tasks: TaskTracker,
    _counted: TaskTrackerToken,
}

impl<F> Future for Owned<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // Taken out meanwhile: what panics is not gone on with.
        let Some(mut work) = self.work.take() else {
            return Poll::Pending;
        };
        let done = work.as_mut().poll(context);
        if done.is_pending() {
            self.work = Some(work);
        }
        done
    }
}

impl<F> Drop for Owned<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    fn drop(&mut self) {
        // Without a runtime the process is at its end.
        if let (Some(work), Ok(runtime)) = (self.work.take(), Handle::try_current()) {
            self.tasks.spawn_on(work.in_current_span(), &runtime);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn work_whose_caller_leaves_goes_on_and_is_waited_for() {
        let owner = Owner::default();
        let (go, told) = oneshot::channel::<()>();
        let (done, mut seen) = oneshot::channel();
        let work = owner.run(async move {
            told.await.expect("it is told");
            done.send(()).expect("somebody looks");
        });
        assert!(timeout(Duration::ZERO, work).await.is_err());
        assert_eq!(owner.under_way(), 1);
        assert!(seen.try_recv().is_err());
        go.send(()).expect("it still waits");
        owner.finish().await;
        assert_eq!(seen.try_recv(), Ok(()));
        assert_eq!(owner.under_way(), 0);
    }

    #[tokio::test]
    async fn work_whose_caller_leaves_at_once_is_done_all_the_same() {
        let owner = Owner::default();
        let (done, seen) = oneshot::channel();
        drop(owner.run(async { done.send(()) }));
        owner.finish().await;
        assert_eq!(seen.await, Ok(()));
    }

    #[tokio::test]
    async fn a_panic_is_its_caller_s_and_is_not_gone_on_with() {
        let owner = Owner::default();
        let caller = tokio::spawn(owner.run(async { assert!(Handle::try_current().is_err()) }));
        assert!(caller.await.expect_err("it panics").is_panic());
        owner.finish().await;
    }
}
