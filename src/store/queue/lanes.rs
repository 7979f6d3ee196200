//! Who is served next: the first lane that has something, and in it one namespace after the other.
//! Now and then a lower lane comes first, so that under any load there are grants, look-ups,
//! waiters' reads and a check.

use std::collections::{HashMap, VecDeque};

use super::work::{Pending, Work};
use crate::domain::command::Command;
use crate::domain::key::KeyDigest;
use crate::port::store::StoreError;

/// Keys that leave together.
pub(super) const BATCH_MAX: usize = 256;

/// How many commands may wait, and how many other jobs, before Reserves and jobs are refused: a
/// queue that only grows helps nobody. What a holder reports is never refused.
pub(super) const WAITING_MAX: usize = 10_000;

/// In so many turns, each lower lane is the first one once.
pub(super) const TURNS: usize = 8;

/// Who goes first. A Complete never stands behind anybody who only asks or waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::store) enum Lane {
    /// What a holder says about the end: Complete, Release, Park.
    Complete,
    /// What keeps a lease.
    Renew,
    /// What allows another run, and what people decide.
    Reexecute,
    /// Reserves of keys that seem to be new.
    Reserve,
    /// Reserves of keys that are there, and everything that only reads.
    Lookup,
    /// What somebody else's lock holds up: one key at a time, so that it holds up no other.
    Alone,
}

impl Lane {
    /// The first first.
    const ALL: [Self; 6] = [
        Self::Complete,
        Self::Renew,
        Self::Reexecute,
        Self::Reserve,
        Self::Lookup,
        Self::Alone,
    ];

    pub(super) const fn of(command: &Command) -> Self {
        match command {
            Command::Complete(_) | Command::Release(_) | Command::Park(_) => Self::Complete,
            Command::Renew(_) => Self::Renew,
            Command::Reexecute(_) | Command::Expire(_) | Command::Resolve(_) => Self::Reexecute,
            Command::Reserve(_) => Self::Reserve,
        }
    }
}

/// What a worker is given.
#[derive(Debug)]
pub(super) enum Next<J> {
    /// Commands on keys, each key once, all from this lane.
    Commands(Lane, Vec<Work>),
    /// One of the engine's other jobs.
    Other(J),
}

/// Everything that waits or is worked on.
#[derive(Debug)]
pub(super) struct Lanes<J> {
    keys: HashMap<KeyDigest, Key>,
    lines: HashMap<Lane, Line>,
    others: VecDeque<J>,
    /// Commands that are not with a worker.
    waiting: usize,
    alone_is_out: bool,
    turn: usize,
}

/// A key that something waits for or that is worked on.
#[derive(Debug)]
struct Key {
    commands: VecDeque<Pending>,
    stands: Stands,
    is_there: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    /// It was not there before.
    Nowhere,
    /// In this lane. Where else it stands it is passed over.
    In(Lane),
    /// With a worker.
    Out,
}

impl Key {
    /// Where a command on it belongs.
    fn lane_of(&self, command: &Command) -> Lane {
        let lane = Lane::of(command);
        if lane == Lane::Reserve && self.is_there {
            Lane::Lookup
        } else {
            lane
        }
    }

    /// Puts a command behind those of its lane, or before them if it has waited already.
    fn insert(&mut self, pending: Pending, waited: bool) {
        let lane = Lane::of(&pending.command);
        let place = self.commands.partition_point(|other| {
            let other = Lane::of(&other.command);
            other < lane || (other == lane && !waited)
        });
        self.commands.insert(place, pending);
    }
}

/// One lane: the namespaces that wait in it, each with its keys.
#[derive(Debug, Default)]
struct Line {
    turns: VecDeque<String>,
    keys: HashMap<String, VecDeque<KeyDigest>>,
}

impl Line {
    fn push(&mut self, namespace: &str, digest: KeyDigest) {
        if let Some(keys) = self.keys.get_mut(namespace) {
            keys.push_back(digest);
            return;
        }
        self.turns.push_back(namespace.to_owned());
        let keys = VecDeque::from([digest]);
        self.keys.insert(namespace.to_owned(), keys);
    }

    /// The next key of the namespace whose turn it is.
    fn pop(&mut self) -> Option<KeyDigest> {
        let namespace = self.turns.pop_front()?;
        let keys = self.keys.get_mut(&namespace)?;
        let digest = keys.pop_front();
        if keys.is_empty() {
            self.keys.remove(&namespace);
        } else {
            self.turns.push_back(namespace);
        }
        digest
    }
}

impl<J> Lanes<J> {
    pub(super) fn new() -> Self {
        Self {
            keys: HashMap::new(),
            lines: Lane::ALL.map(|lane| (lane, Line::default())).into(),
            others: VecDeque::new(),
            waiting: 0,
            alone_is_out: false,
            turn: 0,
        }
    }

    /// Nothing waits and no key is worked on.
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.others.is_empty()
    }

    /// There may be something for a worker.
    pub(super) fn is_waited_for(&self) -> bool {
        self.waiting > 0 || !self.others.is_empty()
    }

    /// Adds a command to what waits for its key.
    pub(super) fn add(&mut self, pending: Pending) -> Result<(), StoreError> {
        let asks = matches!(pending.command, Command::Reserve(_));
        if asks && self.waiting >= WAITING_MAX {
            return Err(StoreError::Overloaded);
        }
        self.waiting += 1;
        let digest = pending.command.key().digest();
        let key = self.keys.entry(digest).or_insert_with(|| Key {
            commands: VecDeque::new(),
            stands: Stands::Nowhere,
            is_there: false,
        });
        let lane = key.lane_of(&pending.command);
        key.insert(pending, false);
        let moves = match key.stands {
            Stands::Nowhere => true,
            // Only a holder's word is worth another try before its turn comes.
            Stands::In(Lane::Alone) => lane < Lane::Reserve,
            Stands::In(stands) => lane < stands,
            Stands::Out => false,
        };
        if moves {
            self.stand(digest, lane);
        }
        Ok(())
    }

    /// Adds one of the engine's other jobs.
    pub(super) fn add_other(&mut self, job: J) -> Result<(), StoreError> {
        if self.others.len() >= WAITING_MAX {
            return Err(StoreError::Overloaded);
        }
        self.others.push_back(job);
        Ok(())
    }

    fn stand(&mut self, digest: KeyDigest, lane: Lane) {
        let (Some(key), Some(line)) = (self.keys.get_mut(&digest), self.lines.get_mut(&lane))
        else {
            return;
        };
        key.stands = Stands::In(lane);
        if let Some(first) = key.commands.front() {
            line.push(first.command.key().namespace(), digest);
        }
    }

    /// What goes next.
    pub(super) fn next(&mut self) -> Option<Next<J>> {
        self.turn = (self.turn + 1) % TURNS;
        let first = match self.turn {
            0 => Lane::Lookup,
            2 => Lane::Reserve,
            4 => Lane::Alone,
            6 => Lane::Renew,
            _ => Lane::Complete,
        };
        let in_order = std::iter::once(first).chain(Lane::ALL);
        for lane in in_order {
            if lane == Lane::Lookup
                && let Some(job) = self.others.pop_front()
            {
                return Some(Next::Other(job));
            }
            let works = self.batch(lane);
            if !works.is_empty() {
                return Some(Next::Commands(lane, works));
            }
        }
        None
    }

    fn batch(&mut self, lane: Lane) -> Vec<Work> {
        let most = match lane {
            Lane::Alone if self.alone_is_out => 0,
            Lane::Alone => 1,
            Lane::Complete | Lane::Renew | Lane::Reexecute | Lane::Reserve | Lane::Lookup => {
                BATCH_MAX
            }
        };
        let mut works = Vec::new();
        while works.len() < most {
            let Some(digest) = self.lines.get_mut(&lane).and_then(Line::pop) else {
                break;
            };
            works.extend(self.take(digest, lane));
        }
        self.alone_is_out |= lane == Lane::Alone && !works.is_empty();
        works
    }

    /// Takes all that waits for a key, if it stands in that lane.
    fn take(&mut self, digest: KeyDigest, lane: Lane) -> Option<Work> {
        let key = self.keys.get_mut(&digest)?;
        if key.stands != Stands::In(lane) {
            return None;
        }
        self.waiting -= key.commands.len();
        let mut commands = std::mem::take(&mut key.commands);
        commands.retain(|pending| !pending.is_pointless());
        if commands.is_empty() {
            self.keys.remove(&digest);
            return None;
        }
        key.stands = Stands::Out;
        Some(Work {
            digest,
            commands,
            lane,
            is_there: key.is_there,
            alone: false,
        })
    }

    /// Ends the work on a key. What is left waits again, before what came meanwhile.
    pub(super) fn give_back(&mut self, work: Work) {
        self.alone_is_out &= work.lane != Lane::Alone;
        let Some(key) = self.keys.get_mut(&work.digest) else {
            return;
        };
        self.waiting += work.commands.len();
        for pending in work.commands.into_iter().rev() {
            key.insert(pending, true);
        }
        key.is_there = work.is_there;
        let Some(first) = key.commands.front() else {
            self.keys.remove(&work.digest);
            return;
        };
        let lane = if work.alone {
            Lane::Alone
        } else {
            key.lane_of(&first.command)
        };
        self.stand(work.digest, lane);
    }
}
