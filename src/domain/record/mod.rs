//! A record: what is known about one key. The state is an enum that holds its own data.

mod ids;
mod state;

use std::collections::BTreeMap;

use super::fingerprint::Fingerprint;
use super::key::RecordKey;
use super::limits;
use super::policy::Terms;
use super::time::Timestamp;

pub use ids::{Etag, Fence, Generation, RequestId, Version};
pub use state::{
    Attempt, AttemptEnd, Completion, Hold, KeptOutcome, RecordState, Reexecuted, Reopening,
    Resolved, StateName, Tombstone,
};

/// What is known about one key.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The identity.
    pub key: RecordKey,
    /// The present one.
    pub generation: Generation,
    /// The newest reservation's fence.
    pub fence: Fence,
    /// Rises with every write.
    pub version: Version,
    /// How often the key was opened again by a person.
    pub rerun: u32,
    /// What the effect is.
    pub operation: String,
    /// The digest of the request that was granted.
    pub fingerprint: Option<Fingerprint>,
    /// What decides about this record.
    pub terms: Terms,
    /// For support.
    pub attributes: BTreeMap<String, String>,
    /// Somebody was taken over from in this generation: a Release is no longer a clean slate.
    pub tainted: bool,
    /// Takeovers since the grant or the last person's decision; released ones are not counted.
    pub recoveries: u32,
    /// Rises with each GRANTED and RECOVER of this generation.
    pub attempt: u32,
    /// Who made the newest reservation.
    pub holder: String,
    /// The trace that the newest reservation came with; empty if none.
    pub trace_id: String,
    /// When this generation began.
    pub first_reserved_at: Timestamp,
    /// When the newest reservation began.
    pub reserved_at: Timestamp,
    /// From when on the effect can have been sent: the last grant on a clean slate.
    pub exposed_at: Timestamp,
    /// Until when an effect sent earlier can still arrive.
    pub settle_until: Timestamp,
    /// A person approved one more run.
    pub reexecution_approved: bool,
    /// The last Resolve, so that a repeated one is told apart from another.
    pub resolved: Option<Resolved>,
    /// The fence that was released last, as long as nobody reserved since.
    pub released_fence: Option<Fence>,
    /// Request ids of released reservations: they never get a grant.
    pub released_requests: Vec<RequestId>,
    /// A late outcome that came while another token was RUNNING; it is used if that one leaves
    /// RUNNING without an outcome.
    pub kept: Option<KeptOutcome>,
    /// Distinct effect ids reported in this generation; healthy is at most one.
    pub effect_ids: Vec<String>,
    /// Ended attempts: the first and the newest.
    pub attempts: Vec<Attempt>,
    /// Where the record stands.
    pub state: RecordState,
}

impl Record {
    /// The name of the state.
    pub const fn state_name(&self) -> StateName {
        match self.state {
            RecordState::Running(_) => StateName::Running,
            RecordState::Recovering(_) => StateName::Recovering,
            RecordState::Released { .. } => StateName::Released,
            RecordState::Completed(_) => StateName::Completed,
            RecordState::Parked { .. } => StateName::Parked,
            RecordState::Expired(_) => StateName::Expired,
        }
    }

    /// The live claim, if there is one.
    pub const fn hold(&self) -> Option<&Hold> {
        match &self.state {
            RecordState::Running(hold) | RecordState::Recovering(Some(hold)) => Some(hold),
            RecordState::Recovering(None)
            | RecordState::Released { .. }
            | RecordState::Completed(_)
            | RecordState::Parked { .. }
            | RecordState::Expired(_) => None,
        }
    }

    /// Pins down this state of the record.
    pub const fn etag(&self) -> Etag {
        Etag {
            generation: self.generation,
            fence: self.fence,
            version: self.version,
        }
    }

    /// When time alone changes the record next: what the sweeper looks for.
    pub fn sweep_at(&self) -> Option<Timestamp> {
        match &self.state {
            RecordState::Completed(completion) => Some(completion.retained_until),
            RecordState::Expired(tombstone) => Some(tombstone.until),
            RecordState::Released { at } => Some(at.plus(self.terms.retention)),
            RecordState::Running(_) | RecordState::Recovering(_) | RecordState::Parked { .. } => {
                None
            }
        }
    }

    /// The newest attempt while it is held.
    pub fn current_attempt(&self) -> Option<Attempt> {
        self.hold().map(|_| Attempt {
            attempt: self.attempt,
            fence: self.fence,
            rerun: self.rerun,
            holder: self.holder.clone(),
            trace_id: self.trace_id.clone(),
            reserved_at: self.reserved_at,
            ended: None,
            note: String::new(),
            recorded: None,
            late_outcomes: Vec::new(),
        })
    }

    /// Whether a fence was given in the present generation, which is named by its first fence.
    pub(in crate::domain) fn is_of_this_generation(&self, fence: Fence) -> bool {
        fence.get() >= self.generation.get()
    }

    /// All attempts that are kept, the one that is held last.
    pub fn all_attempts(&self) -> Vec<Attempt> {
        let mut all: Vec<_> = self
            .attempts
            .iter()
            .cloned()
            .chain(self.current_attempt())
            .collect();
        if all.len() > limits::ATTEMPTS_MAX {
            all.remove(1);
        }
        all
    }

    /// Ends the newest attempt, if it is held, and keeps it: the first and the newest stay.
    pub(in crate::domain) fn end_attempt(&mut self, at: Timestamp, end: AttemptEnd, note: &str) {
        let Some(mut attempt) = self.current_attempt() else {
            return;
        };
        attempt.ended = Some((at, end));
        note.clone_into(&mut attempt.note);
        self.keep_attempt(attempt);
    }

    /// The ended attempt of that fence. One that is not kept any more, or that belongs to a
    /// generation of which nothing is left, is entered anew with the little that is known.
    pub(in crate::domain) fn ended_attempt(&mut self, fence: Fence, at: Timestamp) -> &mut Attempt {
        let known = |attempt: &Attempt| attempt.fence == fence;
        if !self.attempts.iter().any(known) {
            self.keep_attempt(Attempt {
                attempt: 0,
                fence,
                rerun: if self.is_of_this_generation(fence) {
                    self.rerun
                } else {
                    0
                },
                holder: String::new(),
                trace_id: String::new(),
                reserved_at: at,
                ended: Some((at, AttemptEnd::Superseded)),
                note: "reported after its attempt was forgotten".to_owned(),
                recorded: None,
                late_outcomes: Vec::new(),
            });
        }
        let at = self.attempts.iter().position(known).unwrap_or_default();
        &mut self.attempts[at]
    }

    fn keep_attempt(&mut self, attempt: Attempt) {
        self.attempts.push(attempt);
        if self.attempts.len() > limits::ATTEMPTS_MAX {
            self.attempts.remove(1);
        }
    }

    /// Adds an effect id that was reported under this key. True: it is another one than before.
    pub(in crate::domain) fn add_effect_id(&mut self, effect_id: &str) -> bool {
        if effect_id.is_empty() || self.effect_ids.iter().any(|known| known == effect_id) {
            return false;
        }
        let another = !self.effect_ids.is_empty();
        if self.effect_ids.len() < limits::EFFECT_IDS_MAX {
            self.effect_ids.push(effect_id.to_owned());
        }
        another
    }
}
