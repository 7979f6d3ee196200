//! What Oncegate has to reach, each as a ratio within one run.

use crate::matrix::{Cell, Subject, Workload};
use crate::measure::Figures;

/// A target and how a run did.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) name: &'static str,
    /// E.g. `>= 2.50`.
    pub(crate) wanted: String,
    /// Nothing where the run did not measure it.
    pub(crate) ratio: Option<f64>,
    pub(crate) is_met: bool,
}

/// What is asked of a ratio.
#[derive(Debug, Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

type Ratio = fn(&Medians) -> Option<f64>;

const TARGETS: [(&str, Bound, Ratio); 8] = [
    (
        "pairs per second at 256 callers, to the yardstick's best",
        Bound::AtLeast(2.5),
        |of| Some(of.rate(Workload::New, 256, Subject::Postgres)? / of.yardstick_best()?),
    ),
    (
        "one caller's median pair, to the yardstick's",
        Bound::AtMost(1.4),
        |of| {
            let median = |subject| Some(of.cell(Workload::New, 1, subject)?.median_us);
            Some(median(Subject::Postgres)? / median(Subject::Yardstick)?)
        },
    ),
    (
        "keys per second in batches of 100, to the yardstick's best pairs",
        Bound::AtLeast(6.0),
        |of| Some(of.rate(Workload::Batch, 64, Subject::Postgres)? / of.yardstick_best()?),
    ),
    (
        "replays from the process at 64 callers, to echo",
        Bound::AtLeast(0.8),
        |of| of.to_echo(64, Subject::Postgres),
    ),
    (
        "replays from the process at 256 callers, to echo",
        Bound::AtLeast(0.8),
        |of| of.to_echo(256, Subject::Postgres),
    ),
    (
        "replays from Redis at 64 callers, to echo",
        Bound::AtLeast(0.5),
        |of| of.to_echo(64, Subject::Redis),
    ),
    (
        "replays from Redis at 256 callers, to echo",
        Bound::AtLeast(0.5),
        |of| of.to_echo(256, Subject::Redis),
    ),
    (
        "pairs per second on SQLite at 64 callers, to the yardstick's at 64",
        Bound::AtLeast(2.0),
        |of| {
            let rate = |subject| of.rate(Workload::New, 64, subject);
            Some(rate(Subject::Sqlite)? / rate(Subject::Yardstick)?)
        },
    ),
];

/// The medians of a run.
#[derive(Debug)]
pub(crate) struct Medians(pub(crate) Vec<(Cell, Figures)>);

impl Medians {
    pub(crate) fn cell(
        &self,
        workload: Workload,
        callers: u32,
        subject: Subject,
    ) -> Option<&Figures> {
        let wanted = Cell {
            workload,
            callers,
            subject,
        };
        let mut cells = self.0.iter();
        cells.find_map(|(cell, figures)| (*cell == wanted).then_some(figures))
    }

    pub(crate) fn rate(&self, workload: Workload, callers: u32, subject: Subject) -> Option<f64> {
        Some(self.cell(workload, callers, subject)?.rate_per_s)
    }

    /// A cell's rate to that of what it is compared with.
    pub(crate) fn ratio(&self, cell: Cell, figures: &Figures) -> Option<f64> {
        let base = self.rate(cell.workload, cell.callers, cell.workload.base())?;
        Some(figures.rate_per_s / base)
    }

    fn to_echo(&self, callers: u32, subject: Subject) -> Option<f64> {
        let rate = |subject| self.rate(Workload::Replays, callers, subject);
        Some(rate(subject)? / rate(Subject::Echo)?)
    }

    /// Its pairs with new keys, at whichever number of callers suits it most.
    fn yardstick_best(&self) -> Option<f64> {
        let own = self.0.iter().filter(|(cell, _)| {
            cell.workload == Workload::New && cell.subject == Subject::Yardstick
        });
        own.map(|(_, figures)| figures.rate_per_s)
            .max_by(f64::total_cmp)
    }
}

/// Every target, in order.
pub(crate) fn judge(medians: &Medians) -> Vec<Judged> {
    let judged = TARGETS.iter().map(|&(name, bound, ratio)| {
        let ratio = ratio(medians);
        Judged {
            name,
            wanted: bound.text(),
            ratio,
            is_met: ratio.is_some_and(|ratio| bound.holds(ratio)),
        }
    });
    judged.collect()
}

impl Bound {
    fn text(self) -> String {
        match self {
            Self::AtLeast(bound) => format!(">= {bound:.2}"),
            Self::AtMost(bound) => format!("<= {bound:.2}"),
        }
    }

    fn holds(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(bound) => ratio >= bound,
            Self::AtMost(bound) => ratio <= bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn medians(cells: &[(Workload, u32, Subject, f64, f64)]) -> Medians {
        let cells = cells
            .iter()
            .map(|&(workload, callers, subject, rate_per_s, median_us)| {
                let cell = Cell {
                    workload,
                    callers,
                    subject,
                };
                let figures = Figures {
                    rate_per_s,
                    median_us,
                    p99_us: 0.0,
                };
                (cell, figures)
            });
        Medians(cells.collect())
    }

    #[test]
    fn a_target_counts_from_the_yardsticks_best_and_holds_at_its_bound() {
        let run = medians(&[
            (Workload::New, 1, Subject::Yardstick, 500.0, 1_000.0),
            (Workload::New, 1, Subject::Postgres, 400.0, 1_500.0),
            (Workload::New, 64, Subject::Yardstick, 2_000.0, 0.0),
            (Workload::New, 256, Subject::Yardstick, 1_000.0, 0.0),
            (Workload::New, 256, Subject::Postgres, 5_000.0, 0.0),
        ]);
        let judged = judge(&run);
        assert_eq!((judged[0].ratio, judged[0].is_met), (Some(2.5), true));
        assert_eq!((judged[1].ratio, judged[1].is_met), (Some(1.5), false));
        // Batches were not measured.
        assert_eq!((judged[2].ratio, judged[2].is_met), (None, false));
    }
}
