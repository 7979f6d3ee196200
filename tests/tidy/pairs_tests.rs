//! The rules of `pairs`, on small bad inputs.

use super::*;

const COMMENT: &str = "-- Why.\nCREATE TABLE a (b INT);";

fn paths(findings: Vec<Finding>) -> Vec<String> {
    findings.into_iter().map(|finding| finding.path).collect()
}

fn both_engines(names: &[&str]) -> Vec<String> {
    let all = |engine| {
        names
            .iter()
            .map(move |name| format!("migrations/{engine}/{name}"))
    };
    all("postgres").chain(all("sqlite")).collect()
}

fn repository_of(paths: &[String]) -> Repository {
    let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), COMMENT)).collect();
    Repository::of(&files)
}

#[test]
fn twins_in_order_are_fine() {
    let all = both_engines(&[
        "0001_a.up.sql",
        "0001_a.down.sql",
        "0002_b.up.sql",
        "0002_b.down.sql",
    ]);
    assert_eq!(migrations(&repository_of(&all)), []);
}

#[test]
fn a_migration_without_its_twin_is_found() {
    let mut all = both_engines(&["0001_a.up.sql", "0001_a.down.sql"]);
    all.push("migrations/postgres/0002_b.up.sql".to_owned());
    all.push("migrations/postgres/0002_b.down.sql".to_owned());
    let expected = [
        "migrations/sqlite/0002_b.down.sql",
        "migrations/sqlite/0002_b.up.sql",
    ];
    assert_eq!(paths(migrations(&repository_of(&all))), expected);
}

#[test]
fn an_up_without_a_down_is_found() {
    let found = migrations(&repository_of(&both_engines(&["0001_a.up.sql"])));
    let expected = both_engines(&["0001_a.down.sql"]);
    assert_eq!(paths(found), expected);
}

#[test]
fn a_hole_in_the_numbers_is_found() {
    let all = both_engines(&[
        "0001_a.up.sql",
        "0001_a.down.sql",
        "0003_b.up.sql",
        "0003_b.down.sql",
    ]);
    assert_eq!(
        paths(migrations(&repository_of(&all))),
        both_engines(&["0003_b.up.sql"])
    );
}

#[test]
fn a_number_given_twice_is_found() {
    let all = both_engines(&[
        "0001_a.up.sql",
        "0001_a.down.sql",
        "0001_b.up.sql",
        "0001_b.down.sql",
    ]);
    assert_eq!(
        paths(migrations(&repository_of(&all))),
        both_engines(&["0001_b.up.sql"])
    );
}

#[test]
fn a_malformed_name_is_found() {
    for name in [
        "1_a.up.sql",
        "0001_A.up.sql",
        "0001.up.sql",
        "0001_a.sql",
        "notes.txt",
    ] {
        assert_eq!(migration_number(name), None, "{name}");
    }
    assert_eq!(migration_number("0012_a_b2.down.sql"), Some(12));
}

#[test]
fn a_migration_without_a_comment_is_found() {
    let all = both_engines(&["0001_a.up.sql", "0001_a.down.sql"]);
    for (text, count) in [
        ("CREATE TABLE a (b INT);", 1),
        ("--\n", 1),
        ("", 1),
        ("-- Why.", 0),
    ] {
        let mut repository = repository_of(&all);
        repository.files[0].text = text.to_owned();
        assert_eq!(migrations(&repository).len(), count, "{text}");
    }
}

#[test]
fn no_migrations_at_all_are_found() {
    assert_eq!(migrations(&Repository::of(&[])).len(), 2);
}

#[test]
fn a_reason_and_its_page_belong_together() {
    let proto =
        "enum ErrorReason {\n  ERROR_REASON_UNSPECIFIED = 0;\n  ERROR_REASON_CORRUPT = 1;\n}";
    // pages, findings
    let cases: &[(&[&str], usize)] = &[
        (&["docs/errors/CORRUPT.md", "docs/errors/README.md"], 0),
        (&[], 1),
        (&["docs/errors/CORRUPT.md", "docs/errors/GONE.md"], 1),
        (&["docs/errors/CORRUPT.txt"], 2),
        (&["docs/errors/UNSPECIFIED.md", "docs/errors/CORRUPT.md"], 1),
    ];
    for (pages, count) in cases {
        let mut files = vec![(REASONS, proto)];
        files.extend(pages.iter().map(|page| (*page, "text")));
        assert_eq!(reasons(&Repository::of(&files)).len(), *count, "{pages:?}");
    }
    assert_eq!(reasons(&Repository::of(&[])).len(), 1, "no proto");
    assert_eq!(
        reasons(&Repository::of(&[(REASONS, "")])).len(),
        1,
        "no reason"
    );
}

#[test]
fn a_case_names_tests_that_exist() {
    // the file, its finding's line or none
    let cases: &[(&str, Option<usize>)] = &[
        (
            "[cases]\nA1 = [\"one_winner\"]\nB12 = [\"one_winner\", \"suite\"]",
            None,
        ),
        ("[cases]\nA1 = [\"gone\"]", Some(2)),
        ("[cases]\nA1 = [\"only_a_comment\"]", Some(2)),
        ("[cases]\n\nA1 = []", Some(3)),
        ("[cases]\nA1 = \"one_winner\"", Some(2)),
        ("[cases]\nA1 = [1]", Some(2)),
        ("[cases]\nA1 = [\"suite\", \"suite\"]", Some(2)),
        ("[cases]\nA1 = [\"suite\"]\nA1 = [\"suite\"]", Some(3)),
        ("[cases]\nO1 = [\"suite\"]", Some(2)),
        ("[cases]\nA = [\"suite\"]", Some(2)),
        ("[cases]\na1 = [\"suite\"]", Some(2)),
        ("[cases]\nA01 = [\"suite\"]", Some(2)),
        ("[cases]\nA1b = [\"suite\"]", Some(2)),
        ("[cases]\nA1 = [\"suite\"]\n[other]", Some(3)),
        ("[cases]", Some(0)),
        ("", Some(0)),
    ];
    let code = "fn one_winner() {}\n// fn only_a_comment() {}";
    let generic = "pub(crate) async fn suite<S: Store>(store: &S) {}";
    for (text, expected) in cases {
        let files = [
            (CASES, *text),
            ("tests/it/main.rs", code),
            ("src/testkit/a.rs", generic),
        ];
        let lines: Vec<usize> = super::cases(&Repository::of(&files))
            .iter()
            .map(|finding| finding.line)
            .collect();
        assert_eq!(lines, expected.as_slice(), "{text}");
    }
    assert_eq!(super::cases(&Repository::of(&[])).len(), 1, "no file");
}
