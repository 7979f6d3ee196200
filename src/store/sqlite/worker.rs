//! A thread that owns one connection, and the queue of work for it. How the work is put into
//! transactions is up to whoever serves the queue.

use std::fmt;
use std::sync::mpsc;
use std::thread;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::sql;
use crate::port::store::StoreError;

/// The most jobs that are served at once.
const BATCH_MAX: usize = 256;

/// One piece of work, with whoever waits for its result.
pub(super) trait Job: Send {
    /// Does the work and keeps the result. Answers whether what it wrote may stay.
    fn run(&mut self, connection: &Connection) -> bool;

    /// Tells the result, which counts only if the transaction is committed.
    fn settle(self: Box<Self>, committed: Result<(), StoreError>);
}

/// Where the work goes. The thread ends when this is dropped, after what is queued.
pub(super) struct Worker {
    messages: mpsc::Sender<Message>,
}

enum Message {
    Work(Box<dyn Job>),
    Close(Closing),
}

/// Whoever waits for the end.
type Closing = oneshot::Sender<Result<(), StoreError>>;

struct Task<T, W> {
    work: Option<W>,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl Worker {
    /// Starts the thread. `serve` runs and settles every job that it is given.
    pub(super) fn spawn(
        name: &str,
        mut connection: Connection,
        mut serve: impl FnMut(&mut Connection, Vec<Box<dyn Job>>) + Send + 'static,
    ) -> Result<Self, StoreError> {
        let (messages, queue) = mpsc::channel();
        let thread = move || {
            while let Ok(first) = queue.recv() {
                let (jobs, closing) = take(first, &queue);
                serve(&mut connection, jobs);
                if let Some(reply) = closing {
                    let closed = checkpoint(&connection);
                    drop((queue, connection));
                    let _nobody_waits = reply.send(closed);
                    return;
                }
            }
        };
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(thread)
            .map_err(|error| StoreError::Unusable(format!("no thread can be started: {error}")))?;
        Ok(Self { messages })
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
        self.send(Message::Work(Box::new(task)))?;
        result.await.unwrap_or_else(|_dropped| Err(ended()))
    }

    /// Does what is queued, moves the log into the database file and ends the thread.
    pub(super) async fn close(&self) -> Result<(), StoreError> {
        let (reply, closed) = oneshot::channel();
        self.send(Message::Close(reply))?;
        closed.await.unwrap_or_else(|_dropped| Err(ended()))
    }

    fn send(&self, message: Message) -> Result<(), StoreError> {
        self.messages.send(message).map_err(|_closed| ended())
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Worker")
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
            None => Err(committed.err().unwrap_or_else(ended)),
        };
        let _nobody_waits = self.reply.send(result);
    }
}

/// Takes what else is queued, up to the bound or the end.
fn take(first: Message, queue: &mpsc::Receiver<Message>) -> (Vec<Box<dyn Job>>, Option<Closing>) {
    let mut jobs = Vec::new();
    for message in std::iter::once(first).chain(queue.try_iter()) {
        match message {
            Message::Work(job) => jobs.push(job),
            Message::Close(reply) => return (jobs, Some(reply)),
        }
        if jobs.len() == BATCH_MAX {
            break;
        }
    }
    (jobs, None)
}

/// Another process on the same file may keep a part of the log; whoever closes last moves it.
fn checkpoint(connection: &Connection) -> Result<(), StoreError> {
    Ok(connection.query_row(sql::CHECKPOINT, [], |_row| Ok(()))?)
}

/// Nothing of the job was kept: it was never begun, or its transaction was rolled back when the
/// thread ended.
fn ended() -> StoreError {
    StoreError::Unavailable("the store is closed or its thread has ended".to_owned())
}
