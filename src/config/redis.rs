//! Which Redis a URL names, if any.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::database::without_password;

/// A Redis, or none.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct RedisUrl(String);

impl RedisUrl {
    /// The URL as it was given, with its password; `None`: there is none.
    pub fn secret(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(&self.0)
    }
}

impl From<String> for RedisUrl {
    fn from(url: String) -> Self {
        Self(url)
    }
}

/// Without the password.
impl From<RedisUrl> for String {
    fn from(url: RedisUrl) -> Self {
        url.to_string()
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        out.write_str(&without_password(&self.0))
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (url, want) in [
            ("", ""),
            ("redis://:secret@h:6379/1", "redis://:hidden@h:6379/1"),
            (
                "redis+sentinel://u:secret@a:26379,b:26379/main",
                "redis+sentinel://u:hidden@a:26379,b:26379/main",
            ),
        ] {
            assert_eq!(RedisUrl::from(url.to_owned()).to_string(), want);
        }
    }
}
