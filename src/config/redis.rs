//! Which Redis a URL names, if any.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::database::without_password;
use crate::store::cached::Target;

/// A Redis, or none.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RedisUrl {
    url: String,
    /// `None`: the URL is empty.
    pub target: Option<Target>,
}

impl PartialEq for RedisUrl {
    fn eq(&self, other: &Self) -> bool {
        self.url == other.url
    }
}

impl TryFrom<String> for RedisUrl {
    type Error = String;

    /// The URL is never part of the error: it may hold a password.
    fn try_from(url: String) -> Result<Self, String> {
        let target = if url.is_empty() {
            None
        } else {
            Some(url.parse::<Target>().map_err(|bad| bad.to_string())?)
        };
        Ok(Self { url, target })
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
        if self.url.is_empty() {
            return Ok(());
        }
        out.write_str(&without_password(&self.url))
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
            let url = RedisUrl::try_from(url.to_owned()).expect("a URL");
            assert_eq!(url.to_string(), want);
        }
        let told = RedisUrl::try_from("http://secret".to_owned()).expect_err("no Redis");
        assert!(!told.contains("secret"), "{told}");
    }
}
