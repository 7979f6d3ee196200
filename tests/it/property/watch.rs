//! What must hold whatever is said: fences rise, one generation has one first run, and its outcome
//! never changes.

use std::collections::BTreeMap;

use oncegate::domain::command::{Command, Grant};
use oncegate::domain::outcome::OutcomeDigest;
use oncegate::domain::record::{Fence, Generation, Record, RecordState};
use proptest::prelude::*;

/// What has been seen so far.
#[derive(Default)]
pub(super) struct Watch {
    /// The first run that stands in each generation.
    granted: BTreeMap<Generation, Fence>,
    /// The outcome of each generation.
    outcomes: BTreeMap<Generation, OutcomeDigest>,
    highest: Option<Fence>,
}

impl Watch {
    /// A fence is that of the newest reservation or a higher one.
    pub(super) fn rises(&mut self, grant: &Grant) -> Result<(), TestCaseError> {
        prop_assert!(
            self.highest.is_none_or(|highest| grant.fence >= highest),
            "fences rise"
        );
        self.highest = Some(grant.fence);
        Ok(())
    }

    /// In one generation a second first run is granted only after an untainted Release.
    pub(super) fn first_run(&mut self, grant: &Grant) -> Result<(), TestCaseError> {
        self.rises(grant)?;
        let stands = self.granted.insert(grant.generation, grant.fence);
        prop_assert!(
            stands.is_none_or(|fence| fence == grant.fence),
            "a second first run"
        );
        Ok(())
    }

    pub(super) fn released(&mut self, command: &Command) {
        if let Command::Release(release) = command {
            let stands = self.granted.get(&release.token.generation);
            if stands == Some(&release.token.fence) {
                self.granted.remove(&release.token.generation);
            }
        }
    }

    pub(super) fn outcome_stays(&mut self, record: Option<&Record>) -> Result<(), TestCaseError> {
        let Some(record) = record else { return Ok(()) };
        let known = self.outcomes.get(&record.generation).copied();
        let stored = match &record.state {
            RecordState::Completed(completion) => Some(completion.outcome.digest),
            RecordState::Expired(tombstone) => Some(tombstone.outcome_digest),
            RecordState::Running(_)
            | RecordState::Recovering(_)
            | RecordState::Released { .. }
            | RecordState::Parked { .. } => None,
        };
        if known.is_some() {
            prop_assert_eq!(stored, known, "an outcome never changes in its generation");
        }
        if let Some(stored) = stored {
            self.outcomes.insert(record.generation, stored);
        }
        Ok(())
    }
}
