//! Logs: text on a terminal, JSON otherwise, always on standard error. Never payloads, tokens, keys
//! or passwords.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The form of the log's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// One line of text for each event.
    Text,
    /// One JSON object for each event.
    Json,
}

/// What is wrong with a filter; `None`: nothing.
pub fn problem(filter: &str) -> Option<String> {
    EnvFilter::try_new(filter)
        .err()
        .map(|error| error.to_string())
}

/// Starts logging for this process. A second call changes nothing.
pub fn start(format: LogFormat, filter: &str) {
    // What drivers and migrators tell of themselves is nothing that a person must act on.
    let filter = EnvFilter::try_new(format!("{filter},sqlx=warn,rusqlite_migration=warn"))
        .unwrap_or_else(|_unreadable| EnvFilter::new("info"));
    let json = match format {
        LogFormat::Auto => !std::io::stderr().is_terminal(),
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false);
    let registry = tracing_subscriber::registry().with(filter);
    let started = if json {
        registry.with(layer.json().flatten_event(true)).try_init()
    } else {
        registry
            .with(layer.with_ansi(std::io::stderr().is_terminal()))
            .try_init()
    };
    if started.is_err() {
        tracing::debug!("logging was started before");
    }
}
