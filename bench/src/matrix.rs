//! What is measured: which work, by how many callers, through what. A further subject or workload
//! is a line here.

use std::fmt;

/// What each caller does, over and over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Reserve and Complete of a key that nobody has used: a pair.
    New,
    /// The same, but three calls of a hundred repeat a completed key.
    Duplicates,
    /// Reserve of keys that were completed before.
    Replays,
    /// All callers reserve the same key; whoever is granted it completes it, then it is the next
    /// one's turn.
    Hot,
    /// Reserve and Complete of [`BATCH`] new keys at once.
    Batch,
}

/// The keys of one batch.
pub(crate) const BATCH: u32 = 100;

impl Workload {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Duplicates => "duplicates",
            Self::Replays => "replays",
            Self::Hot => "hot",
            Self::Batch => "batch",
        }
    }

    /// For the table.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::New => "new keys, pairs",
            Self::Duplicates => "3 % duplicates, pairs",
            Self::Replays => "100 % duplicates, replays",
            Self::Hot => "one hot key, answers",
            Self::Batch => "batches of 100, keys",
        }
    }

    /// How many are counted for each step of a caller.
    pub(crate) const fn counted(self) -> u32 {
        match self {
            Self::New | Self::Duplicates | Self::Replays | Self::Hot => 1,
            Self::Batch => BATCH,
        }
    }

    /// What the table compares with: the transport's limit where no work is stored.
    pub(crate) const fn base(self) -> Subject {
        match self {
            Self::Replays => Subject::Echo,
            Self::New | Self::Duplicates | Self::Hot | Self::Batch => Subject::Yardstick,
        }
    }
}

/// What the work goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// Straight to Postgres, with a table of its own.
    Yardstick,
    /// A health check of the server on Postgres: what the transport costs alone.
    Echo,
    /// Oncegate on Postgres.
    Postgres,
    /// Oncegate on SQLite.
    Sqlite,
    /// Oncegate in memory.
    Memory,
    /// Oncegate on Postgres, with Redis.
    Redis,
}

impl Subject {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Yardstick => "yardstick",
            Self::Echo => "echo",
            Self::Postgres => "postgres",
            Self::Sqlite => "sqlite",
            Self::Memory => "memory",
            Self::Redis => "redis",
        }
    }
}

/// One entry of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) workload: Workload,
    pub(crate) callers: u32,
    pub(crate) subject: Subject,
}

impl fmt::Display for Cell {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (workload, subject) = (self.workload.name(), self.subject.name());
        write!(out, "{workload}-{}-{subject}", self.callers)
    }
}

impl Cell {
    /// True for `new`, `new-1` and `new-1-postgres` of that cell; `new-1` is not `new-1024`.
    pub(crate) fn is_called(self, name: &str) -> bool {
        let own = self.to_string();
        let rest = own.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }
}

/// A workload, measured at each number of callers through each subject, one beside the other.
struct Row {
    workload: Workload,
    callers: &'static [u32],
    subjects: &'static [Subject],
    /// What a full run adds.
    full: &'static [Subject],
}

const MATRIX: [Row; 5] = [
    Row {
        workload: Workload::New,
        callers: &[1, 64, 256, 1024],
        subjects: &[Subject::Yardstick, Subject::Postgres, Subject::Sqlite],
        full: &[Subject::Memory],
    },
    Row {
        workload: Workload::Duplicates,
        callers: &[64, 256],
        subjects: &[Subject::Yardstick, Subject::Postgres],
        full: &[Subject::Sqlite],
    },
    Row {
        workload: Workload::Replays,
        callers: &[64, 256],
        subjects: &[
            Subject::Echo,
            Subject::Yardstick,
            Subject::Postgres,
            Subject::Redis,
        ],
        full: &[Subject::Sqlite, Subject::Memory],
    },
    Row {
        workload: Workload::Hot,
        callers: &[64, 256],
        subjects: &[Subject::Yardstick, Subject::Postgres],
        full: &[Subject::Sqlite],
    },
    Row {
        workload: Workload::Batch,
        callers: &[64],
        subjects: &[Subject::Yardstick, Subject::Postgres, Subject::Sqlite],
        full: &[Subject::Memory],
    },
];

/// The cells of a run, in the order of one round.
pub(crate) fn cells(full: bool) -> Vec<Cell> {
    let mut cells = Vec::new();
    for row in &MATRIX {
        let more = if full { row.full } else { &[] };
        for &callers in row.callers {
            cells.extend(row.subjects.iter().chain(more).map(|&subject| Cell {
                workload: row.workload,
                callers,
                subject,
            }));
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_called_by_the_parts_of_its_name_from_the_left() {
        let cell = Cell {
            workload: Workload::New,
            callers: 1024,
            subject: Subject::Sqlite,
        };
        for (name, want) in [
            ("new", true),
            ("new-1024", true),
            ("new-1024-sqlite", true),
            ("new-1", false),
            ("ne", false),
            ("1024", false),
        ] {
            assert_eq!(cell.is_called(name), want, "{name}");
        }
    }

    #[test]
    fn every_cell_has_what_it_is_compared_with_beside_it() {
        for full in [false, true] {
            let cells = cells(full);
            for cell in &cells {
                let subject = cell.workload.base();
                assert!(cells.contains(&Cell { subject, ..*cell }), "{cell}");
            }
        }
    }
}
