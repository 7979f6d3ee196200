//! The table in docs/protocol.md, executed: every state, every operation, every kind of token. A
//! store is driven into the state, the operation is carried out, and answer and state must be what
//! the row says. A row too few, too many or wrong fails.

mod drive;

use std::collections::BTreeMap;

use drive::{Case, Driven};

const OPERATIONS: [(&str, bool); 9] = [
    ("Reserve", false),
    ("Complete", true),
    ("Renew", true),
    ("Release", true),
    ("Reexecute", true),
    ("Park", true),
    ("Expire", false),
    ("Resolve", false),
    ("Lookup", false),
];
const TOKENS: [&str; 3] = ["current", "superseded", "other generation"];
const NO_TOKEN: &str = "no token";
const HEADER: &str = "| state | operation | token | answer | state after |";

/// Every combination that the table must have, in its order.
fn combinations() -> Vec<Case> {
    let mut all = Vec::new();
    for state in drive::STATES {
        for (operation, has_token) in OPERATIONS {
            let tokens: &[&str] = if has_token { &TOKENS } else { &[NO_TOKEN] };
            for token in tokens {
                let (state, operation, token) = (state.into(), operation.into(), (*token).into());
                all.push(Case {
                    state,
                    operation,
                    token,
                });
            }
        }
    }
    all
}

/// The rows of the table: what is asked, and what must come of it.
fn rows(document: &str) -> Vec<(Case, Driven)> {
    let mut lines = document.lines().skip_while(|line| *line != HEADER).skip(1);
    assert!(
        lines.next().is_some_and(|line| line.starts_with("| --- |")),
        "no table under {HEADER}"
    );
    let mut rows = Vec::new();
    for line in lines.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [state, operation, token, answer, after] = cells[..] else {
            panic!("five cells, please: {line}")
        };
        let case = Case {
            state: state.into(),
            operation: operation.into(),
            token: token.into(),
        };
        rows.push((
            case,
            Driven {
                answer: answer.into(),
                after: after.into(),
            },
        ));
    }
    rows
}

fn document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/protocol.md");
    std::fs::read_to_string(path).expect("docs/protocol.md is there")
}

#[test]
fn the_table_has_every_combination_exactly_once() {
    let rows = rows(&document());
    let mut count: BTreeMap<Case, u32> = BTreeMap::new();
    for (case, _) in &rows {
        *count.entry(case.clone()).or_default() += 1;
    }
    for case in combinations() {
        assert_eq!(count.remove(&case), Some(1), "{case:?}");
    }
    assert!(count.is_empty(), "unknown rows: {count:?}");
}

#[tokio::test]
async fn every_row_of_the_table_is_what_a_store_does() {
    let mut wrong = Vec::new();
    for (case, want) in rows(&document()) {
        let got = drive::carry_out(&case).await;
        if got != want {
            wrong.push(format!(
                "{case:?}: the table says {want:?}, the store {got:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
