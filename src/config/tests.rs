//! What the configuration takes, and what it says of the rest.

use std::io::Write;
use std::time::Duration;

use clap::{Arg, Args};
use tempfile::NamedTempFile;

use super::read::{DEFAULTS, VARIABLES};
use super::{Config, Problems, read};
use crate::cmd::serve::ServeArgs;

const OPERATIONS: &str = include_str!("../../docs/operations.md");

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    file
}

fn env(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(own).collect()
}

fn with(text: &str, pairs: &[(&str, &str)]) -> Result<Config, Problems> {
    read(Some(file(text).path()), env(pairs), Vec::new())
}

fn problems(text: &str, pairs: &[(&str, &str)]) -> Vec<String> {
    with(text, pairs).expect_err("refused").0
}

#[test]
fn the_defaults_are_valid_and_every_key_has_a_variable_that_its_comment_names() {
    read(None, Vec::new(), Vec::new()).expect("the defaults");
    let defaults: toml::Table = DEFAULTS.parse().expect("TOML");
    let mut keys = Vec::new();
    for (section, values) in &defaults {
        let values = values.as_table().expect("a section");
        keys.extend(values.keys().map(|key| format!("{section}.{key}")));
    }
    for key in &keys {
        let variable = VARIABLES.iter().find(|(_, of)| of == key);
        let (variable, _) = variable.unwrap_or_else(|| panic!("{key} has no variable"));
        assert!(DEFAULTS.contains(&format!("# {variable}")), "{variable}");
    }
    let of_keys = VARIABLES.iter().filter(|(_, key)| !key.is_empty());
    assert_eq!(of_keys.count(), keys.len());
}

/// The cells of a page's table that begins with this one.
fn row<'a>(page: &'a str, first: &str) -> Option<Vec<&'a str>> {
    let start = format!("| {first} |");
    let line = page.lines().find(|line| line.starts_with(&start))?;
    let cells = line.trim_matches('|').split('|').map(str::trim);
    Some(cells.collect())
}

#[test]
fn every_setting_is_in_the_operators_table_with_its_variable_flag_default_and_range() {
    let defaults: toml::Table = DEFAULTS.parse().expect("TOML");
    let mut flags = Vec::new();
    for (variable, key) in VARIABLES.iter().filter(|(_, key)| !key.is_empty()) {
        let (section, name) = key.split_once('.').expect("a section");
        let value = &defaults[section][name];
        let default = match value.as_str() {
            Some("") => "none".to_owned(),
            Some(text) => format!("`{text}`"),
            None => format!("`{value}`"),
        };
        let cells = row(OPERATIONS, &format!("`{key}`"));
        let cells = cells.unwrap_or_else(|| panic!("docs/operations.md lacks {key}"));
        let [_, told, flag, told_default, range] = cells[..] else {
            panic!("{cells:?}");
        };
        assert_eq!((told, told_default), (&*format!("`{variable}`"), &*default));
        assert!(!range.is_empty(), "{key} has no range");
        flags.extend(flag.split('`').filter_map(|flag| flag.strip_prefix("--")));
    }
    let serve = ServeArgs::augment_args(clap::Command::new("serve"));
    let mut known: Vec<&str> = serve.get_arguments().filter_map(Arg::get_long).collect();
    known.retain(|flag| !["config", "print-config"].contains(flag));
    flags.sort_unstable();
    known.sort_unstable();
    assert_eq!(flags, known);
}

#[test]
fn the_operators_example_is_a_configuration_that_can_be_used() {
    let (_, example) = OPERATIONS.split_once("```toml\n").expect("an example");
    let (example, _) = example.split_once("```").expect("its end");
    let own = file("0123456789abcdef");
    let path = own.path().to_str().expect("a path");
    let example = example.replace("/run/secrets/terminal-agent", path);
    let config = with(&example, &[]).expect("valid");
    assert_eq!(config.credentials.len(), 2);
}

#[test]
fn a_file_overrides_defaults_a_variable_the_file_and_a_flag_both() {
    let text = "[sweep]\nbatch = 7\nevery = '1s'\n[drain]\ntimeout = '2s'";
    let config = file(text);
    let variables = env(&[
        ("ONCEGATE_SWEEP_BATCH", "8"),
        ("ONCEGATE_DRAIN_TIMEOUT", "3s"),
    ]);
    let flags = vec![("sweep.batch", 9.into())];
    let config = read(Some(config.path()), variables, flags).expect("valid");
    assert_eq!(config.sweep.batch, 9);
    assert_eq!(config.drain.timeout.0, Duration::from_secs(3));
    assert_eq!(config.sweep.every.0, Duration::from_secs(1));
    assert_eq!(config.drain.delay.0, Duration::ZERO);
}

#[test]
fn all_problems_are_listed_at_once_each_by_its_name() {
    let text = "[sweep]\nbatch = 0\nbath = 1\n[swep]\nevery = '1s'\n[drain]\ntimeout = 5";
    let pairs = [
        ("ONCEGATE_DEADLINE_MAX", "soon"),
        ("ONCEGATE_DEADLIN", "1s"),
        ("ONCEGATE_REFLECTION", "perhaps"),
        ("ONCEGATE_DATABASE_URL", "mysql://u:secret@h/d"),
    ];
    let told = problems(text, &pairs);
    for name in [
        "sweep.bath",
        "swep.every",
        "drain.timeout",
        "deadline.max",
        "ONCEGATE_DEADLIN:",
        "listen.reflection",
        "database.url",
        "sweep.batch",
    ] {
        assert!(
            told.iter().any(|problem| problem.starts_with(name)),
            "{name}: {told:#?}"
        );
    }
    assert!(!told.concat().contains("secret"), "{told:#?}");
}

#[test]
fn a_limit_that_would_let_nobody_in_is_refused() {
    let text = "[limits]\ncalls_max = 0\nwaiters_max = 0\nconnections_max = 0\nstreams_max = 1";
    let told = problems(text, &[]);
    for want in [
        "limits.calls_max: must be 1 or more",
        "limits.waiters_max: must be 1 or more",
        "limits.connections_max: must be 1 or more",
        "limits.streams_max: must be 2 or more",
    ] {
        assert!(told.iter().any(|problem| problem == want), "{told:#?}");
    }
    assert_eq!(told.len(), 4, "{told:#?}");
    let text = "[limits]\ncalls_max = 1\nwaiters_max = 1\nconnections_max = 1\nstreams_max = 2";
    with(text, &[]).expect("the least");
}

#[test]
fn what_is_meant_for_clients_and_tests_says_nothing_to_a_server() {
    let pairs = [
        ("ONCEGATE_ENDPOINT", "x"),
        ("ONCEGATE_TOKEN", "x"),
        ("ONCEGATE_TEST_POSTGRES_18", "x"),
        ("ONCEGATE_TOOLS", "x"),
        ("ONCEGATE_CONFIG", "x"),
        ("PATH", "x"),
    ];
    with("", &pairs).expect("ignored");
}

#[test]
fn namespaces_are_created_by_themselves_with_an_embedded_store_alone() {
    let postgres = ("ONCEGATE_DATABASE_URL", "postgres://h/d");
    let auto = |value| ("ONCEGATE_NAMESPACES_AUTO_CREATE", value);
    for (pairs, want) in [
        (vec![], true),
        (vec![postgres], false),
        (vec![postgres, auto("true")], true),
        (vec![auto("false")], false),
        (vec![postgres, auto("embedded")], false),
    ] {
        assert_eq!(
            with("", &pairs).expect("valid").auto_creates(),
            want,
            "{pairs:?}"
        );
    }
    let config = with("[namespaces]\nauto_create = false", &[]).expect("valid");
    assert!(!config.auto_creates());
}

const CREDENTIAL: &str = "[[credentials]]\nname = 'agent'\nnamespace = 'terminal'\nenvironment = '*'\n\
                     role = 'worker'\nsha256 = '";

fn credential() -> String {
    format!("{CREDENTIAL}{}'\n", "ab".repeat(32))
}

#[test]
fn without_credentials_it_listens_on_loopback_alone_unless_told_to_be_insecure() {
    let open = ("ONCEGATE_LISTEN", "0.0.0.0:1");
    let told = problems("", &[open]);
    assert!(
        told[0].contains("--insecure") && told[0].contains("credentials"),
        "{told:?}"
    );
    with("", &[open, ("ONCEGATE_INSECURE", "true")]).expect("told to");
    // A certificate says who the server is, not who calls.
    let certificate = [
        ("ONCEGATE_TLS_CERT_FILE", "cert"),
        ("ONCEGATE_TLS_KEY_FILE", "key"),
    ];
    with("", &certificate).expect("on loopback");
    assert_eq!(problems("", &[&certificate[..], &[open]].concat()), told);
    with(&credential(), &[open]).expect("guarded");
    with("", &[("ONCEGATE_LISTEN", "[::1]:1")]).expect("loopback");
}

#[test]
fn a_credential_comes_from_the_file_or_from_one_of_its_own() {
    let own = file(&credential());
    let path = own.path().to_str().expect("a path");
    let config = with("", &[("ONCEGATE_CREDENTIALS_FILE", path)]).expect("valid");
    let (digest, caller) = config.credentials[0].resolve().expect("valid");
    assert_eq!(digest, [0xab; 32]);
    assert_eq!(caller.namespace.as_deref(), Some("terminal"));
    assert_eq!((caller.environment, caller.name.as_str()), (None, "agent"));
    let told = problems("", &[("ONCEGATE_CREDENTIALS_FILE", "/nothing")]);
    assert!(told[0].starts_with("auth.credentials_file"), "{told:?}");
}

#[test]
fn a_bad_credential_is_named_by_its_place_without_what_it_holds() {
    let bad = "[[credentials]]\nname = ''\nnamespace = 'A'\nenvironment = '*'\nrole = 'king'\n\
               sha256 = 'secret'\n";
    let told = problems(bad, &[]);
    for name in ["name", "namespace", "role", "sha256"] {
        let start = format!("credentials[0].{name}");
        assert!(
            told.iter().any(|problem| problem.starts_with(&start)),
            "{told:#?}"
        );
    }
    assert!(!told.concat().contains("secret"), "{told:#?}");
}

#[test]
fn the_shown_configuration_has_no_secrets_and_can_be_read_again() {
    let secret = ("ONCEGATE_DATABASE_URL", "postgres://u:secret@h/d");
    let shown = with(&credential(), &[secret])
        .expect("valid")
        .shown()
        .expect("TOML");
    assert!(
        !shown.contains("secret") && !shown.contains("abab"),
        "{shown}"
    );
    assert!(
        shown.contains("postgres://u:hidden@h/d") && shown.contains("agent"),
        "{shown}"
    );
    let shown = with("", &[]).expect("valid").shown().expect("TOML");
    let again = with(&shown, &[]).expect("its own text");
    assert_eq!(again, with("", &[]).expect("valid"));
}
