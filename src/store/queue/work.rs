//! The commands that wait for one key. They are judged together, at one moment and in their order,
//! and at most one of them writes at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::lanes::Lane;
use crate::domain::command::{Answer, Command};
use crate::domain::decision::{Audit, Moment, decide};
use crate::domain::key::{KeyDigest, RecordKey};
use crate::domain::record::Record;
use crate::domain::time::Timestamp;
use crate::port::store::{Applied, Stands, StoreError};

/// A command, until when it is worth an answer, and who waits for that.
#[derive(Debug)]
pub(in crate::store) struct Pending {
    pub(in crate::store) command: Command,
    deadline: Instant,
    reply: oneshot::Sender<Result<Applied, StoreError>>,
    /// How often it was tried.
    tries: u32,
    /// A try broke off and may have written.
    unknown: bool,
}

impl Pending {
    pub(super) fn new(
        command: Command,
        deadline: Instant,
    ) -> (Self, oneshot::Receiver<Result<Applied, StoreError>>) {
        let (reply, answer) = oneshot::channel();
        let pending = Self {
            command,
            deadline,
            reply,
            tries: 0,
            unknown: false,
        };
        (pending, answer)
    }

    /// Nobody waits for it, and it was never tried: a right that nobody hears of would only strand
    /// its key. Whatever else was asked is done.
    pub(super) fn is_pointless(&self) -> bool {
        let asks = matches!(self.command, Command::Reserve(_));
        asks && self.tries == 0 && self.reply.is_closed()
    }

    /// Answers. The caller may have gone; what was done stands all the same.
    fn tell(self, answer: Result<Applied, StoreError>) {
        drop(self.reply.send(answer));
    }

    /// There will be no answer: nothing was written, or that is not known.
    fn give_up(self, error: &StoreError) {
        let error = match error {
            StoreError::Unavailable(reason) | StoreError::Unusable(reason) if self.unknown => {
                StoreError::OutcomeUnknown(reason.clone())
            }
            StoreError::Unavailable(_)
            | StoreError::Overloaded
            | StoreError::OutcomeUnknown(_)
            | StoreError::Corrupt(_)
            | StoreError::Unusable(_) => error.clone(),
        };
        self.tell(Err(error));
    }
}

/// Everything that waits for one key. Whoever has it is the only one at work on that key in this
/// process.
#[derive(Debug)]
pub(in crate::store) struct Work {
    pub(in crate::store) digest: KeyDigest,
    /// In the order of their lanes, and of their arrival in each; not empty when it is taken.
    pub(in crate::store) commands: VecDeque<Pending>,
    /// The lane that it was taken from.
    pub(super) lane: Lane,
    /// Its key is there: the next try need not hope that it is new.
    pub(in crate::store) is_there: bool,
    /// The next try is made alone, for somebody else may hold its lock.
    pub(in crate::store) alone: bool,
}

/// What the first commands of a [`Work`] come to.
#[derive(Debug)]
pub(in crate::store) struct Judgement {
    /// One for each of them, in their order. They may be told once the write is done.
    answers: Vec<Answer>,
    /// How many of the answers stand without it.
    read: usize,
    /// What was judged, and when.
    pub(in crate::store) stored: Option<Arc<Record>>,
    now: Timestamp,
    /// The record as it must be stored in place of that.
    pub(in crate::store) write: Option<Arc<Record>>,
    /// What goes into the audit trail with it.
    pub(in crate::store) audit: Option<Audit>,
}

impl Work {
    /// The command that is judged first.
    pub(in crate::store) fn first(&self) -> Option<&Command> {
        self.commands.front().map(|pending| &pending.command)
    }

    /// Whether only Reserves wait.
    pub(in crate::store) fn asks(&self) -> bool {
        matches!(self.first(), Some(Command::Reserve(_)))
    }

    /// Whether nothing waits but what a holder says of its own reservation.
    pub(in crate::store) fn only_reports(&self) -> bool {
        self.commands
            .iter()
            .all(|pending| Lane::of(&pending.command) <= Lane::Renew)
    }

    /// Whether a Reserve waits, perhaps behind others.
    pub(in crate::store) fn reserves(&self) -> bool {
        let last = self.commands.back();
        last.is_some_and(|pending| matches!(pending.command, Command::Reserve(_)))
    }

    /// Whether it is that identity's.
    pub(in crate::store) fn is_on(&self, key: &RecordKey) -> bool {
        self.first().is_some_and(|command| command.key() == key)
    }

    /// Judges the commands until a second one would write.
    pub(in crate::store) fn judge(&self, stored: Option<Arc<Record>>, moment: Moment) -> Judgement {
        let mut judgement = Judgement {
            answers: Vec::with_capacity(self.commands.len()),
            read: 0,
            stored,
            now: moment.now,
            write: None,
            audit: None,
        };
        for pending in &self.commands {
            let record = judgement.write.as_deref().or(judgement.stored.as_deref());
            let decision = decide(&pending.command, record, moment);
            if decision.write.is_some() {
                if judgement.write.is_some() {
                    break;
                }
                judgement.write = decision.write.map(Arc::from);
                judgement.audit = decision.audit;
            }
            judgement.answers.push(decision.answer);
            if judgement.write.is_none() {
                judgement.read += 1;
            }
        }
        judgement
    }

    /// Tells those answers of a judgement that came before its write, which was not done.
    pub(in crate::store) fn tell_what_was_read(&mut self, mut judgement: Judgement) {
        judgement.answers.truncate(judgement.read);
        self.tell(judgement);
    }

    /// Tells the answers of a judgement whose write, if it has one, is done.
    pub(in crate::store) fn tell(&mut self, judgement: Judgement) {
        for (at, answer) in judgement.answers.into_iter().enumerate() {
            let written = judgement.write.as_ref().filter(|_| at >= judgement.read);
            let record = written.or(judgement.stored.as_ref());
            let stands = record.map(|record| Stands {
                record: Arc::clone(record),
                seen_at: judgement.now,
            });
            if let Some(pending) = self.commands.pop_front() {
                pending.tell(Ok(Applied { answer, stands }));
            }
        }
    }

    /// Nothing will come of its commands.
    pub(in crate::store) fn give_up(&mut self, error: &StoreError) {
        for pending in self.commands.drain(..) {
            pending.give_up(error);
        }
    }

    /// A try came to nothing. `unknown`: it may have written. Those whose time is over are told why.
    pub(in crate::store) fn tried(&mut self, unknown: bool, error: &StoreError) {
        let now = Instant::now();
        for mut pending in std::mem::take(&mut self.commands) {
            pending.tries += 1;
            pending.unknown |= unknown;
            if pending.deadline <= now {
                pending.give_up(error);
            } else {
                self.commands.push_back(pending);
            }
        }
    }

    /// How often the first of its commands was tried.
    pub(in crate::store) fn tries(&self) -> u32 {
        self.commands.front().map_or(0, |pending| pending.tries)
    }
}
