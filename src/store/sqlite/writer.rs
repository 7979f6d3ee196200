//! How writes become durable: all that wait share one transaction and one flush, and nobody gets an
//! answer before it. One that fails takes back only what it did itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::error;
use super::open::Files;
use super::worker::Job;
use crate::port::store::StoreError;

/// Serves the one connection that writes.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) files: Files,
    /// How many commits have changed something; each has waited for its flush.
    pub(super) commits: Arc<AtomicU64>,
}

impl Writer {
    pub(super) fn serve(&self, connection: &mut Connection, mut jobs: Vec<Box<dyn Job>>) {
        let committed = self.transact(connection, &mut jobs);
        for job in jobs {
            job.settle(committed.clone());
        }
    }

    /// Runs the jobs in one transaction. An error means that none of them has written anything, or
    /// that it is not known.
    fn transact(
        &self,
        connection: &mut Connection,
        jobs: &mut [Box<dyn Job>],
    ) -> Result<(), StoreError> {
        let before = connection.total_changes();
        // IMMEDIATE: other processes on the same file wait here, for as long as the busy timeout
        // says, and not in the middle, where what was read could be out of date.
        let mut transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
        for job in jobs {
            apart(&mut transaction, job.as_mut())?;
        }
        self.files.check()?;
        let changed = transaction.total_changes() != before;
        transaction.commit().map_err(error::of_commit)?;
        if changed {
            self.commits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Runs one job under a savepoint of its own.
fn apart(transaction: &mut Transaction<'_>, job: &mut dyn Job) -> Result<(), StoreError> {
    let savepoint = transaction.savepoint()?;
    let keep = job.run(&savepoint);
    if savepoint.is_autocommit() {
        // After some failures the engine rolls back everything; who came before must know.
        let problem = "the database gave up a transaction that this was part of";
        return Err(StoreError::Unavailable(problem.to_owned()));
    }
    if keep {
        savepoint.commit()?;
    } else {
        savepoint.finish()?;
    }
    Ok(())
}
