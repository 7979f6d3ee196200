//! What a run found, as tables for people and as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use crate::gate::CALLERS_PER_CONNECTION;
use crate::machine::Machine;
use crate::matrix::Cell;
use crate::measure::{Figures, medians};
use crate::targets::{Judged, Medians, judge};
use crate::yardstick;

/// A finished run.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) length: Duration,
    /// Each cell with a figure for each round.
    pub(crate) cells: Vec<(Cell, Vec<Figures>)>,
    /// What could not be measured, and why.
    pub(crate) missing: Vec<String>,
}

impl Report {
    fn medians(&self) -> Medians {
        let cells = self.cells.iter();
        Medians(
            cells
                .filter_map(|(cell, rounds)| Some((*cell, medians(rounds)?)))
                .collect(),
        )
    }

    /// The tables, in Markdown.
    pub(crate) fn text(&self) -> String {
        let medians = self.medians();
        let facts = self.machine.facts().iter();
        let mut lines: Vec<String> = facts
            .map(|(name, fact)| format!("- {name}: {fact}"))
            .collect();
        let rounds = self.cells.iter().map(|(_, rounds)| rounds.len()).max();
        lines.push(format!(
            "- medians of {} rounds of {:.1} s; {} callers share an HTTP/2 connection, \
             all share {} connections of the yardstick's",
            rounds.unwrap_or_default(),
            self.length.as_secs_f64(),
            CALLERS_PER_CONNECTION,
            yardstick::CONNECTIONS,
        ));
        let missing = self.missing.iter();
        lines.extend(missing.map(|line| format!("- not measured: {line}")));
        let mut text = lines.join("\n") + "\n";
        let header = [
            "work",
            "callers",
            "through",
            "per second",
            "ratio",
            "median ms",
            "p99 ms",
        ];
        let rows = medians
            .0
            .iter()
            .map(|(cell, figures)| row(&medians, *cell, figures));
        text.push_str(&table(&header, &rows.collect::<Vec<_>>()));
        let header = ["target", "wanted", "measured", "result"];
        let judged = judge(&medians);
        let rows = judged.iter().map(target).collect::<Vec<_>>();
        text.push_str(&table(&header, &rows));
        text
    }

    pub(crate) fn json(&self) -> Value {
        let medians = self.medians();
        let cells = self.cells.iter().map(|(cell, rounds)| {
            let of = medians.cell(cell.workload, cell.callers, cell.subject);
            json!({
                "name": cell.to_string(),
                "workload": cell.workload.name(),
                "callers": cell.callers,
                "through": cell.subject.name(),
                "median": of.map(figures_json),
                "ratio": of.and_then(|figures| medians.ratio(*cell, figures)),
                "ratio_to": cell.workload.base().name(),
                "rounds": rounds.iter().map(figures_json).collect::<Vec<_>>(),
            })
        });
        let cells = cells.collect::<Vec<_>>();
        let targets = judge(&medians).into_iter().map(|judged| {
            json!({
                "name": judged.name,
                "wanted": judged.wanted,
                "ratio": judged.ratio,
                "is_met": judged.is_met,
            })
        });
        json!({
            "machine": self.machine.json(),
            "round_s": self.length.as_secs_f64(),
            "cells": cells,
            "targets": targets.collect::<Vec<_>>(),
            "missing": self.missing,
        })
    }
}

fn figures_json(figures: &Figures) -> Value {
    json!({
        "rate_per_s": figures.rate_per_s,
        "median_us": figures.median_us,
        "p99_us": figures.p99_us,
    })
}

fn row(medians: &Medians, cell: Cell, figures: &Figures) -> Vec<String> {
    let ratio = medians.ratio(cell, figures);
    let base = cell.workload.base();
    vec![
        cell.workload.title().to_owned(),
        cell.callers.to_string(),
        cell.subject.name().to_owned(),
        format!("{:.0}", figures.rate_per_s),
        ratio.map_or("-".to_owned(), |ratio| {
            format!("{ratio:.2} x {}", base.name())
        }),
        format!("{:.2}", figures.median_us / 1000.0),
        format!("{:.2}", figures.p99_us / 1000.0),
    ]
}

fn target(judged: &Judged) -> Vec<String> {
    let result = match (judged.ratio, judged.is_met) {
        (None, _) => "not measured",
        (Some(_), true) => "met",
        (Some(_), false) => "MISSED",
    };
    vec![
        judged.name.to_owned(),
        judged.wanted.clone(),
        judged
            .ratio
            .map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
        result.to_owned(),
    ]
}

/// A Markdown table whose columns line up.
fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let widths = header.iter().enumerate().map(|(column, name)| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .map(String::len)
            .chain([name.len()])
            .max()
            .unwrap_or_default()
    });
    let widths: Vec<usize> = widths.collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths);
        let padded = padded.map(|(cell, &width)| format!(" {cell:<width$} "));
        format!("|{}|\n", padded.collect::<Vec<_>>().join("|"))
    };
    let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
    let mut text = format!("\n{}", line(header.to_vec()));
    text.push_str(&line(rule.iter().map(String::as_str).collect()));
    for row in rows {
        text.push_str(&line(row.iter().map(String::as_str).collect()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tables_columns_line_up() {
        let rows = [vec!["a".to_owned(), "100".to_owned()]];
        let want = "\n| work | n   |\n| ---- | --- |\n| a    | 100 |\n";
        assert_eq!(table(&["work", "n"], &rows), want);
    }
}
