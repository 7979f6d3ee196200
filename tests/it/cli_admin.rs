//! Namespaces, credentials, stores, keys and help.

use oncegate::testkit::process::{Server, bare, ended};

use crate::cli::{PROGRAM, reserved, server};

#[tokio::test]
async fn a_namespace_is_created_shown_listed_and_changed() {
    let server = server().await;
    let create = ["namespace", "create", "billing", "--retention", "72h"];
    let created = server.run(&create).await;
    created.expect(0);
    assert_eq!(created.row("namespace"), "billing");
    assert_eq!(
        created.stdout.matches("environment  ").count(),
        2,
        "{created:?}"
    );
    server.run(&create).await.expect(0);

    let update = [
        "namespace",
        "update",
        "billing",
        "-e",
        "live",
        "-e",
        "stage",
        "--max-recoveries",
        "9",
        "-o",
        "json",
    ];
    let changed = server.run(&update).await.expect(0).json();
    let environments = changed["namespace"]["environments"]
        .as_array()
        .expect("a list");
    let policy = |name: &str| {
        let found = environments.iter().find(|it| it["name"] == name);
        found.expect("it is there")["policy"].clone()
    };
    assert_eq!(policy("live")["maxRecoveries"], 9);
    assert_eq!(policy("live")["retention"], "259200s");
    assert_eq!(policy("stage")["maxRecoveries"], 9);
    assert_eq!(policy("test")["maxRecoveries"], 5);

    let other = ["namespace", "create", "billing", "--retention", "1h"];
    assert!(
        server
            .run(&other)
            .await
            .expect(109)
            .stderr
            .contains("ETAG_MISMATCH")
    );
    let shown = server
        .run(&["namespace", "get", "billing", "-o", "json"])
        .await;
    assert_eq!(shown.expect(0).json()["namespace"]["name"], "billing");
    let listed = server.run(&["namespace", "list"]).await;
    assert!(listed.expect(0).stdout.contains("billing"), "{listed:?}");
    assert!(listed.stdout.contains("live, stage, test"), "{listed:?}");
    let missing = server.run(&["namespace", "get", "nothing"]).await;
    assert!(missing.expect(106).stderr.contains("NAMESPACE_NOT_FOUND"));
}

/// H15: what would switch protection off, or loop, is refused before anything is touched.
#[tokio::test]
async fn destructive_settings_are_refused() {
    let server = server().await;
    server
        .run(&["namespace", "create", "billing"])
        .await
        .expect(0);
    let before = server.run(&["namespace", "get", "billing"]).await;
    for flags in [
        &["--retention", "-1h"][..],
        &["--retention", "0s"],
        &["--retention", "1ns"],
        &["--retention", "99999years"],
        &["--default-lease", "0s"],
        &["--max-total-lease", "0s"],
        &["--keyed-window", "0s"],
        &["--max-recoveries", "0"],
        &["--max-recoveries", "-5"],
        &["--payload-bytes-max", "0"],
        &["--payload-bytes-max", "1048577"],
        &["--mismatch-http-status", "200"],
        &["--effect-class", "keyed"],
        &["--effect-class", "queryable"],
        &["--duplicate-ratio-high", "1.5"],
        &["--distinct-effect-ids", "0"],
    ] {
        let update = [&["namespace", "update", "billing", "-e", "live"], flags].concat();
        server.run(&update).await.expect(2);
    }
    for update in [
        &["namespace", "update", "billing", "--retention", "1h"][..],
        &[
            "namespace",
            "update",
            "*",
            "-e",
            "live",
            "--retention",
            "1h",
        ],
        &["namespace", "update", "-e", "live", "--retention", "1h"],
        &["migrate", "--down-to", "-1"],
        &["migrate", "--database-url", "mysql://u:secret@h/d"],
    ] {
        let refused = server.run(update).await;
        refused.expect(2);
    }
    let after = server.run(&["namespace", "get", "billing"]).await;
    assert_eq!(before.stdout, after.stdout);
}

#[tokio::test]
async fn a_store_is_migrated_once_and_not_back_over_records() {
    let mut server = Server::prepare(PROGRAM, &[]);
    let url = server.database_url();
    let migrate = ["migrate", "--database-url", &url];
    let up = server.run(&migrate).await;
    assert!(up.expect(0).stdout.contains("from version 0 to"), "{up:?}");
    let again = server.run(&migrate).await;
    assert!(
        again.expect(0).stdout.contains("nothing was to be done"),
        "{again:?}"
    );

    let down = ["migrate", "--database-url", &url, "--down-to", "0"];
    let empty = server.run(&down).await;
    assert!(empty.expect(0).stdout.contains("to 0"), "{empty:?}");

    server.launch().await;
    server
        .run(&["reserve", "k", "--operation", "op"])
        .await
        .expect(0);
    server.kill().await;
    let refused = server.run(&down).await;
    assert!(refused.expect(110).stderr.contains("lost"), "{refused:?}");
    let none = [
        "migrate",
        "--database-url",
        "sqlite://none.db",
        "--down-to",
        "0",
    ];
    server.run(&none).await.expect(106);
    assert!(!server.folder().join("none.db").exists());
}

#[tokio::test]
async fn what_is_no_message_is_json_too() {
    let server = Server::prepare(PROGRAM, &[]);
    let key = server.run(&["key", "derive", "a", "-o", "json"]).await;
    let want = "ogk1_5wU46yUDEUSu7ZTJ8MhjmLXGU8kSU_XY7S6Fk2tdXlE";
    assert_eq!(key.expect(0).json()["key"], want);
    let url = server.database_url();
    let migrate = ["migrate", "--database-url", &url, "-o", "json"];
    let done = server.run(&migrate).await.expect(0).json();
    assert_eq!(done["store"], url);
    assert_eq!(done["before"], 0);
    assert!(done["after"].as_i64() >= Some(1), "{done}");
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_named_one_a_line() {
    let server = Server::prepare(PROGRAM, &[]);
    for (flag, value, name) in [
        ("--database-url", "postgres://h:port/d", "database.url: "),
        ("--database-url", "sqlite://none/gate.db", "database.url: "),
        ("--log", "bad[filter=", "log.filter: "),
        ("--config", "none.toml", "none.toml: "),
    ] {
        let refused = server.run(&["serve", flag, value]).await;
        let named = refused.expect(2).stderr.lines();
        let mut named = named.filter(|line| line.trim().starts_with(name));
        assert!(named.next().is_some(), "{name}: {refused:?}");
        assert!(!refused.stderr.contains("\\n"), "{refused:?}");
    }

    let mut serve = server.command(&["serve"]);
    serve.env("ONCEGATE_WAITERS_MAX", "many");
    let settings = ended(serve.env("ONCEGATE_NONSENSE", "x")).await;
    let told: Vec<_> = settings.expect(2).stderr.lines().collect();
    assert_eq!(told.len(), 3, "{settings:?}");
    for name in ["limits.waiters_max: ", "ONCEGATE_NONSENSE: "] {
        let named = told.iter().filter(|line| line.trim().starts_with(name));
        assert_eq!(named.count(), 1, "{name}: {settings:?}");
    }
}

#[tokio::test]
async fn an_audit_trail_is_listed() {
    let server = server().await;
    let token = reserved(&server, "k").await;
    let list = ["audit", "list", "k"];
    let head = server.run(&list).await.expect(0).stdout.lines().count();
    assert_eq!(head, 1);
    let complete = ["complete", "k", "--token", &token];
    server.run(&complete).await.expect(0);
    let expire = ["expire", "k", "--reason", "voided", "--yes"];
    server.run(&expire).await.expect(0);

    let shown = server.run(&list).await;
    let row = shown.expect(0).stdout.lines().nth(1).expect("one entry");
    for part in ["EXPIRE", "COMPLETED", "EXPIRED", "voided"] {
        assert!(row.contains(part), "{part}: {shown:?}");
    }
    let json = ["audit", "list", "k", "-o", "json"];
    let found = server.run(&json).await.expect(0).json();
    let entries = found["entries"].as_array().expect("a list");
    assert_eq!(entries.len(), 1, "{found}");
    assert_eq!(entries[0]["action"], "AUDIT_ACTION_EXPIRE");
    assert_eq!(entries[0]["reason"], "voided");
}

#[tokio::test]
async fn a_doctor_finds_a_healthy_server_healthy() {
    let server = server().await;
    let url = server.database_url();
    let doctor = server.run(&["doctor", "--database-url", &url]).await;
    doctor.expect(0);
    for name in [
        "store", "schema", "settings", "writable", "clock", "server", "ready", "token",
    ] {
        let line = doctor.stdout.lines().find(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some("OK") && words.next() == Some(name)
        });
        assert!(line.is_some(), "{name}: {doctor:?}");
    }
    assert!(doctor.stdout.contains("synchronous=FULL"), "{doctor:?}");
}

#[tokio::test]
async fn a_doctor_says_what_to_do() {
    let server = Server::prepare(PROGRAM, &[]);
    let doctor = ["doctor", "--database-url", "sqlite://none.db", "-o", "json"];
    let found = server.run(&doctor).await.expect(1).json();
    let checks = found["checks"].as_array().expect("a list");
    assert!(checks.iter().all(|check| check["ok"] == false), "{found}");
    assert!(checks.iter().all(|check| check["advice"] != ""), "{found}");
    assert!(
        !server.folder().join("none.db").exists(),
        "a doctor makes nothing"
    );

    let away = [
        "doctor",
        "--database-url",
        "postgres://u:secret@127.0.0.1:1/d",
    ];
    let away = server.run(&away).await;
    let shown = format!("{}{}", away.expect(1).stdout, away.stderr);
    assert!(
        shown.contains("PROBLEM") && !shown.contains("secret"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_token_comes_from_the_environment_or_a_file_and_is_never_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let tokens = folder.path().join("tokens.toml");
    let admin = "correct-horse-battery-staple-0123456789";
    let secret = folder.path().join("secret");
    std::fs::write(&secret, admin).expect("it is written");
    let text = format!(
        "[[credentials]]\nname = \"ops\"\nfile = \"{}\"\nnamespace = \"*\"\nenvironment = \"*\"\n\
         role = \"admin\"\n",
        secret.display()
    );
    std::fs::write(&tokens, text).expect("it is written");
    let tokens = tokens.to_string_lossy().into_owned();
    let server = Server::start_with(PROGRAM, &[("ONCEGATE_CREDENTIALS_FILE", &tokens)]).await;

    let list = ["namespace", "list"];
    let without = server.run(&list).await;
    assert!(
        without.expect(107).stderr.contains("UNAUTHENTICATED"),
        "{without:?}"
    );
    ended(server.command(&list).env("ONCEGATE_TOKEN", admin))
        .await
        .expect(0);
    let wrong = ended(server.command(&list).env("ONCEGATE_TOKEN", "wr\u{1}ong")).await;
    assert!(!wrong.expect(2).stderr.contains("ong"), "{wrong:?}");

    std::fs::write(server.folder().join("token"), format!("{admin}\n")).expect("it is written");
    let by_file = ["namespace", "list", "--token-file", "token"];
    server.run(&by_file).await.expect(0);
    std::fs::write(server.folder().join("token"), "\n").expect("it is written");
    server.run(&by_file).await.expect(2);
}

#[tokio::test]
async fn the_same_parts_make_the_same_key() {
    let key = |parts: &'static [&'static str]| async move {
        let mut command = bare(PROGRAM.as_ref());
        ended(command.args(["key", "derive"]).args(parts)).await
    };
    let one = key(&["ab", "c"]).await;
    assert_eq!(one.expect(0).stdout, key(&["ab", "c"]).await.stdout);
    assert_ne!(one.stdout, key(&["a", "bc"]).await.stdout);
    assert!(one.stdout.starts_with("ogk1_") && one.stdout.ends_with('\n'));
    key(&["order", ""]).await.expect(2);
    key(&[]).await.expect(2);
}

#[tokio::test]
async fn help_and_completions_need_no_server() {
    for (arguments, part) in [
        (&["--help"][..], "oncegate serve"),
        (&["run", "--help"], "--repeatable"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
        (&["completions", "bash"], "_oncegate"),
        (&["completions", "zsh"], "#compdef oncegate"),
        (&["completions", "fish"], "complete -c oncegate"),
    ] {
        let shown = ended(bare(PROGRAM.as_ref()).args(arguments)).await;
        assert!(
            shown.expect(0).stdout.contains(part),
            "{arguments:?}: {shown:?}"
        );
        assert_eq!(shown.stderr, "");
    }
    ended(bare(PROGRAM.as_ref()).arg("nonsense"))
        .await
        .expect(2);
    ended(&mut bare(PROGRAM.as_ref())).await.expect(2);
}
