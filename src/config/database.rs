//! Which store a URL names.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A store's address.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DatabaseUrl {
    /// One file.
    Sqlite(PathBuf),
    /// A server; the whole URL, which may hold a password.
    Postgres(String),
    /// This process, until it ends.
    Memory,
}

impl DatabaseUrl {
    /// Whether the store is part of this process.
    pub const fn is_embedded(&self) -> bool {
        match self {
            Self::Sqlite(_) | Self::Memory => true,
            Self::Postgres(_) => false,
        }
    }
}

impl TryFrom<String> for DatabaseUrl {
    type Error = String;

    /// The URL is never part of the error: it may hold a password.
    fn try_from(url: String) -> Result<Self, String> {
        if let Some(path) = url.strip_prefix("sqlite://") {
            if path.is_empty() {
                return Err("sqlite:// must be followed by a path".to_owned());
            }
            return Ok(Self::Sqlite(path.into()));
        }
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Ok(Self::Postgres(url));
        }
        if url == "memory://" {
            return Ok(Self::Memory);
        }
        Err("must be sqlite://PATH, postgres://… or memory://".to_owned())
    }
}

/// Without the password.
impl From<DatabaseUrl> for String {
    fn from(url: DatabaseUrl) -> Self {
        url.to_string()
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(out, "sqlite://{}", path.display()),
            Self::Postgres(url) => out.write_str(&without_password(url)),
            Self::Memory => out.write_str("memory://"),
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// Leaves out what may be secret: the password before the last `@`, and the one among the parameters.
pub(super) fn without_password(url: &str) -> String {
    let (address, parameters) = url
        .split_once('?')
        .map_or((url, None), |(a, p)| (a, Some(p)));
    let (scheme, rest) = address.split_once("://").unwrap_or(("postgres", address));
    let shown = match rest.rsplit_once('@') {
        Some((user, host)) => {
            let name = user.split_once(':').map_or(user, |(name, _)| name);
            let hidden = if user.contains(':') { ":hidden" } else { "" };
            format!("{scheme}://{name}{hidden}@{host}")
        }
        None => format!("{scheme}://{rest}"),
    };
    let named = parameters.map(|parameters| {
        let names = parameters.split('&').map(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let shown = if name == "password" { "hidden" } else { value };
            format!("{name}={shown}")
        });
        names.collect::<Vec<_>>().join("&")
    });
    named.map_or(shown.clone(), |named| format!("{shown}?{named}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (url, want) in [
            (
                "postgres://u:secret@h:5432/d",
                "postgres://u:hidden@h:5432/d",
            ),
            (
                "postgres://u:se@cret@h/d?sslmode=require",
                "postgres://u:hidden@h/d?sslmode=require",
            ),
            (
                "postgres://u@h/d?password=secret&x=1",
                "postgres://u@h/d?password=hidden&x=1",
            ),
            ("postgresql://h/d", "postgresql://h/d"),
        ] {
            let url = DatabaseUrl::try_from(url.to_owned()).expect("a URL");
            assert_eq!(url.to_string(), want);
            assert_eq!(format!("{url:?}"), want);
        }
    }

    #[test]
    fn another_scheme_is_refused_without_repeating_it() {
        for url in [
            "mysql://u:secret@h/d",
            "",
            "sqlite://",
            "/path",
            "memory://x",
        ] {
            let error = DatabaseUrl::try_from(url.to_owned()).expect_err("refused");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
