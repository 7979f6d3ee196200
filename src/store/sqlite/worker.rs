//! A thread that owns one connection, and the queue of work for it. How the work is put into
//! transactions is up to whoever serves the queue.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use futures::executor::block_on;
use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

use super::sql;
use crate::port::store::StoreError;
use crate::store::queue::{Queue, Taken};

/// One piece of work beside commands on records, with whoever waits for its result.
pub(super) trait Job: Send {
    /// Does the work and keeps the result. Answers whether what it wrote may stay.
    fn run(&mut self, connection: &Connection) -> bool;

    /// Tells the result, which counts only if the transaction is committed.
    fn settle(self: Box<Self>, committed: Result<(), StoreError>);
}

pub(super) type Jobs = Queue<Box<dyn Job>>;

/// Where the work goes. The thread ends when this is dropped, after what is queued.
pub(super) struct Worker {
    pub(super) queue: Arc<Jobs>,
    ended: watch::Receiver<Option<Result<(), StoreError>>>,
}

struct Task<T, W> {
    work: Option<W>,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl Worker {
    /// Starts the thread. `serve` does and settles what it is given; if it panics, that costs the
    /// answers of what it was given and nothing else.
    pub(super) fn spawn(
        name: &str,
        mut connection: Connection,
        serve: impl Fn(&mut Connection, Taken<Box<dyn Job>>) + Send + 'static,
    ) -> Result<Self, StoreError> {
        let queue = Arc::new(Jobs::new());
        let (ending, ended) = watch::channel(None);
        let taken_from = Arc::clone(&queue);
        let thread = move || {
            while let Some(taken) = block_on(taken_from.next()) {
                // Its transaction is rolled back when the panic passes it.
                let served = catch_unwind(AssertUnwindSafe(|| serve(&mut connection, taken)));
                if served.is_err() {
                    tracing::error!("work on the SQLite store panicked; it goes on without it");
                }
            }
            let closed = checkpoint(&connection);
            drop(connection);
            ending.send_replace(Some(closed));
        };
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(thread)
            .map_err(|error| StoreError::Unusable(format!("no thread can be started: {error}")))?;
        Ok(Self { queue, ended })
    }

    /// Has the work done. It is done even if nobody waits for its result any longer.
    pub(super) async fn run<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (reply, result) = oneshot::channel();
        let task = Task {
            work: Some(work),
            result: None,
            reply,
        };
        self.queue.add(Box::new(task))?;
        result.await.unwrap_or_else(|_dropped| Err(broke_off()))
    }

    /// Does what is queued, moves the log into the database file and ends the thread.
    pub(super) async fn close(&self) -> Result<(), StoreError> {
        self.queue.close();
        let mut ended = self.ended.clone();
        let ended = ended.wait_for(Option::is_some).await;
        ended.map_or_else(
            |_gone| Err(broke_off()),
            |ended| ended.clone().unwrap_or(Ok(())),
        )
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Worker")
    }
}

impl fmt::Debug for dyn Job {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Job")
    }
}

impl<T, W> Job for Task<T, W>
where
    T: Send,
    W: FnOnce(&Connection) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, connection: &Connection) -> bool {
        self.result = self.work.take().map(|work| work(connection));
        matches!(self.result, Some(Ok(_)))
    }

    fn settle(self: Box<Self>, committed: Result<(), StoreError>) {
        let result = match self.result {
            Some(Err(own)) => Err(own),
            Some(Ok(value)) => committed.map(|()| value),
            None => Err(committed.err().unwrap_or_else(broke_off)),
        };
        let _nobody_waits = self.reply.send(result);
    }
}

/// Another process on the same file may keep a part of the log; whoever closes last moves it.
fn checkpoint(connection: &Connection) -> Result<(), StoreError> {
    Ok(connection.query_row(sql::CHECKPOINT, [], |_row| Ok(()))?)
}

/// Nothing of the job was kept: its transaction was rolled back.
fn broke_off() -> StoreError {
    StoreError::Unavailable("the work broke off and was taken back".to_owned())
}
