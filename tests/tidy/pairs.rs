//! Things that come in pairs: migrations of two engines, reasons and their
//! pages, field cases and their tests. A missing half is found, never skipped.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::{Finding, Repository};
use crate::source::Source;

const ENGINES: [&str; 2] = ["postgres", "sqlite"];
const REASONS: &str = "proto/oncegate/v1/error_reason.proto";
const PAGES: &str = "docs/errors/";
const CASES: &str = "tests/cases.toml";

/// Migrations without a twin, out of order, or without a comment.
pub(crate) fn migrations(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut engines: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for engine in ENGINES {
        let folder = format!("migrations/{engine}/");
        let names = engines.entry(engine).or_default();
        for file in &repository.files {
            let Some(name) = file.path.strip_prefix(&folder) else {
                continue;
            };
            if migration_number(name).is_none() {
                let message = "name it NNNN_name.up.sql or NNNN_name.down.sql, [a-z0-9_]";
                findings.push(Finding::new(&file.path, 0, message));
                continue;
            }
            let first = file.text.lines().next().unwrap_or_default();
            if first
                .strip_prefix("--")
                .is_none_or(|comment| comment.trim().is_empty())
            {
                let message = "begin with a comment: why, and which locks it takes";
                findings.push(Finding::new(&file.path, 1, message));
            }
            names.insert(name.to_owned());
        }
        if names.is_empty() {
            findings.push(Finding::new(&folder, 0, "there are no migrations"));
        }
        findings.extend(holes(&folder, names));
    }
    for (engine, twin) in [("postgres", "sqlite"), ("sqlite", "postgres")] {
        for name in engines[engine].difference(&engines[twin]) {
            let message = format!("{engine} has it: the engines hold the same numbers and names");
            findings.push(Finding::new(
                &format!("migrations/{twin}/{name}"),
                0,
                message,
            ));
        }
    }
    findings
}

/// The number of `0001_name.up.sql`.
fn migration_number(name: &str) -> Option<usize> {
    let stem = name
        .strip_suffix(".up.sql")
        .or_else(|| name.strip_suffix(".down.sql"))?;
    let (number, label) = stem.split_once('_')?;
    let wordy = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let well_formed = number.len() == 4 && !label.is_empty() && label.chars().all(wordy);
    well_formed.then(|| number.parse().ok())?
}

/// Numbers that are missing or given twice, and ups without a down.
fn holes(folder: &str, names: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let ups: Vec<&String> = names
        .iter()
        .filter(|name| name.ends_with(".up.sql"))
        .collect();
    for (index, name) in ups.iter().enumerate() {
        if migration_number(name) != Some(index + 1) {
            let message = format!(
                "numbers run from 0001 without holes; here comes {:04}",
                index + 1
            );
            findings.push(Finding::new(&format!("{folder}{name}"), 0, message));
        }
    }
    for name in names {
        let other = match name.strip_suffix(".up.sql") {
            Some(stem) => format!("{stem}.down.sql"),
            None => name.replace(".down.sql", ".up.sql"),
        };
        if !names.contains(&other) {
            findings.push(Finding::new(&format!("{folder}{other}"), 0, "is missing"));
        }
    }
    findings
}

/// Reasons without a page and pages without a reason.
pub(crate) fn reasons(repository: &Repository) -> Vec<Finding> {
    let Some(proto) = repository.get(REASONS) else {
        return vec![Finding::new(REASONS, 0, "is missing")];
    };
    let mut findings = Vec::new();
    let mut known = BTreeSet::new();
    for (line, text) in (1..).zip(proto.text.lines()) {
        let Some(rest) = text.trim().strip_prefix("ERROR_REASON_") else {
            continue;
        };
        let reason = rest.split([' ', '=']).next().unwrap_or_default();
        if reason == "UNSPECIFIED" {
            continue;
        }
        known.insert(reason.to_owned());
        let page = format!("{PAGES}{reason}.md");
        if repository.get(&page).is_none() {
            findings.push(Finding::new(
                REASONS,
                line,
                format!("{reason} has no page: write {page}"),
            ));
        }
    }
    if known.is_empty() {
        findings.push(Finding::new(
            REASONS,
            0,
            "names no reason (ERROR_REASON_… = n;)",
        ));
    }
    for file in &repository.files {
        let Some(name) = file.path.strip_prefix(PAGES) else {
            continue;
        };
        let reason = name.strip_suffix(".md").unwrap_or(name);
        if name != "README.md" && !known.contains(reason) {
            let message = format!("there is no such reason in {REASONS}");
            findings.push(Finding::new(&file.path, 0, message));
        }
    }
    findings
}

/// Field cases whose test does not exist, and entries that are malformed.
///
/// A case named twice is refused by the TOML parser.
pub(crate) fn cases(repository: &Repository) -> Vec<Finding> {
    let Some(file) = repository.get(CASES) else {
        return vec![Finding::new(CASES, 0, "is missing")];
    };
    let document: toml::Table = match file.text.parse() {
        Ok(document) => document,
        Err(error) => {
            let before = error.span().map_or(0, |span| span.start);
            let line = file.text[..before].matches('\n').count() + 1;
            return vec![Finding::new(CASES, line, error.message())];
        }
    };
    let mut findings = Vec::new();
    for key in document.keys().filter(|key| *key != "cases") {
        findings.push(Finding::new(
            CASES,
            line_of(&file.text, key),
            "only [cases] is known here",
        ));
    }
    let Some(cases) = document.get("cases").and_then(toml::Value::as_table) else {
        findings.push(Finding::new(CASES, 0, "has no table [cases]"));
        return findings;
    };
    if cases.is_empty() {
        findings.push(Finding::new(CASES, 0, "[cases] names no case"));
    }
    let functions = functions(repository);
    for (id, tests) in cases {
        let mut add = |message: String| {
            findings.push(Finding::new(CASES, line_of(&file.text, id), message));
        };
        if !is_case_id(id) {
            add(format!("{id} is no case id: a letter A to N and a number"));
        }
        let names = tests.as_array().map_or(&[][..], Vec::as_slice);
        if names.is_empty() {
            add(format!("{id} names no test: {id} = [\"test_function\"]"));
        }
        let mut seen = BTreeSet::new();
        for name in names {
            match name.as_str() {
                None => add(format!("{id}: a test is named by a string")),
                Some(name) if !functions.contains(name) => {
                    add(format!("{id}: there is no `fn {name}` in src/ or tests/"));
                }
                Some(name) if !seen.insert(name) => add(format!("{id} names {name} twice")),
                Some(_) => {}
            }
        }
    }
    findings
}

fn is_case_id(id: &str) -> bool {
    let mut chars = id.chars();
    let letter = chars
        .next()
        .is_some_and(|first| ('A'..='N').contains(&first));
    let number = chars.as_str();
    letter
        && !number.is_empty()
        && !number.starts_with('0')
        && number.chars().all(|digit| digit.is_ascii_digit())
}

/// The line that begins with this key, or 0.
fn line_of(text: &str, key: &str) -> usize {
    let begins = |line: &str| {
        let line = line.trim_start_matches([' ', '[', '"']);
        let rest = line.strip_prefix(key);
        rest.is_some_and(|rest| rest.starts_with([' ', '=', '"', ']', '.']))
    };
    text.lines().position(begins).map_or(0, |index| index + 1)
}

fn functions(repository: &Repository) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in repository.rust(&["src/", "tests/"]) {
        let tokens = Source::parse(&file.text).tokens;
        let pairs = tokens.windows(2).filter(|pair| pair[0].text == "fn");
        names.extend(pairs.map(|pair| pair[1].text.clone()));
    }
    names
}

#[cfg(test)]
#[path = "pairs_tests.rs"]
mod tests;
