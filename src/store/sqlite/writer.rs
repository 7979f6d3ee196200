//! How writes become durable: the commands that leave the queue together share one transaction and
//! one flush, and nobody gets an answer before it. If one of them fails, all are taken back, and
//! each is carried out in a transaction of its own.

use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::open::Files;
use super::worker::Job;
use super::{error, records};
use crate::port::clock::Clock;
use crate::port::store::StoreError;
use crate::store::queue::{Taken, Work};

/// Serves the one connection that writes.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) clock: Clock,
    pub(super) files: Files,
    /// How many commits have changed something; each has waited for its flush.
    pub(super) commits: Arc<AtomicU64>,
}

/// Why a transaction came to nothing.
enum Failed {
    /// The work in it failed; everything is taken back.
    Inside(StoreError),
    /// It could not begin or not end, whatever was in it.
    Outside(StoreError),
}

impl Writer {
    pub(super) fn serve(&self, connection: &mut Connection, taken: Taken<Box<dyn Job>>) {
        match taken {
            Taken::Commands(mut batch) => self.carry_out(connection, &mut batch),
            Taken::Other(mut job) => {
                let done = self.transact(connection, |transaction| {
                    if job.run(transaction) {
                        return Ok(());
                    }
                    Err(StoreError::Unavailable("it failed".to_owned()))
                });
                job.settle(done.map_err(Failed::reason));
            }
        }
    }

    fn carry_out(&self, connection: &mut Connection, works: &mut [Work]) {
        let together = works.len() > 1;
        let done = self.transact(connection, |transaction| {
            records::judge(transaction, &self.clock, works)
        });
        match done {
            Ok(judgements) => {
                for (work, judgement) in works.iter_mut().zip(judgements) {
                    match judgement {
                        Ok(judgement) => work.tell(judgement),
                        Err(corrupt) => work.give_up(&corrupt),
                    }
                }
            }
            Err(Failed::Inside(_)) if together => {
                for work in works {
                    self.carry_out(connection, slice::from_mut(work));
                }
            }
            Err(failed) => {
                let error = failed.reason();
                for work in works {
                    work.give_up(&error);
                }
            }
        }
    }

    /// Does the work in one transaction. An error means that nothing of it was written, or that it
    /// is not known.
    fn transact<T>(
        &self,
        connection: &mut Connection,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, Failed> {
        let before = connection.total_changes();
        // IMMEDIATE: other processes on the same file wait here, for as long as the busy timeout
        // says, and not in the middle, where what was read could be out of date.
        let transaction = Transaction::new(connection, TransactionBehavior::Immediate)
            .map_err(|error| Failed::Outside(error.into()))?;
        let done = work(&transaction).map_err(Failed::Inside)?;
        if transaction.is_autocommit() {
            // After some failures the engine rolls back everything by itself.
            let problem = "the database gave up the transaction";
            return Err(Failed::Inside(StoreError::Unavailable(problem.to_owned())));
        }
        self.files.check().map_err(Failed::Outside)?;
        let changed = transaction.total_changes() != before;
        transaction
            .commit()
            .map_err(|error| Failed::Outside(error::of_commit(error)))?;
        if changed {
            self.commits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(done)
    }
}

impl Failed {
    fn reason(self) -> StoreError {
        match self {
            Self::Inside(error) | Self::Outside(error) => error,
        }
    }
}
