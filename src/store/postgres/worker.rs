//! A worker: takes one job after the other and carries it out on a connection of its own, again
//! and again if need be, until its answer is known or it is too late for one. No caller's future
//! touches the connection.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;

use super::error::Failure;
use super::job::{Job, Pending};
use super::known::Known;
use super::session::{Session, Target};
use super::{apply, sweep, tables};
use crate::port::store::StoreError;
use crate::store::queue::{Batch, Queue, Taken};

/// The pause before the second try on a fresh connection; it doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// What the workers of a store share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) queue: Arc<Queue<Job>>,
    pub(super) target: Target,
    pub(super) known: Known,
}

/// Works until the queue is closed and everything is done. A panic costs the answers of what was
/// worked on, not the worker.
pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        let worker = Worker {
            shared: Arc::clone(&shared),
            session: None,
            pause: PAUSE_MIN,
        };
        match tokio::spawn(worker.work()).await {
            Ok(()) => return,
            Err(error) if error.is_panic() => {
                tracing::error!("a worker of the Postgres store panicked; another takes its place");
            }
            // The runtime is shutting down.
            Err(_cancelled) => return,
        }
    }
}

struct Worker {
    shared: Arc<Shared>,
    session: Option<Session>,
    /// How long it rests after the next failure of the connection.
    pause: Duration,
}

impl Worker {
    async fn work(mut self) {
        let queue = Arc::clone(&self.shared.queue);
        while let Some(taken) = queue.next().await {
            match taken {
                Taken::Commands(batch) => self.carry_out(batch).await,
                Taken::Other(job) => self.do_other(job).await,
            }
        }
    }

    /// Tries a batch once; what is left of it goes back into the queue.
    async fn carry_out(&mut self, mut batch: Batch<Job>) {
        let shared = Arc::clone(&self.shared);
        let failure = match self.session().await {
            Ok(session) => {
                match apply::attempt(session, &shared.known, batch.lane, &mut batch).await {
                    Ok(()) => {
                        self.pause = PAUSE_MIN;
                        return;
                    }
                    Err(failure) => failure,
                }
            }
            Err(failure) => failure,
        };
        let left = batch.iter_mut().filter(|work| !work.commands.is_empty());
        let left: Vec<_> = left.collect();
        let many = left.len() > 1;
        match failure {
            Failure::Broken { reason, wrote } => {
                tracing::warn!(reason, "Postgres did not answer");
                self.session = None;
                let error = StoreError::Unavailable(reason);
                for work in left {
                    work.tried(wrote, &error);
                }
                drop(batch);
                tokio::time::sleep(self.pause).await;
                self.pause = (self.pause * 2).min(PAUSE_MAX);
            }
            // One of them is held up, or one of them is bad: each is tried alone.
            Failure::Again { reason } => {
                let error = StoreError::Unavailable(reason);
                for work in left {
                    work.tried(false, &error);
                    work.alone = true;
                }
            }
            Failure::Final(StoreError::Corrupt(_)) if many => {
                for work in left {
                    work.alone = true;
                }
            }
            Failure::Final(error) => {
                for work in left {
                    work.give_up(&error);
                }
            }
        }
    }

    async fn do_other(&mut self, job: Job) {
        match job {
            // Nobody waits for it any more, and reading changes nothing.
            Job::Read(job) if job.reply.is_closed() => {}
            Job::Read(job) => {
                self.settle(job, |on, keys| tables::read(on, keys).boxed())
                    .await;
            }
            Job::Sweep(job) => {
                self.settle(job, |on, batch| sweep::sweep(on, *batch).boxed())
                    .await;
            }
            Job::Namespace(job) => {
                self.settle(job, |on, name| tables::namespace(on, name).boxed())
                    .await;
            }
            Job::Namespaces(job) => {
                self.settle(job, |on, page| tables::namespaces(on, page).boxed())
                    .await;
            }
            Job::PutNamespace(job) => {
                self.settle(job, |on, put| tables::put_namespace(on, put).boxed())
                    .await;
            }
            Job::Audit(job) => {
                self.settle(job, |on, page| tables::audit(on, page).boxed())
                    .await;
            }
            Job::TokenSecrets(job) => {
                self.settle(job, |on, ()| tables::token_secrets(on).boxed())
                    .await;
            }
            Job::Check(job) => {
                self.settle(job, |on, ()| tables::check(on).boxed()).await;
            }
        }
    }

    /// Tries until there is an answer or the deadline is over. Every job is safe to repeat whole,
    /// also when an earlier try may have written.
    async fn settle<Q: Sync, A>(
        &mut self,
        job: Pending<Q, A>,
        attempt: impl for<'a> Fn(&'a mut Session, &'a Q) -> BoxFuture<'a, Result<A, Failure>>,
    ) {
        let mut unknown = false;
        let mut pause = PAUSE_MIN;
        let answer = loop {
            let failure = match self.session().await {
                Ok(session) => match attempt(session, &job.question).await {
                    Ok(answer) => break Ok(answer),
                    Err(failure) => failure,
                },
                Err(failure) => failure,
            };
            match &failure {
                Failure::Final(_) => break Err(failure.told(unknown)),
                Failure::Again { .. } => {}
                Failure::Broken { wrote, .. } => {
                    self.session = None;
                    unknown |= wrote;
                }
            }
            if Instant::now() + pause >= job.deadline {
                break Err(failure.told(unknown));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        };
        if let Err(StoreError::Unavailable(reason) | StoreError::OutcomeUnknown(reason)) = &answer {
            tracing::warn!(reason, "Postgres gave no answer in time");
        }
        // The caller may have gone; the work is done all the same.
        drop(job.reply.send(answer));
    }

    /// The connection; a new one if there is none.
    async fn session(&mut self) -> Result<&mut Session, Failure> {
        let session = match self.session.take() {
            Some(session) => session,
            None => self.shared.target.open().await?,
        };
        Ok(self.session.insert(session))
    }
}
