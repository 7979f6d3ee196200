//! What happened, as it was reported and as it is kept.

use std::fmt;

use sha2::{Digest, Sha256};

use super::limits;
use super::policy::{OutcomeMode, Terms};

/// Whether the effect happened or failed for good. Both are replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutcomeStatus {
    /// The effect happened.
    Succeeded,
    /// The effect failed for good; the same answer is replayed.
    Failed,
}

/// Says what was left out of a kept outcome, and what the payload was.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PayloadOmitted {
    /// What was left out and why.
    pub reason: String,
    /// The payload's size as it was sent.
    pub size_bytes: u64,
    /// SHA-256 of the payload as it was sent.
    pub sha256: [u8; 32],
}

/// SHA-256 over an outcome as it was sent, before any omission. Two outcomes are equal if theirs are.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OutcomeDigest(pub [u8; 32]);

impl fmt::Debug for OutcomeDigest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .take(6)
            .try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// An outcome, replayed byte for byte to every later caller.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Outcome {
    /// Whether the effect happened.
    pub status: OutcomeStatus,
    /// Any bytes.
    pub payload: Vec<u8>,
    /// The payload's media type.
    pub content_type: String,
    /// The other side's own id; empty if it has none.
    pub effect_id: String,
    /// Name and value pairs in order; names may repeat.
    pub metadata: Vec<(String, String)>,
    /// Set when something was left out.
    pub omitted: Option<PayloadOmitted>,
    /// Over the outcome as it was sent.
    pub digest: OutcomeDigest,
}

/// Shows sizes only: payloads are presumed personal.
impl fmt::Debug for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "Outcome({:?}, {} bytes, {:?})",
            self.status,
            self.payload.len(),
            self.digest
        )
    }
}

impl Outcome {
    /// Takes an outcome as a caller sent it. `omitted` is set where the caller itself left the
    /// payload out; such a report equals the one that carries the payload.
    pub fn reported(
        status: OutcomeStatus,
        payload: Vec<u8>,
        content_type: String,
        effect_id: String,
        metadata: Vec<(String, String)>,
        omitted: Option<PayloadOmitted>,
    ) -> Self {
        // A payload speaks for itself; what is said of one beside it is dropped.
        let omitted = omitted.filter(|_| payload.is_empty()).map(shortened);
        let (size, sha256) = omitted.as_ref().map_or_else(
            || size_and_sha256(&payload),
            |omitted| (omitted.size_bytes, omitted.sha256),
        );
        let digest = digest(status, size, &sha256, &content_type, &effect_id, &metadata);
        Self {
            status,
            payload,
            content_type,
            effect_id,
            metadata,
            omitted,
            digest,
        }
    }

    /// The form in which a record keeps this outcome: what is over a limit is left out and named.
    /// A report is never refused for its size: the effect has happened.
    #[must_use]
    pub fn kept_under(mut self, terms: &Terms) -> Self {
        let mut left_out = Vec::new();
        let (size, sha256) = size_and_sha256(&self.payload);
        let too_large = size > terms.payload_bytes_max;
        let withheld = terms.outcome_mode == OutcomeMode::DigestOnly && size > 0;
        if too_large {
            left_out.push(format!("payload over {} bytes", terms.payload_bytes_max));
        } else if withheld {
            left_out.push("payload: outcome_mode is DIGEST_ONLY".to_owned());
        }
        if too_large || withheld {
            self.payload = Vec::new();
        }
        if self
            .metadata
            .iter()
            .map(|(n, v)| n.len() + v.len())
            .sum::<usize>()
            > limits::METADATA_BYTES_MAX
        {
            left_out.push(format!(
                "metadata over {} bytes",
                limits::METADATA_BYTES_MAX
            ));
            self.metadata = Vec::new();
        }
        for (name, text) in [
            ("effect_id", &mut self.effect_id),
            ("content_type", &mut self.content_type),
        ] {
            if text.len() > limits::EFFECT_ID_BYTES_MAX {
                left_out.push(format!("{name} over {} bytes", limits::EFFECT_ID_BYTES_MAX));
                text.clear();
            }
        }
        if !left_out.is_empty() {
            self.leave_out(&left_out.join("; "), size, sha256);
        }
        self
    }

    /// Says that something was left out, beside what was left out before.
    fn leave_out(&mut self, reason: &str, size_bytes: u64, sha256: [u8; 32]) {
        self.omitted = Some(match self.omitted.take() {
            Some(own) => PayloadOmitted {
                reason: format!("{}; {reason}", own.reason),
                ..own
            },
            None => PayloadOmitted {
                reason: reason.to_owned(),
                size_bytes,
                sha256,
            },
        });
    }

    /// The form in which an outcome that was not used is kept as evidence.
    #[must_use]
    pub fn as_evidence(&self) -> Self {
        let mut evidence = self.clone();
        if evidence.payload.len() > limits::EVIDENCE_PAYLOAD_BYTES_MAX {
            let (size_bytes, sha256) = size_and_sha256(&evidence.payload);
            let reason = format!(
                "payload of a late outcome over {} bytes",
                limits::EVIDENCE_PAYLOAD_BYTES_MAX
            );
            evidence.payload = Vec::new();
            evidence.leave_out(&reason, size_bytes, sha256);
        }
        evidence
    }
}

/// The reason is a note like any other and not part of what was reported: cut, never refused.
fn shortened(mut omitted: PayloadOmitted) -> PayloadOmitted {
    let end = omitted.reason.floor_char_boundary(limits::NOTE_BYTES_MAX);
    omitted.reason.truncate(end);
    omitted
}

fn size_and_sha256(payload: &[u8]) -> (u64, [u8; 32]) {
    (
        u64::try_from(payload.len()).unwrap_or(u64::MAX),
        Sha256::digest(payload).into(),
    )
}

fn digest(
    status: OutcomeStatus,
    size: u64,
    sha256: &[u8; 32],
    content_type: &str,
    effect_id: &str,
    metadata: &[(String, String)],
) -> OutcomeDigest {
    let mut hasher = Sha256::new();
    hasher.update(b"oncegate/outcome/v1\0");
    hasher.update([match status {
        OutcomeStatus::Succeeded => 1,
        OutcomeStatus::Failed => 2,
    }]);
    hasher.update(size.to_be_bytes());
    hasher.update(sha256);
    let texts = [content_type, effect_id].into_iter();
    let pairs = metadata
        .iter()
        .flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    for text in texts.chain(pairs) {
        hasher.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(text.as_bytes());
    }
    OutcomeDigest(hasher.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(payload: &[u8], effect_id: &str, metadata: &[(&str, &str)]) -> Outcome {
        let metadata = metadata
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect();
        let (kind, id) = ("text/plain".to_owned(), effect_id.to_owned());
        Outcome::reported(
            OutcomeStatus::Succeeded,
            payload.to_vec(),
            kind,
            id,
            metadata,
            None,
        )
    }

    #[test]
    fn equal_means_equal_in_every_part() {
        let one = report(b"x", "e", &[("a", "bc")]);
        assert_eq!(one.digest, report(b"x", "e", &[("a", "bc")]).digest);
        for other in [
            report(b"y", "e", &[("a", "bc")]),
            report(b"x", "f", &[("a", "bc")]),
            report(b"x", "e", &[("ab", "c")]),
            report(b"x", "e", &[]),
        ] {
            assert_ne!(one.digest, other.digest);
        }
    }

    #[test]
    fn a_payload_left_out_by_its_sender_equals_the_payload() {
        let full = report(b"hello", "e", &[]);
        let (size_bytes, sha256) = size_and_sha256(b"hello");
        let omitted = PayloadOmitted {
            reason: "too large".to_owned(),
            size_bytes,
            sha256,
        };
        let cut = Outcome::reported(
            OutcomeStatus::Succeeded,
            Vec::new(),
            "text/plain".to_owned(),
            "e".to_owned(),
            Vec::new(),
            Some(omitted),
        );
        assert_eq!(full.digest, cut.digest);
    }

    #[test]
    fn what_is_over_a_limit_is_left_out_and_named_and_the_rest_is_kept() {
        let terms = Terms {
            payload_bytes_max: 3,
            ..Terms::default()
        };
        assert_eq!(report(b"abc", "e", &[]).kept_under(&terms).omitted, None);

        let long = "e".repeat(256);
        let metadata = "m".repeat(8 * 1024);
        let kept = report(b"abcd", &long, &[("n", &metadata)]).kept_under(&terms);
        let omitted = kept.omitted.clone().expect("something was left out");
        assert_eq!(
            omitted.reason,
            "payload over 3 bytes; metadata over 8192 bytes; effect_id over 255 bytes"
        );
        assert_eq!((omitted.size_bytes, kept.payload.len()), (4, 0));
        assert_eq!(
            (kept.effect_id.as_str(), kept.content_type.as_str()),
            ("", "text/plain")
        );
        assert_eq!(
            kept.digest,
            report(b"abcd", &long, &[("n", &metadata)]).digest
        );
    }
}
