//! The rules of the house, executed: sizes, layers, twins, pages, cases.
//!
//! Each rule is a function from files to findings, tested on small bad inputs
//! beside it, and run here over the repository. It does not judge what rustfmt,
//! clippy, buf or cargo-deny judge already.

#[path = "tidy/files.rs"]
mod files;
#[path = "tidy/layers.rs"]
mod layers;
#[path = "tidy/pairs.rs"]
mod pairs;
#[path = "tidy/prose.rs"]
mod prose;
#[path = "tidy/source.rs"]
mod source;

use files::{Finding, Repository};

/// Fails with every finding, one a line, as `file:line: what to do`.
fn settle(findings: &[Finding]) {
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
}

#[test]
fn rust_files_stay_short() {
    settle(&files::too_long(&Repository::open(), files::LONG_FILES));
}

#[test]
fn modules_begin_with_what_they_are_for() {
    settle(&files::without_purpose(&Repository::open()));
}

#[test]
fn layers_know_only_what_lies_below() {
    settle(&layers::violations(&Repository::open()));
}

#[test]
fn the_map_shows_the_layers_as_they_are() {
    settle(&layers::map(&Repository::open()));
}

#[test]
fn sql_stays_in_the_stores() {
    settle(&layers::stray_sql(&Repository::open()));
}

#[test]
fn no_test_is_ignored_or_holds_its_thread() {
    settle(&layers::switched_off_or_blocking(&Repository::open()));
}

#[test]
fn migrations_are_twins() {
    settle(&pairs::migrations(&Repository::open()));
}

#[test]
fn every_error_reason_has_its_page() {
    settle(&pairs::reasons(&Repository::open()));
}

#[test]
fn every_field_case_names_tests_that_exist() {
    settle(&pairs::cases(&Repository::open()));
}

#[test]
fn documents_exist_and_stay_short() {
    settle(&prose::documents(&Repository::open()));
}

#[test]
fn the_changelog_begins_with_what_is_unreleased() {
    settle(&prose::changelog(&Repository::open()));
}

#[test]
fn nothing_is_left_to_do() {
    settle(&prose::left_to_do(&Repository::open()));
}

#[test]
fn no_file_names_a_place_on_one_machine() {
    settle(&prose::machine_paths(&Repository::open()));
}
