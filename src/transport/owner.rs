//! Tasks that own a call's work: a caller that hangs up drops its handler, never the work.

use std::future::Future;

use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// Spawns and keeps count of owned work. Copies share the count.
#[derive(Debug, Clone, Default)]
pub struct Owner {
    tasks: TaskTracker,
}

impl Owner {
    /// Runs the work in a task of its own and awaits it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses the answer and nothing else: the work goes on to its end.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let task = self.tasks.spawn(work.in_current_span());
        match task.await {
            Ok(done) => done,
            // Nobody aborts these tasks: what is left is a panic, and it goes on in its caller.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
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
