//! Who may use whom in `src`, where SQL may stand, and what no test does.
//!
//! [`LAYERS`] and [`HOMES`] are the only tables of this; ARCHITECTURE.md repeats the first, and a rule
//! here compares the two. Modules under `#[cfg(test)]` and files named `tests.rs` are free.

use crate::files::{File, Finding, Repository};
use crate::source::{Source, Token, positions};

struct Layer {
    /// A module of the crate, with all that lies in it.
    name: &'static str,
    /// The other layers that it may use.
    may_use: &'static [&'static str],
}

/// Know everything, or serve only tests.
const FREE: &[&str] = &["src/lib.rs", "src/main.rs", "src/cmd", "src/testkit"];

/// From the edge inwards.
const LAYERS: &[Layer] = &[
    Layer {
        name: "transport",
        may_use: &["service", "port", "domain", "proto", "telemetry"],
    },
    Layer {
        name: "service",
        may_use: &["port", "domain", "telemetry"],
    },
    Layer {
        name: "store",
        may_use: &["port", "domain"],
    },
    Layer {
        name: "port",
        may_use: &["domain"],
    },
    Layer {
        name: "domain",
        may_use: &[],
    },
    Layer {
        name: "config",
        may_use: &["domain", "telemetry"],
    },
    Layer {
        name: "telemetry",
        may_use: &[],
    },
    Layer {
        name: "proto",
        may_use: &[],
    },
];

/// Crates that only some places may name.
const HOMES: &[(&str, &[&str])] = &[
    ("sqlx", &["src/store/postgres"]),
    ("redis", &["src/store/cached/redis"]),
    ("rusqlite", &["src/store/sqlite"]),
    ("rusqlite_migration", &["src/store/sqlite"]),
    ("prost", &["src/store", "src/transport", "src/proto"]),
    ("tonic", &["src/transport", "src/proto"]),
    ("axum", &["src/transport"]),
    ("opentelemetry", &["src/telemetry"]),
    ("prometheus", &["src/telemetry"]),
    ("figment", &["src/config"]),
];

/// What a decision never needs.
const IMPURE: &[&str] = &[
    "async",
    "await",
    "async_trait",
    "tokio",
    "futures",
    "tracing",
];
const DOMAIN: &str = "src/domain";
const MAP: &str = "ARCHITECTURE.md";

/// True for `src/store`, its folder and `src/store.rs`, not for `src/storefront.rs`.
fn lies_in(path: &str, module: &str) -> bool {
    path.strip_prefix(module)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || rest == ".rs")
}

fn is_free(path: &str) -> bool {
    FREE.iter().any(|module| lies_in(path, module)) || path.ends_with("tests.rs")
}

/// The layer of a file in `src`.
fn layer_of(path: &str) -> Option<&'static Layer> {
    let inner = path.strip_prefix("src/")?;
    let module = inner.split('/').next().unwrap_or_default();
    let name = module.strip_suffix(".rs").unwrap_or(module);
    LAYERS.iter().find(|layer| layer.name == name)
}

/// Uses against the direction of the layers.
pub(crate) fn violations(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    let bound = |file: &&File| !is_free(&file.path);
    for file in repository.rust(&["src/"]).filter(bound) {
        let source = Source::parse(&file.text);
        let tokens = source.without_tests();
        if let Some(layer) = layer_of(&file.path) {
            against_layer(file, layer, tokens, &mut findings);
        } else {
            let message = "belongs to no layer: move it, or give it a row in LAYERS";
            findings.push(Finding::new(&file.path, 0, message));
        }
        away_from_home(file, tokens, &mut findings);
    }
    findings
}

fn against_layer(file: &File, layer: &Layer, tokens: &[Token], findings: &mut Vec<Finding>) {
    for head in crate_heads(tokens) {
        if head.text != layer.name && !layer.may_use.contains(&head.text.as_str()) {
            let message = format!("{} may not use crate::{}", layer.name, head.text);
            findings.push(Finding::new(&file.path, head.line, message));
        }
    }
    for at in positions(tokens, &["super", ":", ":", "super"]) {
        let message = "write crate::… in place of super::super, so that the layer shows";
        findings.push(Finding::new(&file.path, tokens[at].line, message));
    }
    if is_top(&file.path) {
        for at in positions(tokens, &["super", ":", ":"]) {
            let message = "write crate::… in place of super:: here, so that the layer shows";
            findings.push(Finding::new(&file.path, tokens[at].line, message));
        }
    }
}

fn away_from_home(file: &File, tokens: &[Token], findings: &mut Vec<Finding>) {
    let pure = lies_in(&file.path, DOMAIN);
    for (at, token) in tokens.iter().enumerate() {
        let text = token.text.as_str();
        let keyword = matches!(text, "async" | "await");
        let impure = pure && IMPURE.contains(&text) && (keyword || names_a_crate(tokens, at));
        if impure {
            let message = format!("{DOMAIN} is pure: it may not use {text}");
            findings.push(Finding::new(&file.path, token.line, message));
        }
        let Some((_, homes)) = HOMES.iter().find(|(name, _)| *name == text) else {
            continue;
        };
        let at_home = homes.iter().any(|home| lies_in(&file.path, home));
        if !at_home && names_a_crate(tokens, at) {
            let message = format!("{text} may be used in {} alone", homes.join(", "));
            findings.push(Finding::new(&file.path, token.line, message));
        }
    }
}

/// [`LAYERS`] as ARCHITECTURE.md shows it.
fn drawn() -> Vec<String> {
    let row = |layer: &Layer| match layer.may_use {
        [] => format!("{:<9} ──► nothing", layer.name),
        used => format!("{:<9} ──► {}", layer.name, used.join(", ")),
    };
    LAYERS.iter().map(row).collect()
}

/// Rows that the map of the code lacks, and those that it has beyond the table.
pub(crate) fn map(repository: &Repository) -> Vec<Finding> {
    let text = repository.get(MAP).map_or("", |file| file.text.as_str());
    let drawn = drawn();
    let mut findings = Vec::new();
    for row in &drawn {
        if !text.lines().any(|line| line == row) {
            findings.push(Finding::new(MAP, 0, format!("lacks the row `{row}`")));
        }
    }
    for (line, text) in (1..).zip(text.lines()) {
        let mut words = text.split_whitespace();
        let free = words.next() == Some("cmd");
        let row = words.next() == Some("──►");
        if row && !free && !drawn.iter().any(|row| row == text) {
            findings.push(Finding::new(MAP, line, "LAYERS has no such row"));
        }
    }
    findings
}

/// True for `src/x.rs` and `src/x/mod.rs`, whose `super` is the crate.
fn is_top(path: &str) -> bool {
    let inner = path.strip_prefix("src/").unwrap_or(path);
    let parts: Vec<&str> = inner.split('/').collect();
    parts.len() == 1 || (parts.len() == 2 && parts[1] == "mod.rs")
}

/// What follows each `crate::`, one by one in `crate::{a, b::{c, d}}`.
fn crate_heads(tokens: &[Token]) -> Vec<&Token> {
    let mut heads = Vec::new();
    for at in positions(tokens, &["crate", ":", ":"]) {
        let Some(first) = tokens.get(at + 3) else {
            continue;
        };
        if first.text != "{" {
            heads.push(first);
            continue;
        }
        let mut depth = 0_usize;
        for (before, token) in tokens[at + 3..].iter().zip(&tokens[at + 4..]) {
            match before.text.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            let begins = depth == 1 && matches!(before.text.as_str(), "{" | ",");
            if begins && token.text != "}" {
                heads.push(token);
            }
        }
    }
    heads
}

/// True for `name::…` that begins a path, and for `use name`.
fn names_a_crate(tokens: &[Token], at: usize) -> bool {
    let text = |index: Option<usize>| index.and_then(|i| tokens.get(i)).map(|t| t.text.as_str());
    let before = text(at.checked_sub(1));
    let path_follows = text(Some(at + 1)) == Some(":") && text(Some(at + 2)) == Some(":");
    if before == Some("use") || before == Some("crate") {
        return true;
    }
    if before == Some(".") {
        return false;
    }
    // `a::name::` lies inside a; `::name::` is the crate.
    let inside = before == Some(":")
        && text(at.checked_sub(2)) == Some(":")
        && text(at.checked_sub(3))
            .is_some_and(|t| t.chars().all(|c| c.is_alphanumeric() || c == '_'));
    path_follows && !inside
}

/// SQL outside the stores.
pub(crate) fn stray_sql(repository: &Repository) -> Vec<Finding> {
    const KEYWORDS: [&str; 4] = ["SELECT ", "INSERT INTO", "UPDATE ", "DELETE FROM"];
    let mut findings = Vec::new();
    for file in repository.rust(&["src/"]) {
        if lies_in(&file.path, "src/store") || lies_in(&file.path, "src/testkit") {
            continue;
        }
        for literal in Source::parse(&file.text).literals {
            if let Some(keyword) = KEYWORDS.iter().find(|word| literal.text.contains(**word)) {
                let message = format!("SQL ({}) belongs under src/store/", keyword.trim());
                findings.push(Finding::new(&file.path, literal.line, message));
            }
        }
    }
    findings
}

/// Tests that do not run, that put their thread to sleep, or that are not written.
pub(crate) fn switched_off_or_blocking(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.rust(&["src/", "tests/", "bench/", "clients/"]) {
        let tokens = Source::parse(&file.text).tokens;
        let mut add = |at: usize, message: &str| {
            findings.push(Finding::new(&file.path, tokens[at].line, message));
        };
        let ignored = "a test that is ignored is none: repair it or remove it";
        for at in positions(&tokens, &["#", "[", "ignore"]) {
            add(at, ignored);
        }
        for at in positions(&tokens, &["#", "[", "cfg_attr"]) {
            let attribute = tokens[at..].iter().take_while(|token| token.text != "]");
            if attribute.clone().any(|token| token.text == "ignore") {
                add(at, ignored);
            }
        }
        for at in positions(&tokens, &["thread", ":", ":", "sleep"]) {
            add(at, "inject the time, or wait for the event with a deadline");
        }
        for at in positions(&tokens, &["todo", "!"]) {
            add(at, "write it, or return an error that says it is not there");
        }
    }
    findings
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
