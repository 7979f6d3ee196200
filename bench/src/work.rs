//! The workloads, written once for everything that they go through: the callers differ only in how
//! they ask.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::bail;

use crate::keys::Keys;
use crate::matrix::{BATCH, Workload};

/// The outcome that is stored with every key.
pub(crate) const OUTCOME: [u8; 128] = [b'x'; 128];
/// The keys that [`Workload::Replays`] goes around in.
pub(crate) const COMPLETED: u32 = 1_000;

/// What a Reserve was answered.
#[derive(Debug)]
pub(crate) enum Verdict<T> {
    /// The right to run, and what completes it.
    Granted(T),
    /// The stored outcome, whole.
    Replay,
    /// Somebody is at it.
    InProgress,
}

/// One caller through one subject.
pub(crate) trait Caller: Send + 'static {
    /// What a grant is completed with.
    type Token: Send;

    fn reserve(
        &mut self,
        key: &str,
    ) -> impl Future<Output = anyhow::Result<Verdict<Self::Token>>> + Send;

    /// Stores [`OUTCOME`]; an error unless it was recorded.
    fn complete(
        &mut self,
        key: &str,
        token: Self::Token,
    ) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Reserves and completes new keys together; an error unless all were granted and recorded.
    fn batch(&mut self, keys: &[String]) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// What the callers of one cell share in one round.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) workload: Workload,
    /// Keys that nobody has used.
    pub(crate) new: Keys,
    /// Keys of which the first [`COMPLETED`] of lane 0 are completed.
    pub(crate) completed: Keys,
    /// The number of the hot key.
    pub(crate) hot: AtomicU32,
}

impl Work {
    /// One step of the caller on a lane, its `number`-th.
    pub(crate) async fn step<C: Caller>(
        &self,
        caller: &mut C,
        lane: u32,
        number: u32,
    ) -> anyhow::Result<()> {
        match self.workload {
            // Three of a hundred; the key before it is the caller's own, and completed.
            Workload::Duplicates if matches!(number % 100, 33 | 66 | 99) => {
                replay(caller, &self.new.at(lane, number - 1)).await
            }
            Workload::New | Workload::Duplicates => pair(caller, &self.new.at(lane, number)).await,
            Workload::Replays => {
                // Callers begin apart, so that they do not go around in step.
                let place = lane.wrapping_mul(37).wrapping_add(number) % COMPLETED;
                replay(caller, &self.completed.at(0, place)).await
            }
            Workload::Hot => self.hot(caller).await,
            Workload::Batch => {
                let numbers = number * BATCH..(number + 1) * BATCH;
                let keys: Vec<String> = numbers.map(|number| self.new.at(lane, number)).collect();
                caller.batch(&keys).await
            }
        }
    }

    async fn hot<C: Caller>(&self, caller: &mut C) -> anyhow::Result<()> {
        let number = self.hot.load(Ordering::Relaxed);
        let key = self.new.at(0, number);
        if let Verdict::Granted(token) = caller.reserve(&key).await? {
            caller.complete(&key, token).await?;
            self.hot.store(number + 1, Ordering::Relaxed);
        }
        Ok(())
    }
}

async fn pair<C: Caller>(caller: &mut C, key: &str) -> anyhow::Result<()> {
    match caller.reserve(key).await? {
        Verdict::Granted(token) => caller.complete(key, token).await,
        Verdict::Replay | Verdict::InProgress => bail!("a new key was not granted"),
    }
}

async fn replay<C: Caller>(caller: &mut C, key: &str) -> anyhow::Result<()> {
    match caller.reserve(key).await? {
        Verdict::Replay => Ok(()),
        Verdict::Granted(_) | Verdict::InProgress => bail!("a completed key was not replayed"),
    }
}

/// Completes the keys that [`Workload::Replays`] asks for.
pub(crate) async fn complete_ahead<C: Caller>(caller: &mut C, keys: Keys) -> anyhow::Result<()> {
    let keys: Vec<String> = (0..COMPLETED).map(|number| keys.at(0, number)).collect();
    caller.batch(&keys).await
}
