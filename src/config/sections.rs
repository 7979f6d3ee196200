//! One struct for each section of the configuration. What a key means and its range stand in
//! `oncegate.default.toml`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::auth::{ListedCredential, ShownCredential};
use super::database::DatabaseUrl;
use super::redis::RedisUrl;
use super::span::Span;
use crate::telemetry::logs::{self, LogFormat};

/// Everything that `serve` is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each field is the section of its name")]
pub struct Config {
    pub database: Database,
    pub cache: Cache,
    pub listen: Listen,
    pub tls: Tls,
    pub namespaces: Namespaces,
    pub auth: Auth,
    pub log: Log,
    pub deadline: Deadline,
    pub limits: Limits,
    pub connections: Connections,
    pub sweep: Sweep,
    pub drain: Drain,
    #[serde(default, skip_serializing)]
    pub credentials: Vec<ListedCredential>,
}

macro_rules! section {
    ($name:ident { $($field:ident: $type:ty),+ $(,)? }) => {
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[expect(missing_docs, reason = "oncegate.default.toml says what each key means")]
        pub struct $name { $(pub $field: $type),+ }
    };
}

section! { Database { url: DatabaseUrl, connections: u32 } }
section! { Cache { bytes_max: u64, redis_url: RedisUrl, redis_ca_file: PathBuf } }
section! { Listen { grpc: SocketAddr, http: SocketAddr, reflection: bool } }
section! { Tls { cert_file: PathBuf, key_file: PathBuf } }
section! { Namespaces { auto_create: AutoCreate } }
section! { Auth { insecure: bool, credentials_file: PathBuf } }
section! { Log { filter: String, format: LogFormat } }
section! { Deadline { default: Span, max: Span } }
section! { Limits { calls_max: usize, waiters_max: usize, connections_max: usize, streams_max: u32 } }
section! { Connections {
    age_max: Span,
    age_grace: Span,
    header_timeout: Span,
    keepalive_every: Span,
    keepalive_timeout: Span,
} }
section! { Sweep { every: Span, batch: u32 } }
section! { Drain { delay: Span, timeout: Span } }

/// Whether namespaces are created when they are first named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Switch", into = "Switch")]
pub enum AutoCreate {
    /// Only with a store inside this process.
    Embedded,
    /// Always.
    Yes,
    /// Never.
    No,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Switch {
    Bool(bool),
    Text(String),
}

impl TryFrom<Switch> for AutoCreate {
    type Error = String;

    fn try_from(switch: Switch) -> Result<Self, String> {
        match switch {
            Switch::Bool(true) => Ok(Self::Yes),
            Switch::Bool(false) => Ok(Self::No),
            Switch::Text(text) => match text.as_str() {
                "embedded" => Ok(Self::Embedded),
                "true" => Ok(Self::Yes),
                "false" => Ok(Self::No),
                _ => Err("must be true, false or \"embedded\"".to_owned()),
            },
        }
    }
}

impl From<AutoCreate> for Switch {
    fn from(auto_create: AutoCreate) -> Self {
        match auto_create {
            AutoCreate::Embedded => Self::Text("embedded".to_owned()),
            AutoCreate::Yes => Self::Bool(true),
            AutoCreate::No => Self::Bool(false),
        }
    }
}

impl Tls {
    /// Whether a certificate is named.
    pub fn is_on(&self) -> bool {
        !self.cert_file.as_os_str().is_empty()
    }
}

impl Config {
    /// Whether namespaces are created when they are first named, with this store.
    pub const fn auto_creates(&self) -> bool {
        match self.namespaces.auto_create {
            AutoCreate::Embedded => self.database.url.is_embedded(),
            AutoCreate::Yes => true,
            AutoCreate::No => false,
        }
    }

    /// Everything that is wrong with the values, each by its key.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (key, span) in [
            ("deadline.default", self.deadline.default),
            ("connections.age_max", self.connections.age_max),
            ("connections.age_grace", self.connections.age_grace),
            (
                "connections.header_timeout",
                self.connections.header_timeout,
            ),
            (
                "connections.keepalive_every",
                self.connections.keepalive_every,
            ),
            (
                "connections.keepalive_timeout",
                self.connections.keepalive_timeout,
            ),
            ("sweep.every", self.sweep.every),
            ("drain.timeout", self.drain.timeout),
        ] {
            if span.0.is_zero() {
                problems.push(format!("{key}: must be above zero"));
            }
        }
        let (least, most) = (Duration::from_secs(1), Duration::from_hours(1));
        if !(least..=most).contains(&self.deadline.max.0) {
            problems.push("deadline.max: must be 1s to 1h".to_owned());
        }
        if self.deadline.default > self.deadline.max {
            problems.push("deadline.default: must be at most deadline.max".to_owned());
        }
        for (key, none) in [
            ("limits.calls_max", self.limits.calls_max == 0),
            ("limits.waiters_max", self.limits.waiters_max == 0),
            ("limits.connections_max", self.limits.connections_max == 0),
        ] {
            if none {
                problems.push(format!("{key}: must be 1 or more"));
            }
        }
        if self.limits.streams_max < 2 {
            problems.push("limits.streams_max: must be 2 or more".to_owned());
        }
        let unreadable = logs::problem(&self.log.filter);
        problems.extend(unreadable.map(|problem| format!("log.filter: {problem}")));
        if !(1..=1_000).contains(&self.database.connections) {
            problems.push("database.connections: must be 1 to 1000".to_owned());
        }
        if !(1..=10_000).contains(&self.sweep.batch) {
            problems.push("sweep.batch: must be 1 to 10000".to_owned());
        }
        problems.extend(self.half_a_pair());
        problems.extend(self.open_doors());
        problems
    }

    /// A certificate is of no use without its key, nor the key without it.
    fn half_a_pair(&self) -> Option<String> {
        match (self.tls.is_on(), !self.tls.key_file.as_os_str().is_empty()) {
            (false, true) => Some("tls.cert_file: is missing beside tls.key_file".to_owned()),
            (true, false) => Some("tls.key_file: is missing beside tls.cert_file".to_owned()),
            (true, true) | (false, false) => None,
        }
    }

    /// Without credentials everybody may do everything: then nobody from outside may come in.
    fn open_doors(&self) -> Vec<String> {
        if !self.credentials.is_empty() || self.auth.insecure {
            return Vec::new();
        }
        let listens = [
            ("listen.grpc", self.listen.grpc),
            ("listen.http", self.listen.http),
        ];
        let open = listens.into_iter().filter(|(_, at)| !at.ip().is_loopback());
        open.map(|(key, at)| {
            format!(
                "{key}: {at} can be reached from outside, and no credentials are configured: \
                 list [[credentials]] in the file, listen on 127.0.0.1, or say --insecure if the network is \
                 closed by other means"
            )
        })
        .collect()
    }

    /// The configuration in force as TOML, without what is secret.
    ///
    /// # Errors
    ///
    /// It cannot be written as TOML; a defect.
    pub fn shown(&self) -> anyhow::Result<String> {
        #[derive(Serialize)]
        struct Shown<'a> {
            #[serde(flatten)]
            config: &'a Config,
            credentials: Vec<ShownCredential<'a>>,
        }
        let credentials = self.credentials.iter().map(ListedCredential::shown);
        Ok(toml::to_string(&Shown {
            config: self,
            credentials: credentials.collect(),
        })?)
    }
}
