//! The sweeper: buries and deletes what retention and tombstones have ended, in small batches.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::port::store::{Store, StoreError, Swept};
use crate::telemetry::metrics::Metrics;

/// How often a sweeper comes by, and how much it takes at once.
#[derive(Debug, Clone, Copy)]
pub struct SweepOptions {
    /// The pause after a sweep that found nothing more.
    pub every: Duration,
    /// Records of one batch.
    pub batch: u32,
}

/// Sweeps until it is dropped. Several replicas may do so at once.
pub async fn run(store: Arc<dyn Store>, metrics: Arc<Metrics>, options: SweepOptions) {
    loop {
        let started = Instant::now();
        match sweep_all(store.as_ref(), &metrics, options.batch).await {
            Ok(()) => metrics.sweep_took(started),
            Err(error) => {
                tracing::warn!(%error, "the sweep broke off; it goes on at the next turn");
            }
        }
        sleep(options.every).await;
    }
}

async fn sweep_all(store: &dyn Store, metrics: &Metrics, batch: u32) -> Result<(), StoreError> {
    loop {
        let Swept { buried, deleted } = store.sweep(batch).await?;
        metrics.swept(buried, deleted);
        if buried.saturating_add(deleted) < batch {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}
