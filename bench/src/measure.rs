//! One cell for one round: all callers at once for a fixed time, and what came of it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::work::{Caller, Work};

/// Before the measuring begins: connections, caches and statements get warm.
const WARM_UP: Duration = Duration::from_millis(250);
/// The longest that the last calls of a round may take after its end.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a round gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figures {
    pub(crate) rate_per_s: f64,
    pub(crate) median_us: f64,
    pub(crate) p99_us: f64,
}

/// Lets all callers work for `length`, after a warm-up.
pub(crate) async fn round<C: Caller>(
    callers: Vec<C>,
    work: Work,
    length: Duration,
) -> anyhow::Result<Figures> {
    let counted = work.workload.counted();
    let work = Arc::new(work);
    let begin = Instant::now() + WARM_UP;
    let end = begin + length;
    let mut tasks = JoinSet::new();
    for (lane, caller) in (0..).zip(callers) {
        tasks.spawn(calls(caller, Arc::clone(&work), lane, begin, end));
    }
    let mut spans = Vec::new();
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            spans.append(&mut ended??);
        }
        anyhow::Ok(())
    };
    let ended = timeout(WARM_UP + length + PATIENCE, all).await;
    ended.context("a call is not answered")??;
    figures(spans, counted, length)
}

/// One caller: the time of each step that ended within the window, in microseconds.
async fn calls<C: Caller>(
    mut caller: C,
    work: Arc<Work>,
    lane: u32,
    begin: Instant,
    end: Instant,
) -> anyhow::Result<Vec<u32>> {
    let mut spans = Vec::with_capacity(4096);
    let mut asked = Instant::now();
    for number in 0.. {
        work.step(&mut caller, lane, number).await?;
        let answered = Instant::now();
        if answered >= end {
            break;
        }
        if answered >= begin {
            let span = answered.duration_since(asked).as_micros();
            spans.push(u32::try_from(span).unwrap_or(u32::MAX));
        }
        asked = answered;
    }
    Ok(spans)
}

fn figures(mut spans: Vec<u32>, counted: u32, length: Duration) -> anyhow::Result<Figures> {
    ensure!(!spans.is_empty(), "no call was answered in time");
    spans.sort_unstable();
    let steps = u32::try_from(spans.len())?;
    Ok(Figures {
        rate_per_s: f64::from(steps) * f64::from(counted) / length.as_secs_f64(),
        median_us: f64::from(spans[(spans.len() - 1) / 2]),
        p99_us: f64::from(spans[(spans.len() - 1) * 99 / 100]),
    })
}

/// The median of each figure over the rounds.
pub(crate) fn medians(rounds: &[Figures]) -> Option<Figures> {
    let median = |figure: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    Some(Figures {
        rate_per_s: median(|it| it.rate_per_s)?,
        median_us: median(|it| it.median_us)?,
        p99_us: median(|it| it.p99_us)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_counts_its_keys_and_a_round_its_whole_length() {
        let spans = (1..=200).rev().collect();
        let figures = figures(spans, 100, Duration::from_secs(2)).expect("calls were answered");
        let want = Figures {
            rate_per_s: 10_000.0,
            median_us: 100.0,
            p99_us: 198.0,
        };
        assert_eq!(figures, want);
    }

    #[test]
    fn a_round_that_answered_nothing_is_an_error() {
        assert!(figures(Vec::new(), 1, Duration::from_secs(2)).is_err());
    }

    #[test]
    fn each_figure_has_its_own_median() {
        let round = |rate_per_s, median_us, p99_us| Figures {
            rate_per_s,
            median_us,
            p99_us,
        };
        let rounds = [
            round(1.0, 9.0, 5.0),
            round(3.0, 8.0, 4.0),
            round(2.0, 7.0, 6.0),
        ];
        assert_eq!(medians(&rounds), Some(round(2.0, 8.0, 5.0)));
        assert_eq!(medians(&[]), None);
    }
}
