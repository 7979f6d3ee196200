//! The jobs that wait for a worker. Commands that end or keep a reservation go first, then new
//! reservations, then reads: a Complete never stands behind anybody who only waits. Now and then
//! the others go first, so that under any load there are look-ups, waiters' reads and a check.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

use crate::domain::command::{Answer, Command};
use crate::domain::key::RecordKey;
use crate::domain::namespace::Namespace;
use crate::domain::token::TokenSecrets;
use crate::port::store::{AuditEntry, Health, Reading, StoreError, Swept};

/// How many jobs of one lane may wait. Above it they are refused: a queue that only grows helps
/// nobody.
const LANE_JOBS_MAX: usize = 10_000;

/// Of so many jobs, one is taken from each of the lower lanes first.
const TURNS: u8 = 8;

/// A question, until when it is worth an answer, and who waits for that.
#[derive(Debug)]
pub(super) struct Pending<Q, A> {
    pub(super) question: Q,
    pub(super) deadline: Instant,
    pub(super) reply: oneshot::Sender<Result<A, StoreError>>,
}

/// What a worker can be asked to do.
#[derive(Debug)]
pub(super) enum Job {
    Apply(Pending<Command, Answer>),
    Read(Pending<Vec<RecordKey>, Reading>),
    Sweep(Pending<u32, Swept>),
    Namespace(Pending<String, Option<Namespace>>),
    Namespaces(Pending<(String, u32), Vec<Namespace>>),
    PutNamespace(Pending<Namespace, Option<Namespace>>),
    Audit(Pending<(RecordKey, i64, u32), Vec<AuditEntry>>),
    TokenSecrets(Pending<(), TokenSecrets>),
    Check(Pending<(), Health>),
}

impl Job {
    /// Its lane; the lowest goes first.
    const fn lane(&self) -> usize {
        match self {
            Self::Apply(pending) => match pending.question {
                Command::Reserve(_) => 1,
                Command::Complete(_)
                | Command::Renew(_)
                | Command::Release(_)
                | Command::Park(_)
                | Command::Reexecute(_)
                | Command::Expire(_)
                | Command::Resolve(_) => 0,
            },
            Self::Read(_)
            | Self::Sweep(_)
            | Self::Namespace(_)
            | Self::Namespaces(_)
            | Self::PutNamespace(_)
            | Self::Audit(_)
            | Self::TokenSecrets(_)
            | Self::Check(_) => 2,
        }
    }
}

/// The jobs by lane, and whose turn it is.
#[derive(Debug, Default)]
struct Lanes {
    jobs: [VecDeque<Job>; 3],
    turn: u8,
}

impl Lanes {
    fn pop(&mut self) -> Option<Job> {
        self.turn = (self.turn + 1) % TURNS;
        let first = match self.turn {
            0 => 2,
            4 => 1,
            _ => 0,
        };
        let in_turn = self.jobs[first].pop_front();
        in_turn.or_else(|| self.jobs.iter_mut().find_map(VecDeque::pop_front))
    }
}

/// The lanes, and one permit for each job in them.
#[derive(Debug)]
pub(super) struct Queue {
    lanes: Mutex<Lanes>,
    waiting: Semaphore,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            lanes: Mutex::default(),
            waiting: Semaphore::new(0),
        }
    }

    /// Adds a job; `false`: its lane is full and the job is dropped.
    pub(super) fn push(&self, job: Job) -> bool {
        let mut lanes = self.lanes();
        let lane = &mut lanes.jobs[job.lane()];
        if lane.len() >= LANE_JOBS_MAX {
            return false;
        }
        lane.push_back(job);
        self.waiting.add_permits(1);
        true
    }

    /// The next job; `None`: the queue is closed and empty.
    pub(super) async fn next(&self) -> Option<Job> {
        let permit = self.waiting.acquire().await.ok()?;
        permit.forget();
        self.lanes().pop()
    }

    /// Lets each of the workers end once nothing waits any more: a permit without a job.
    pub(super) fn close(&self, workers: usize) {
        self.waiting.add_permits(workers);
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        // Nothing between the lock and its end can panic.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::command::Renew;
    use crate::domain::record::{Fence, Generation};
    use crate::domain::token::Token;

    fn pending<Q, A>(question: Q) -> Pending<Q, A> {
        Pending {
            question,
            deadline: Instant::now(),
            reply: oneshot::channel().0,
        }
    }

    fn renew() -> Job {
        let token = Token {
            generation: Generation::new(1),
            fence: Fence::new(1),
        };
        Job::Apply(pending(Command::Renew(Renew {
            key: RecordKey::parse("billing", "live", "", "key").unwrap(),
            token,
            lease: std::time::Duration::from_secs(1),
        })))
    }

    #[tokio::test]
    async fn a_command_goes_before_the_reads_that_came_first() {
        let queue = Queue::new();
        assert!(queue.push(Job::Read(pending(Vec::new()))));
        assert!(queue.push(renew()));
        assert!(matches!(queue.next().await, Some(Job::Apply(_))));
        assert!(matches!(queue.next().await, Some(Job::Read(_))));
    }

    #[tokio::test]
    async fn a_read_comes_to_its_turn_however_many_commands_there_are() {
        let queue = Queue::new();
        assert!(queue.push(Job::Read(pending(Vec::new()))));
        let mut before = 0;
        loop {
            assert!(queue.push(renew()));
            match queue.next().await {
                Some(Job::Apply(_)) => before += 1,
                other => break assert!(matches!(other, Some(Job::Read(_))), "{other:?}"),
            }
        }
        assert_eq!(before, TURNS - 1);
    }

    #[tokio::test]
    async fn a_full_lane_refuses_and_leaves_the_others_open() {
        let queue = Queue::new();
        for _ in 0..LANE_JOBS_MAX {
            assert!(queue.push(Job::Read(pending(Vec::new()))));
        }
        assert!(!queue.push(Job::Read(pending(Vec::new()))));
        assert!(queue.push(renew()));
    }

    #[tokio::test]
    async fn a_closed_queue_is_emptied_first() {
        let queue = Queue::new();
        assert!(queue.push(renew()));
        queue.close(1);
        assert!(queue.next().await.is_some());
        assert!(queue.next().await.is_none());
    }
}
