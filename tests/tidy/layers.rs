//! Who may use whom in `src`, where SQL may stand, and what no test does.
//!
//! A layer may use the layers it names and no others; what it may use of other
//! crates is everything but the list of its row. Modules under `#[cfg(test)]`
//! and files named `tests.rs` are free.

use crate::files::{File, Finding, Repository};
use crate::source::{Source, Token, positions};

struct Layer {
    /// The beginning of its files' paths; the longest that fits decides.
    path: &'static str,
    may_use: &'static [&'static str],
    never: &'static [&'static str],
}

/// Knows everything, or serves only tests.
const FREE: &[&str] = &["src/lib.rs", "src/main.rs", "src/cmd", "src/testkit"];

const LAYERS: &[Layer] = &[
    Layer {
        path: "src/domain",
        may_use: &["domain"],
        never: &[
            "tokio",
            "futures",
            "async_trait",
            "async",
            "await",
            "sqlx",
            "rusqlite",
            "redis",
            "tonic",
            "prost",
            "axum",
            "hyper",
            "tracing",
            "opentelemetry",
        ],
    },
    Layer {
        path: "src/port",
        may_use: &["domain", "port"],
        never: &[
            "sqlx", "rusqlite", "redis", "tonic", "prost", "axum", "hyper",
        ],
    },
    Layer {
        path: "src/service",
        may_use: &["domain", "port", "service", "telemetry"],
        never: &[
            "sqlx",
            "rusqlite",
            "rusqlite_migration",
            "redis",
            "tonic",
            "axum",
        ],
    },
    Layer {
        path: "src/store",
        may_use: &["domain", "port", "store"],
        never: &[
            "redis",
            "tonic",
            "axum",
            "sqlx",
            "rusqlite",
            "rusqlite_migration",
        ],
    },
    Layer {
        path: "src/store/postgres",
        may_use: &["domain", "port", "store"],
        never: &["redis", "tonic", "axum", "rusqlite", "rusqlite_migration"],
    },
    Layer {
        path: "src/store/sqlite",
        may_use: &["domain", "port", "store"],
        never: &["redis", "tonic", "axum", "sqlx"],
    },
    Layer {
        path: "src/store/observed",
        may_use: &["domain", "port", "store", "telemetry"],
        never: &[
            "redis",
            "tonic",
            "axum",
            "sqlx",
            "rusqlite",
            "rusqlite_migration",
        ],
    },
    Layer {
        path: "src/cache",
        may_use: &["domain", "port", "cache"],
        never: &["sqlx", "rusqlite", "rusqlite_migration", "tonic", "axum"],
    },
    Layer {
        path: "src/transport",
        may_use: &[
            "service",
            "proto",
            "domain",
            "port",
            "telemetry",
            "config",
            "transport",
        ],
        never: &["sqlx", "rusqlite", "rusqlite_migration", "redis"],
    },
    Layer {
        path: "src/config",
        may_use: &["config", "domain"],
        never: &["sqlx", "rusqlite", "rusqlite_migration", "redis", "tonic"],
    },
    Layer {
        path: "src/telemetry",
        may_use: &["telemetry", "domain"],
        never: &["sqlx", "rusqlite", "rusqlite_migration", "redis"],
    },
    Layer {
        path: "src/proto",
        may_use: &["proto"],
        never: &["sqlx", "rusqlite", "rusqlite_migration", "redis"],
    },
];

/// True for `src/store`, its folder and `src/store.rs`, not for `src/storefront.rs`.
fn lies_in(path: &str, module: &str) -> bool {
    path.strip_prefix(module)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || rest == ".rs")
}

fn is_free(path: &str) -> bool {
    FREE.iter().any(|module| lies_in(path, module)) || path.ends_with("tests.rs")
}

/// Uses against the direction of the layers.
pub(crate) fn violations(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository
        .rust(&["src/"])
        .filter(|file| !is_free(&file.path))
    {
        let layer = LAYERS
            .iter()
            .filter(|layer| lies_in(&file.path, layer.path))
            .max_by_key(|layer| layer.path.len());
        if let Some(layer) = layer {
            violations_in(file, layer, &mut findings);
        } else {
            let message = "belongs to no layer: move it, or give it a row in LAYERS";
            findings.push(Finding::new(&file.path, 0, message));
        }
    }
    findings
}

fn violations_in(file: &File, layer: &Layer, findings: &mut Vec<Finding>) {
    let source = Source::parse(&file.text);
    let tokens = source.without_tests();
    for head in crate_heads(tokens) {
        if !layer.may_use.contains(&head.text.as_str()) {
            let message = format!("{} may not use crate::{}", layer.path, head.text);
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
    for (at, token) in tokens.iter().enumerate() {
        let keyword = matches!(token.text.as_str(), "async" | "await");
        let forbidden = layer.never.contains(&token.text.as_str());
        if forbidden && (keyword || names_a_crate(tokens, at)) {
            let message = format!("{} may not use {}", layer.path, token.text);
            findings.push(Finding::new(&file.path, token.line, message));
        }
    }
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

/// Tests that do not run or that wait for the clock on the wall.
pub(crate) fn switched_off_or_sleeping(repository: &Repository) -> Vec<Finding> {
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
