//! A digest of the caller's request, so that reusing a key for another request is noticed.

use super::error::InvalidField;
use super::key::check_text;
use super::limits;

/// A digest and the scheme that made it. Two are comparable under the same scheme only.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    scheme: String,
    digest: [u8; 32],
}

/// What comparing two fingerprints tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Same scheme, same digest; or neither side has one.
    Equal,
    /// Same scheme, another digest.
    Different,
    /// One side has none, or the schemes differ.
    Impossible,
}

impl Fingerprint {
    /// Checks a scheme (`raw-sha256-v1`, `json-sha256-v1`, `app:<name>`) and a 32-byte digest.
    ///
    /// # Errors
    ///
    /// Names the field that breaks its limit.
    pub fn parse(scheme: &str, digest: &[u8]) -> Result<Self, InvalidField> {
        check_text("scheme", scheme, 1, limits::SCHEME_BYTES_MAX)?;
        let named = scheme
            .strip_prefix("app:")
            .is_some_and(|name| !name.is_empty());
        if !named && scheme != "raw-sha256-v1" && scheme != "json-sha256-v1" {
            let problem = "must be raw-sha256-v1, json-sha256-v1 or app:<name>";
            return Err(InvalidField::new("scheme", problem));
        }
        let digest = <[u8; 32]>::try_from(digest).map_err(|_wrong_length| {
            InvalidField::new("digest", format!("must be 32 bytes, is {}", digest.len()))
        })?;
        Ok(Self {
            scheme: scheme.to_owned(),
            digest,
        })
    }

    /// The scheme's name.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The 32-byte digest.
    pub const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}

/// Compares like with like only: a changed scheme is never a mismatch.
pub fn compare(one: Option<&Fingerprint>, other: Option<&Fingerprint>) -> Comparison {
    match (one, other) {
        (None, None) => Comparison::Equal,
        (Some(one), Some(other)) if one.scheme == other.scheme => {
            if one.digest == other.digest {
                Comparison::Equal
            } else {
                Comparison::Different
            }
        }
        (Some(_) | None, Some(_)) | (Some(_), None) => Comparison::Impossible,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_scheme_is_compared() {
        let raw = Fingerprint::parse("raw-sha256-v1", &[1; 32]).expect("valid");
        let other = Fingerprint::parse("raw-sha256-v1", &[2; 32]).expect("valid");
        let json = Fingerprint::parse("json-sha256-v1", &[1; 32]).expect("valid");
        for (one, two, want) in [
            (None, None, Comparison::Equal),
            (Some(&raw), Some(&raw), Comparison::Equal),
            (Some(&raw), Some(&other), Comparison::Different),
            (Some(&raw), Some(&json), Comparison::Impossible),
            (Some(&raw), None, Comparison::Impossible),
            (None, Some(&raw), Comparison::Impossible),
        ] {
            assert_eq!(compare(one, two), want);
        }
    }

    #[test]
    fn a_wrong_length_or_scheme_is_named() {
        for (scheme, digest, field) in [
            ("", vec![0; 32], "scheme"),
            ("md5", vec![0; 32], "scheme"),
            ("app:", vec![0; 32], "scheme"),
            ("app:x\n", vec![0; 32], "scheme"),
            ("app:x", vec![0; 31], "digest"),
            ("app:x", vec![], "digest"),
            ("raw-sha256-v1", vec![0; 33], "digest"),
        ] {
            assert_eq!(
                Fingerprint::parse(scheme, &digest)
                    .expect_err("refused")
                    .field,
                field
            );
        }
    }
}
