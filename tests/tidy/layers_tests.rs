//! The rules of `layers`, on small bad inputs.

use super::*;

fn lines_of(path: &str, text: &str) -> Vec<usize> {
    let repository = Repository::of(&[(path, text)]);
    violations(&repository)
        .into_iter()
        .map(|finding| finding.line)
        .collect()
}

#[test]
fn a_layer_uses_only_what_its_row_names() {
    // path, source, lines that are found
    let cases: &[(&str, &str, &[usize])] = &[
        ("src/domain/key.rs", "use crate::domain::time;", &[]),
        ("src/domain/key.rs", "\nuse crate::port::Store;", &[2]),
        ("src/domain.rs", "use crate::service::Reserve;", &[1]),
        ("src/port/store.rs", "use crate::domain::Key;", &[]),
        ("src/port/store.rs", "use crate::store::memory;", &[1]),
        (
            "src/service/reserve.rs",
            "use crate::telemetry::Verdicts;",
            &[],
        ),
        (
            "src/service/reserve.rs",
            "fn a(b: crate::store::Memory) {}",
            &[1],
        ),
        (
            "src/service/reserve.rs",
            "use crate::transport::grpc;",
            &[1],
        ),
        ("src/store/memory.rs", "use crate::service::wait;", &[1]),
        ("src/store/memory.rs", "use crate::telemetry::names;", &[1]),
        ("src/config/sections.rs", "use crate::telemetry::logs;", &[]),
        (
            "src/transport/server.rs",
            "use crate::config::Config;",
            &[1],
        ),
        (
            "src/transport/grpc/gate.rs",
            "use crate::store::postgres;",
            &[1],
        ),
        (
            "src/transport/grpc/gate.rs",
            "use crate::{proto::v1, service::Reserve};",
            &[],
        ),
        (
            "src/transport/grpc/gate.rs",
            "use crate::{\nproto::{a, b},\ncmd,\n};",
            &[3],
        ),
        ("src/config/mod.rs", "use crate::cmd;", &[1]),
        (
            "src/cmd/serve.rs",
            "use crate::store::postgres; use sqlx::Row;",
            &[],
        ),
        ("src/testkit/model.rs", "use crate::store::memory;", &[]),
        (
            "src/service/reserve.rs",
            "#[cfg(test)] mod tests { use crate::store::memory; }",
            &[],
        ),
        (
            "src/service/reserve/tests.rs",
            "use crate::store::memory;",
            &[],
        ),
        (
            "src/domain/key.rs",
            "// crate::store\nconst A: &str = \"crate::store\";",
            &[],
        ),
    ];
    for (path, text, expected) in cases {
        assert_eq!(lines_of(path, text), *expected, "{path}: {text}");
    }
}

#[test]
fn a_layer_uses_no_crate_of_its_list() {
    let cases: &[(&str, &str, &[usize])] = &[
        ("src/domain/decision.rs", "use tokio::time::Instant;", &[1]),
        ("src/domain/decision.rs", "pub async fn a() {}", &[1]),
        (
            "src/domain/decision.rs",
            "fn a() { ::tokio::spawn(b) }",
            &[1],
        ),
        ("src/service/reserve.rs", "use sqlx;", &[1]),
        ("src/service/reserve.rs", "fn a() -> tonic::Status {}", &[1]),
        (
            "src/service/reserve.rs",
            "use tokio::sync::oneshot; async fn a() {}",
            &[],
        ),
        (
            "src/service/reserve.rs",
            "let sqlx = 1; self.sqlx::<B>(sqlx)",
            &[],
        ),
        (
            "src/transport/grpc/gate.rs",
            "use rusqlite::Connection;",
            &[1],
        ),
        ("src/transport/grpc/gate.rs", "use tonic::Status;", &[]),
        (
            "src/store/postgres/row.rs",
            "use sqlx::Row; use rusqlite::Row;",
            &[1],
        ),
        (
            "src/store/sqlite/row.rs",
            "use rusqlite::Row; use sqlx::Row;",
            &[1],
        ),
        ("src/store/memory.rs", "use sqlx::Row;", &[1]),
        ("src/store/mod.rs", "pub use postgres::sqlx::Row;", &[]),
        ("src/store/detail/read.rs", "use prost::Message;", &[]),
        ("src/service/reserve.rs", "use prost::Message;", &[1]),
        (
            "src/transport/http/mod.rs",
            "use prometheus::Encoder;",
            &[1],
        ),
    ];
    for (path, text, expected) in cases {
        assert_eq!(lines_of(path, text), *expected, "{path}: {text}");
    }
}

#[test]
fn super_does_not_hide_a_layer() {
    assert_eq!(lines_of("src/domain/key.rs", "use super::time;"), []);
    assert_eq!(
        lines_of("src/domain/key.rs", "use super::super::store;"),
        [1]
    );
    assert_eq!(lines_of("src/domain/mod.rs", "use super::store;"), [1]);
    assert_eq!(lines_of("src/domain.rs", "use super::store;"), [1]);
}

#[test]
fn a_file_of_no_layer_is_found() {
    assert_eq!(lines_of("src/util.rs", ""), [0]);
    assert_eq!(lines_of("src/storefront.rs", ""), [0]);
}

#[test]
fn a_map_that_differs_from_the_layers_is_found() {
    let found = |text: &str| map(&Repository::of(&[(MAP, text)])).len();
    let all = format!("cmd       ──► everything\n{}\n", drawn().join("\n"));
    assert_eq!(found(&all), 0);
    assert_eq!(found(&all.replace("port      ──► domain\n", "")), 1);
    assert_eq!(found(&format!("{all}cache     ──► domain\n")), 1);
    assert_eq!(
        found(&all.replace("port      ──► domain", "port      ──► store")),
        2
    );
    assert_eq!(found(""), LAYERS.len());
}

#[test]
fn sql_outside_the_stores_is_found() {
    let sql = "//! x\nconst A: &str = \"SELECT 1\";";
    let upsert = "const A: &str = r#\"\nINSERT INTO a\"#;";
    let found = |path: &str, text: &str| stray_sql(&Repository::of(&[(path, text)])).len();
    assert_eq!(found("src/cmd/doctor.rs", sql), 1);
    assert_eq!(found("src/service/reserve.rs", upsert), 1);
    assert_eq!(found("src/store/postgres/sql.rs", sql), 0);
    assert_eq!(found("src/testkit/database.rs", sql), 0);
    assert_eq!(
        found(
            "src/cmd/doctor.rs",
            "// SELECT 1\nlet a = \"select a row\";"
        ),
        0
    );
}

#[test]
fn ignored_and_blocking_tests_are_found() {
    let found = |text: &str| {
        let repository = Repository::of(&[("tests/it/main.rs", text)]);
        switched_off_or_blocking(&repository).len()
    };
    assert_eq!(found("#[test]\n#[ignore]\nfn a() {}"), 1);
    assert_eq!(found("#[ignore = \"slow\"] fn a() {}"), 1);
    assert_eq!(found("#[cfg_attr(windows, ignore)] fn a() {}"), 1);
    assert_eq!(
        found("#[cfg_attr(windows, allow(dead_code))] fn ignore() {}"),
        0
    );
    assert_eq!(found("std::thread::sleep(a);"), 1);
    assert_eq!(found("use std::thread; fn a() { thread::sleep(b) }"), 1);
    assert_eq!(found("tokio::time::sleep(a).await;"), 0);
    assert_eq!(found("fn a() { todo!() }"), 1);
}
