//! Identities and fingerprints.

use crate::domain::error::InvalidField;
use crate::domain::fingerprint::Fingerprint;
use crate::domain::key::RecordKey;
use crate::proto::v1 as pb;

use super::required;

/// The identity that a request names.
///
/// # Errors
///
/// Names the part that breaks its limit.
pub fn key(given: Option<pb::RecordKey>) -> Result<RecordKey, InvalidField> {
    let given = required("key", given)?;
    RecordKey::parse(
        &given.namespace,
        &given.environment,
        &given.account,
        &given.key,
    )
    .map_err(|error| error.within("key"))
}

/// The identity as a message.
pub fn key_message(key: &RecordKey) -> pb::RecordKey {
    pb::RecordKey {
        namespace: key.namespace().to_owned(),
        environment: key.environment().to_owned(),
        account: key.account().to_owned(),
        key: key.key().to_owned(),
    }
}

pub(super) fn fingerprint(
    given: Option<&pb::Fingerprint>,
) -> Result<Option<Fingerprint>, InvalidField> {
    given
        .map(|given| Fingerprint::parse(&given.scheme, &given.digest))
        .transpose()
        .map_err(|error| error.within("fingerprint"))
}

pub(super) fn fingerprint_message(fingerprint: &Fingerprint) -> pb::Fingerprint {
    pb::Fingerprint {
        scheme: fingerprint.scheme().to_owned(),
        digest: fingerprint.digest().to_vec(),
    }
}
