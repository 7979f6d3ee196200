//! Reads the configuration from its four places and checks it as a whole: all problems at once.

use std::fmt;
use std::path::{Path, PathBuf};

use figment::providers::{Format, Serialized, Toml};
use figment::value::Value;
use figment::{Figment, Profile};

use super::auth::{CredentialsFile, ListedCredential};
use super::sections::Config;

/// Every key with its default, as a file that can be read.
pub const DEFAULTS: &str = include_str!("oncegate.default.toml");

/// The environment variable of each key.
pub const VARIABLES: [(&str, &str); 31] = [
    ("ONCEGATE_DATABASE_URL", "database.url"),
    ("ONCEGATE_LISTEN", "listen.grpc"),
    ("ONCEGATE_HTTP_LISTEN", "listen.http"),
    ("ONCEGATE_REFLECTION", "listen.reflection"),
    ("ONCEGATE_TLS_CERT_FILE", "tls.cert_file"),
    ("ONCEGATE_TLS_KEY_FILE", "tls.key_file"),
    ("ONCEGATE_NAMESPACES_AUTO_CREATE", "namespaces.auto_create"),
    ("ONCEGATE_INSECURE", "auth.insecure"),
    ("ONCEGATE_CREDENTIALS_FILE", "auth.credentials_file"),
    ("ONCEGATE_LOG", "log.filter"),
    ("ONCEGATE_LOG_FORMAT", "log.format"),
    ("ONCEGATE_DEADLINE_DEFAULT", "deadline.default"),
    ("ONCEGATE_DEADLINE_MAX", "deadline.max"),
    ("ONCEGATE_DATABASE_CONNECTIONS", "database.connections"),
    ("ONCEGATE_CACHE_BYTES_MAX", "cache.bytes_max"),
    ("ONCEGATE_REDIS_URL", "cache.redis_url"),
    ("ONCEGATE_REDIS_CA_FILE", "cache.redis_ca_file"),
    ("ONCEGATE_CALLS_MAX", "limits.calls_max"),
    ("ONCEGATE_WAITERS_MAX", "limits.waiters_max"),
    ("ONCEGATE_CONNECTIONS_MAX", "limits.connections_max"),
    ("ONCEGATE_STREAMS_MAX", "limits.streams_max"),
    ("ONCEGATE_CONNECTION_AGE_MAX", "connections.age_max"),
    ("ONCEGATE_CONNECTION_AGE_GRACE", "connections.age_grace"),
    ("ONCEGATE_HEADER_TIMEOUT", "connections.header_timeout"),
    ("ONCEGATE_KEEPALIVE_EVERY", "connections.keepalive_every"),
    (
        "ONCEGATE_KEEPALIVE_TIMEOUT",
        "connections.keepalive_timeout",
    ),
    ("ONCEGATE_SWEEP_EVERY", "sweep.every"),
    ("ONCEGATE_SWEEP_BATCH", "sweep.batch"),
    ("ONCEGATE_DRAIN_DELAY", "drain.delay"),
    ("ONCEGATE_DRAIN_TIMEOUT", "drain.timeout"),
    ("ONCEGATE_CONFIG", ""),
];

/// Variables of clients and of the tests, which say nothing to a server.
const OTHERS: [&str; 11] = [
    "ONCEGATE_ENDPOINT",
    "ONCEGATE_TOKEN",
    "ONCEGATE_TOKEN_FILE",
    "ONCEGATE_CA_FILE",
    "ONCEGATE_NAMESPACE",
    "ONCEGATE_ENVIRONMENT",
    "ONCEGATE_KEY",
    "ONCEGATE_FENCE",
    "ONCEGATE_ATTEMPT",
    "ONCEGATE_DOWNSTREAM_KEY",
    "ONCEGATE_TOOLS",
];
const OF_TESTS: &str = "ONCEGATE_TEST_";

/// What flags set, by key.
pub type Flags = Vec<(&'static str, Value)>;

/// Everything that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<String>);

impl fmt::Display for Problems {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the configuration cannot be used:")?;
        self.0
            .iter()
            .try_for_each(|problem| write!(out, "\n  - {problem}"))
    }
}

/// Reads defaults < file < environment < flags.
///
/// # Errors
///
/// All problems at once, each by its key.
pub fn read(
    file: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
    flags: Flags,
) -> Result<Config, Problems> {
    let mut problems = Vec::new();
    let defaults = Figment::from(Toml::string(DEFAULTS));
    let mut layered = defaults.clone();
    if let Some(file) = file {
        let own = Figment::from(Toml::file_exact(file));
        problems.extend(unknown_keys(&defaults, &own, file));
        layered = layered.merge(own);
    }
    for (name, text) in environment {
        match key_of(&name) {
            Some("") => {}
            Some(key) => layered = layered.merge(set(key, typed(&defaults, key, text))),
            None if is_of_others(&name) => {}
            None => problems.push(format!("{name}: there is no such setting")),
        }
    }
    for (key, value) in flags {
        layered = layered.merge(set(key, value));
    }
    let mut config = extract(layered, &defaults, &mut problems)?;
    add_credentials_file(&mut config, &mut problems);
    for (at, listed) in config.credentials.iter().enumerate() {
        let of = |problem| format!("credentials[{at}].{problem}");
        problems.extend(listed.resolve().err().into_iter().flatten().map(of));
    }
    problems.extend(config.problems());
    if problems.is_empty() {
        Ok(config)
    } else {
        Err(Problems(problems))
    }
}

fn key_of(variable: &str) -> Option<&'static str> {
    VARIABLES
        .iter()
        .find(|(name, _)| *name == variable)
        .map(|(_, key)| *key)
}

fn is_of_others(name: &str) -> bool {
    !name.starts_with("ONCEGATE_") || OTHERS.contains(&name) || name.starts_with(OF_TESTS)
}

fn set(key: &'static str, value: Value) -> Serialized<Value> {
    Serialized::from(value, Profile::Default).key(key)
}

/// A variable's text as what its key holds.
fn typed(defaults: &Figment, key: &str, text: String) -> Value {
    match defaults.find_value(key) {
        Ok(Value::Bool(..) | Value::Num(..)) => match text.parse::<Value>() {
            Ok(value) => value,
            Err(never) => match never {},
        },
        Ok(
            Value::String(..)
            | Value::Char(..)
            | Value::Empty(..)
            | Value::Dict(..)
            | Value::Array(..),
        )
        | Err(_) => Value::from(text),
    }
}

/// Takes the values over; one that cannot be read is a problem, and its default stands in for it so
/// that the next one is found too.
fn extract(
    mut layered: Figment,
    defaults: &Figment,
    problems: &mut Vec<String>,
) -> Result<Config, Problems> {
    loop {
        let error = match layered.extract::<Config>() {
            Ok(config) => return Ok(config),
            Err(error) => error,
        };
        let mut replaced = false;
        for error in error {
            let key = error.path.join(".");
            problems.push(format!("{key}: {}", error.kind));
            let known = VARIABLES
                .iter()
                .find(|(_, known)| !known.is_empty() && *known == key);
            if let (Some((_, key)), Ok(default)) = (known, defaults.find_value(&key)) {
                layered = layered.merge(set(key, default));
                replaced = true;
            }
        }
        if !replaced {
            return Err(Problems(std::mem::take(problems)));
        }
    }
}

/// Keys of a file that no default has.
fn unknown_keys(defaults: &Figment, own: &Figment, file: &Path) -> Vec<String> {
    let own: Value = match own.extract() {
        Ok(own) => own,
        Err(error) => return vec![format!("{}: {error}", file.display())],
    };
    let sections = own.into_dict().unwrap_or_default();
    let mut unknown = Vec::new();
    for (section, keys) in sections {
        if section == "credentials" {
            continue;
        }
        match keys {
            Value::Dict(_, keys) => unknown.extend(
                keys.into_keys()
                    .map(|key| format!("{section}.{key}"))
                    .filter(|key| defaults.find_value(key).is_err()),
            ),
            Value::String(..)
            | Value::Char(..)
            | Value::Bool(..)
            | Value::Num(..)
            | Value::Empty(..)
            | Value::Array(..) => unknown.push(section),
        }
    }
    unknown
        .into_iter()
        .map(|key| format!("{key}: there is no such setting ({})", file.display()))
        .collect()
}

fn add_credentials_file(config: &mut Config, problems: &mut Vec<String>) {
    let file: PathBuf = config.auth.credentials_file.clone();
    if file.as_os_str().is_empty() {
        return;
    }
    let read = std::fs::read_to_string(&file).map_err(|error| error.to_string());
    let parsed: Result<Vec<ListedCredential>, String> = read.and_then(|text| {
        let file: Result<CredentialsFile, _> = toml::from_str(&text);
        // The message alone: toml's own text repeats the line, which may be secret.
        file.map(|file| file.credentials)
            .map_err(|error| error.message().to_owned())
    });
    match parsed {
        Ok(credentials) => config.credentials.extend(credentials),
        Err(error) => problems.push(format!(
            "auth.credentials_file: {}: {error}",
            file.display()
        )),
    }
}
