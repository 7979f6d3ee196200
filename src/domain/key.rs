//! A record's identity: four parts, compared byte for byte, and the digests made of them.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::error::InvalidField;
use super::limits;

/// Names one record. Every part has been checked: a value of this type is a valid identity. Cheap to
/// clone; all clones share the parts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey(Arc<Identity>);

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Identity {
    namespace: String,
    environment: String,
    account: String,
    key: String,
    /// Of the other four; kept, for every step asks for it.
    digest: KeyDigest,
}

impl RecordKey {
    /// Checks the four parts.
    ///
    /// # Errors
    ///
    /// Names the first part that breaks its limit; repeating the call does not help.
    pub fn parse(
        namespace: &str,
        environment: &str,
        account: &str,
        key: &str,
    ) -> Result<Self, InvalidField> {
        check_name("namespace", namespace)?;
        check_name("environment", environment)?;
        check_text("account", account, 0, limits::ACCOUNT_BYTES_MAX)?;
        check_text("key", key, 1, limits::KEY_BYTES_MAX)?;
        let mut identity = Identity {
            namespace: namespace.to_owned(),
            environment: environment.to_owned(),
            account: account.to_owned(),
            key: key.to_owned(),
            digest: KeyDigest([0; 32]),
        };
        identity.digest = KeyDigest(identity.hash(b"oncegate/record/v1\0", &[]));
        Ok(Self(Arc::new(identity)))
    }

    /// The team's or service's space.
    pub fn namespace(&self) -> &str {
        &self.0.namespace
    }

    /// E.g. `live` or `test`.
    pub fn environment(&self) -> &str {
        &self.0.environment
    }

    /// The caller's own customer; may be empty.
    pub fn account(&self) -> &str {
        &self.0.account
    }

    /// The idempotency key.
    pub fn key(&self) -> &str {
        &self.0.key
    }

    /// The store's primary key. Each part goes in behind its length, so no separator can make two
    /// identities collide.
    pub fn digest(&self) -> KeyDigest {
        self.0.digest
    }

    /// What the other side gets as its idempotency key: the same across all attempts, another one
    /// after `Expire(allow_rerun)`. It never contains attempt, fence or generation.
    pub fn downstream_key(&self, rerun: u32) -> String {
        let hash = self
            .0
            .hash(b"oncegate/downstream/v1\0", &rerun.to_be_bytes());
        format!("og_{}", URL_SAFE_NO_PAD.encode(hash))
    }
}

impl Identity {
    fn hash(&self, tag: &[u8], suffix: &[u8]) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(tag);
        for part in [&self.namespace, &self.environment, &self.account, &self.key] {
            let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
            hasher.update(length.to_be_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.update(suffix);
        hasher.finalize().into()
    }
}

/// Shows the tenancy and a short digest; the key itself may be personal and stays out of logs.
impl fmt::Debug for RecordKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}/{}#{}",
            self.namespace(),
            self.environment(),
            self.digest().short()
        )
    }
}

/// SHA-256 of an identity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyDigest([u8; 32]);

/// Its first bytes are as good as a hash of all.
impl std::hash::Hash for KeyDigest {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        if let Some(first) = self.0.first_chunk() {
            state.write_u64(u64::from_ne_bytes(*first));
        }
    }
}

impl KeyDigest {
    /// Takes the digest's bytes, as a store keeps them.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The digest's bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first twelve hex digits, for logs.
    pub fn short(&self) -> String {
        format!("{self:?}")
    }
}

/// All hex digits.
impl fmt::Display for KeyDigest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        digits(&self.0, out)
    }
}

/// The first twelve.
impl fmt::Debug for KeyDigest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        digits(&self.0[..6], out)
    }
}

fn digits(bytes: &[u8], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}

/// Checks a namespace's or environment's name.
///
/// # Errors
///
/// Names `field` and the limit.
pub fn check_name(field: &str, name: &str) -> Result<(), InvalidField> {
    let length = name.len();
    if length == 0 || length > limits::NAME_BYTES_MAX {
        let problem = format!("must be 1..={} bytes, is {length}", limits::NAME_BYTES_MAX);
        return Err(InvalidField::new(field, problem));
    }
    if name
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    {
        Ok(())
    } else {
        Err(InvalidField::new(field, "must consist of a-z, 0-9 and -"))
    }
}

/// Checks a text's length in bytes (both ends inclusive) and that it has no control characters.
///
/// # Errors
///
/// Names `field` and the limit.
pub fn check_text(field: &str, text: &str, min: usize, max: usize) -> Result<(), InvalidField> {
    let length = text.len();
    if length < min || length > max {
        let problem = format!("must be {min}..={max} bytes, is {length}");
        return Err(InvalidField::new(field, problem));
    }
    if min > 0 && text.chars().all(char::is_whitespace) {
        return Err(InvalidField::new(field, "must not be blank"));
    }
    if text.chars().any(char::is_control) {
        return Err(InvalidField::new(
            field,
            "must not contain control characters",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: &str, environment: &str, account: &str, key: &str) -> RecordKey {
        RecordKey::parse(namespace, environment, account, key).expect("a valid key")
    }

    #[test]
    fn no_separator_makes_two_identities_collide() {
        let parts = [
            key("a", "b", "c", "d"),
            key("ab", "b", "c", "d"),
            key("a", "b", "cd", "d"),
            key("a", "b", "c", "dd"),
            key("a", "b", "c:d", "e"),
            key("a", "b", "c", "d:e"),
            key("a", "b", "", "c{d}"),
            key("a", "b", "c", "{d}"),
        ];
        for (i, one) in parts.iter().enumerate() {
            for other in &parts[i + 1..] {
                assert_ne!(one.digest(), other.digest(), "{one:?} {other:?}");
                assert_ne!(one.downstream_key(0), other.downstream_key(0));
            }
        }
    }

    #[test]
    fn the_downstream_key_changes_with_the_rerun_alone() {
        let key = key("a", "live", "", "k");
        assert_eq!(key.downstream_key(0), key.downstream_key(0));
        assert_ne!(key.downstream_key(0), key.downstream_key(1));
    }

    #[test]
    fn a_part_over_its_limit_is_named_with_the_limit() {
        let long = "x".repeat(256);
        for (parts, field) in [
            (["", "live", "", "k"], "namespace"),
            (["A", "live", "", "k"], "namespace"),
            (["a_b", "live", "", "k"], "namespace"),
            (["a", "", "", "k"], "environment"),
            (["a", "live", long.as_str(), "k"], "account"),
            (["a", "live", "a\0b", "k"], "account"),
            (["a", "live", "", ""], "key"),
            (["a", "live", "", "   "], "key"),
            (["a", "live", "", long.as_str()], "key"),
            (["a", "live", "", "a\nb"], "key"),
            (["a", "live", "", "a\u{85}b"], "key"),
        ] {
            let error = RecordKey::parse(parts[0], parts[1], parts[2], parts[3])
                .expect_err("must be refused");
            assert_eq!(error.field, field, "{parts:?}");
        }
        assert!(RecordKey::parse("a", "live", "", &"x".repeat(255)).is_ok());
    }

    #[test]
    fn debug_output_never_shows_the_key() {
        let shown = format!("{:?}", key("a", "live", "customer-4711", "faktura-secret"));
        assert!(
            !shown.contains("secret") && !shown.contains("4711"),
            "{shown}"
        );
    }
}
