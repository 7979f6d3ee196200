//! A worker: takes one job after the other and carries it out on a connection of its own, again
//! and again if need be, until its answer is known or it is too late for one. No caller's future
//! touches the connection.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;

use super::error::Failure;
use super::queue::{Job, Pending, Queue};
use super::session::{Session, Target};
use super::{apply, sweep, tables};
use crate::port::store::StoreError;

/// The pause before the second try on a fresh connection; it doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Works until the queue is closed and empty. A job that panics costs its own answer, not the
/// worker.
pub(super) async fn run(queue: Arc<Queue>, target: Arc<Target>) {
    loop {
        let worker = Worker {
            queue: Arc::clone(&queue),
            target: Arc::clone(&target),
            session: None,
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
    queue: Arc<Queue>,
    target: Arc<Target>,
    session: Option<Session>,
}

impl Worker {
    async fn work(mut self) {
        while let Some(job) = self.queue.next().await {
            self.carry_out(job).await;
        }
    }

    async fn carry_out(&mut self, job: Job) {
        match job {
            Job::Apply(job) => {
                self.settle(job, |on, command| apply::apply(on, command).boxed())
                    .await;
            }
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
            let failure = match self.session(job.deadline).await {
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

    /// The connection; a new one if there is none, unless it is too late for that.
    async fn session(&mut self, deadline: Instant) -> Result<&mut Session, Failure> {
        let session = if let Some(session) = self.session.take() {
            session
        } else {
            let opened = tokio::time::timeout_at(deadline, self.target.open()).await;
            opened.map_err(|_elapsed| Failure::unreachable("the database cannot be reached"))??
        };
        Ok(self.session.insert(session))
    }
}
