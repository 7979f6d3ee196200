//! What the session is told at its start, and whether that is what it got. A setting that loses
//! confirmed outcomes, or that was dropped on the way, makes the store unusable instead of wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use super::error::{Failure, POOLER};
use crate::domain::time::Timestamp;
use crate::port::store::StoreError;

/// The oldest server that the tests run on.
const SERVER_MAJOR_MIN: u32 = 15;
const ISOLATION: &str = "read committed";

/// The limits that a session is asked to keep.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) statement_timeout: Duration,
    pub(super) lock_timeout: Duration,
}

impl Asked {
    /// The startup options. They outrank what is set for the server, the database or the role.
    pub(super) fn options(&self) -> [(&'static str, String); 9] {
        [
            ("default_transaction_isolation", ISOLATION.to_owned()),
            ("statement_timeout", millis(self.statement_timeout)),
            ("lock_timeout", millis(self.lock_timeout)),
            (
                "idle_in_transaction_session_timeout",
                millis(self.statement_timeout),
            ),
            // Every statement finds its rows by an index. A plan that was made while the table was
            // small must not scan it when it is large.
            ("enable_seqscan", "off".to_owned()),
            ("enable_hashjoin", "off".to_owned()),
            ("enable_mergejoin", "off".to_owned()),
            ("jit", "off".to_owned()),
            // Nor is there a better plan for some values than for others.
            ("plan_cache_mode", "force_generic_plan".to_owned()),
        ]
    }
}

/// Whole milliseconds, at least one: zero would mean no limit at all.
fn millis(span: Duration) -> String {
    span.as_millis().max(1).to_string()
}

/// Refuses a server that is too old. The number that counts is the 15 of `15.8 (Debian …)` and the
/// 18 of `18beta1`.
pub(super) fn judge_version(version: &str) -> Result<(), StoreError> {
    let digits = version.split(|next: char| !next.is_ascii_digit()).next();
    let major: Option<u32> = digits.and_then(|digits| digits.parse().ok());
    if major.is_some_and(|major| major >= SERVER_MAJOR_MIN) {
        return Ok(());
    }
    Err(StoreError::Unusable(format!(
        "the server is Postgres {version}, and {SERVER_MAJOR_MIN} or newer is needed: upgrade it"
    )))
}

/// What the session really got, by name.
#[derive(Debug)]
pub(super) struct Settings(BTreeMap<String, String>);

impl Settings {
    pub(super) fn new(settings: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(settings.into_iter().collect())
    }

    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// The server's version.
    pub(super) fn server_version(&self) -> String {
        self.get("server_version").to_owned()
    }

    /// The database's clock.
    pub(super) fn now(&self) -> Result<Timestamp, StoreError> {
        let now = self.get("now").parse();
        now.map(Timestamp::from_micros).map_err(|_error| {
            StoreError::Unusable("the database does not tell its time".to_owned())
        })
    }

    /// All of them that are settings.
    pub(super) fn listed(self) -> Vec<(String, String)> {
        let told_elsewhere = |name: &str| matches!(name, "now" | "server_version");
        self.0
            .into_iter()
            .filter(|(name, _)| !told_elsewhere(name))
            .collect()
    }

    /// Whether the session may be used.
    pub(super) fn judge(&self, asked: &Asked) -> Result<(), Failure> {
        judge_version(self.get("server_version"))?;
        if self.get("pg_is_in_recovery") != "false" {
            return Err(Failure::unreachable("the server is a standby"));
        }
        if self.get("transaction_read_only") != "off" {
            return Err(Failure::unreachable("the server is read-only"));
        }
        let unusable = |text: String| Err(StoreError::Unusable(text).into());
        let passed_on = self.get("transaction_isolation") == ISOLATION
            && self.get("default_transaction_isolation") == ISOLATION
            && self.get("statement_timeout") == millis(asked.statement_timeout)
            && self.get("lock_timeout") == millis(asked.lock_timeout);
        if !passed_on {
            return unusable(POOLER.to_owned());
        }
        for name in ["fsync", "full_page_writes", "synchronous_commit"] {
            if self.get(name) == "off" {
                return unusable(format!(
                    "{name} is off, so a crash can lose confirmed outcomes: run `ALTER SYSTEM SET \
                     {name} = on; SELECT pg_reload_conf();` and, where it is set for the database \
                     or the role, `ALTER DATABASE … RESET {name}` or `ALTER ROLE … RESET {name}`"
                ));
            }
        }
        if self.get("server_encoding") != "UTF8" {
            return unusable(
                "the database's encoding is not UTF8: create one with `CREATE DATABASE … ENCODING \
                 'UTF8' TEMPLATE template0`"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Asked {
        Asked {
            statement_timeout: Duration::from_secs(5),
            lock_timeout: Duration::from_millis(250),
        }
    }

    fn judged_with(name: &str, setting: &str) -> Result<(), StoreError> {
        let good = [
            ("server_version", "15.8 (Debian 15.8-0+deb12u1)"),
            ("pg_is_in_recovery", "false"),
            ("transaction_read_only", "off"),
            ("transaction_isolation", "read committed"),
            ("default_transaction_isolation", "read committed"),
            ("statement_timeout", "5000"),
            ("lock_timeout", "250"),
            ("fsync", "on"),
            ("full_page_writes", "on"),
            ("synchronous_commit", "on"),
            ("server_encoding", "UTF8"),
        ];
        let all = good.into_iter().chain([(name, setting)]);
        let settings = Settings::new(all.map(|(name, value)| (name.to_owned(), value.to_owned())));
        settings
            .judge(&asked())
            .map_err(|failure| failure.told(false))
    }

    #[test]
    fn a_session_that_got_what_was_asked_is_used() {
        judged_with("fsync", "on").unwrap();
    }

    #[test]
    fn a_server_is_used_from_version_15_on() {
        for version in ["15.0", "18beta1", "18.3", "100.1"] {
            judged_with("server_version", version).unwrap();
        }
        for version in ["14.22 (Debian 14.22-1)", "9.6.24", ""] {
            let Err(StoreError::Unusable(text)) = judged_with("server_version", version) else {
                panic!("{version} was accepted");
            };
            assert!(text.contains("15 or newer"), "{text}");
            assert!(text.contains(version), "{text}");
        }
    }

    #[test]
    fn a_setting_that_loses_outcomes_is_named_with_the_command_that_mends_it() {
        for name in ["fsync", "full_page_writes", "synchronous_commit"] {
            let Err(StoreError::Unusable(text)) = judged_with(name, "off") else {
                panic!("{name} = off was accepted");
            };
            assert!(
                text.contains(&format!("ALTER SYSTEM SET {name} = on")),
                "{text}"
            );
        }
    }

    #[test]
    fn settings_that_a_pooler_dropped_make_the_store_unusable() {
        for (name, setting) in [
            ("default_transaction_isolation", "serializable"),
            ("transaction_isolation", "repeatable read"),
            ("statement_timeout", "0"),
            ("lock_timeout", "0"),
        ] {
            let Err(StoreError::Unusable(text)) = judged_with(name, setting) else {
                panic!("{name} = {setting} was accepted");
            };
            assert!(text.contains("pooler"), "{text}");
        }
    }

    #[test]
    fn a_server_that_cannot_be_written_to_is_unavailable() {
        for (name, setting) in [
            ("pg_is_in_recovery", "true"),
            ("transaction_read_only", "on"),
        ] {
            let judged = judged_with(name, setting);
            assert!(
                matches!(judged, Err(StoreError::Unavailable(_))),
                "{name}: {judged:?}"
            );
        }
    }

    #[test]
    fn an_encoding_that_cannot_hold_every_key_makes_the_store_unusable() {
        let judged = judged_with("server_encoding", "LATIN1");
        assert!(matches!(judged, Err(StoreError::Unusable(_))), "{judged:?}");
    }
}
