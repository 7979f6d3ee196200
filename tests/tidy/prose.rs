//! Documents, and words that no committed file holds.

use crate::files::{Finding, Repository};

/// Documents that must exist, and their most lines.
const DOCUMENTS: [(&str, usize); 3] = [
    ("README.md", 200),
    ("ARCHITECTURE.md", 250),
    ("CONTRIBUTING.md", 250),
];
const CHANGELOG: &str = "CHANGELOG.md";
/// Put together here, so that this file does not hold them.
const LEFT_TO_DO: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];
const MACHINE_FOLDERS: [&str; 3] = [
    concat!("/", "work/"),
    concat!("/", "root/"),
    concat!("/", "home/"),
];

/// Documents that are missing, empty or too long.
pub(crate) fn documents(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, lines_max) in DOCUMENTS {
        let lines = repository
            .get(path)
            .map_or(0, |file| file.text.lines().count());
        if lines == 0 {
            findings.push(Finding::new(path, 0, "is missing or empty: write it"));
        }
        if lines > lines_max {
            let message = format!("{lines} lines; move detail to docs/, {lines_max} is the most");
            findings.push(Finding::new(path, 0, message));
        }
    }
    findings
}

/// A changelog whose first section is not `## [Unreleased]`.
pub(crate) fn changelog(repository: &Repository) -> Vec<Finding> {
    let text = repository
        .get(CHANGELOG)
        .map_or("", |file| file.text.as_str());
    let first = (1..)
        .zip(text.lines())
        .find(|(_, line)| line.starts_with("## "));
    match first {
        Some((_, "## [Unreleased]")) => Vec::new(),
        Some((line, _)) => {
            vec![Finding::new(
                CHANGELOG,
                line,
                "the first section is `## [Unreleased]`",
            )]
        }
        None => vec![Finding::new(
            CHANGELOG,
            0,
            "has no section `## [Unreleased]`",
        )],
    }
}

/// Marks of unfinished work in code, scripts and configuration.
pub(crate) fn left_to_do(repository: &Repository) -> Vec<Finding> {
    const EXTENSIONS: [&str; 6] = ["rs", "sql", "proto", "toml", "sh", "yaml"];
    let mut findings = Vec::new();
    for file in &repository.files {
        let script = file.text.starts_with("#!");
        if !script
            && !EXTENSIONS
                .iter()
                .any(|extension| file.has_extension(extension))
        {
            continue;
        }
        for (line, text) in (1..).zip(file.text.lines()) {
            if let Some(word) = LEFT_TO_DO.iter().find(|word| holds_word(text, word)) {
                let message = format!("{word}: do it, or open an issue and say why it is so now");
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    findings
}

fn holds_word(text: &str, word: &str) -> bool {
    let wordy = |c: char| c.is_alphanumeric() || c == '_';
    text.split(|c: char| !wordy(c)).any(|part| part == word)
}

/// Absolute paths of the machine that a file was written on.
pub(crate) fn machine_paths(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &repository.files {
        for (line, text) in (1..).zip(file.text.lines()) {
            for folder in MACHINE_FOLDERS {
                // Inside a longer path or an address it is no place on a machine.
                let begins = |(at, _): (usize, &str)| {
                    let before = text[..at].chars().next_back();
                    !before.is_some_and(|c| c.is_alphanumeric() || "_-.*/}".contains(c))
                };
                if text.match_indices(folder).any(begins) {
                    let message = format!("{folder}… exists on one machine: say it relative");
                    findings.push(Finding::new(&file.path, line, message));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_that_is_missing_or_long_is_found() {
        let (fits, long) = ("a\n".repeat(200), "a\n".repeat(251));
        let repository = Repository::of(&[("README.md", &fits), ("ARCHITECTURE.md", &long)]);
        let findings = documents(&repository);
        let paths: Vec<&str> = findings
            .iter()
            .map(|finding| finding.path.as_str())
            .collect();
        assert_eq!(paths, ["ARCHITECTURE.md", "CONTRIBUTING.md"]);
    }

    #[test]
    fn a_changelog_that_begins_with_a_release_is_found() {
        let lines = |text: &str| -> Vec<usize> {
            let repository = Repository::of(&[(CHANGELOG, text)]);
            changelog(&repository)
                .iter()
                .map(|finding| finding.line)
                .collect()
        };
        assert_eq!(lines("# Changelog\n\n## [Unreleased]\n\n## [0.1.0]\n"), []);
        assert_eq!(lines("# Changelog\n\n## [0.1.0]\n\n## [Unreleased]\n"), [3]);
        assert_eq!(lines("# Changelog\n"), [0]);
        assert_eq!(changelog(&Repository::of(&[])).len(), 1);
    }

    #[test]
    fn unfinished_work_is_found() {
        let word = LEFT_TO_DO[0];
        let count = |path: &str, text: &str| left_to_do(&Repository::of(&[(path, text)])).len();
        assert_eq!(count("src/a.rs", &format!("// {word}: b")), 1);
        assert_eq!(count("scripts/a", &format!("#!/bin/sh\n# {word}(c)")), 1);
        assert_eq!(count("migrations/postgres/a.sql", &format!("-- {word}")), 1);
        assert_eq!(count("src/a.rs", &format!("const {word}_LIST: u8 = 1;")), 0);
        assert_eq!(count("docs/a.md", &format!("no {word} in code")), 0);
    }

    #[test]
    fn a_place_on_one_machine_is_found() {
        let count = |text: &str| machine_paths(&Repository::of(&[("docs/a.md", text)])).len();
        for folder in MACHINE_FOLDERS {
            assert_eq!(count(&format!("see {folder}a")), 1);
            assert_eq!(count(&format!("\n\"{folder}a\"")), 1);
            assert_eq!(count(&format!("build{folder}a")), 0);
            assert_eq!(count(&format!("https://a.example{folder}a")), 0);
        }
    }
}
