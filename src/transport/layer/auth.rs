//! Who calls: static bearer tokens. Health and reflection ask for none.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tonic::Status;

use crate::domain::caller::{Caller, Role};
use crate::service::error::ServiceError;
use crate::transport::grpc::status::{Asked, status};

/// The services that anybody may ask.
const FREE: [&str; 2] = ["/grpc.health.v1.Health/", "/grpc.reflection."];

/// What a genuine reservation token lets a caller do whose credential is not known any more.
const BY_TOKEN: [&str; 2] = [
    "/oncegate.v1.GateService/Complete",
    "/oncegate.v1.GateService/BatchComplete",
];

/// One token's digest, and whom it makes of its bearer.
#[derive(Clone)]
pub struct Credential {
    /// SHA-256 of the token.
    pub sha256: [u8; 32],
    /// The bearer.
    pub caller: Arc<Caller>,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Credential({:?})", self.caller)
    }
}

/// The tokens of this server. Without any, everybody is an administrator.
#[derive(Debug, Clone)]
pub struct Credentials {
    known: Arc<[Credential]>,
    /// Whoever has none of them.
    other: Arc<Caller>,
}

impl Default for Credentials {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Credentials {
    /// Takes the tokens.
    pub fn new(credentials: Vec<Credential>) -> Self {
        let other = if credentials.is_empty() {
            Caller::anyone()
        } else {
            Caller::unknown()
        };
        Self {
            known: credentials.into(),
            other: other.into(),
        }
    }

    /// `None`: no credential was given.
    fn caller(&self, headers: &HeaderMap) -> Option<&Arc<Caller>> {
        if self.known.is_empty() {
            return Some(&self.other);
        }
        let header = headers.get(AUTHORIZATION)?.to_str().ok()?;
        let (scheme, token) = header.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let given: [u8; 32] = Sha256::digest(token.trim()).into();
        // All are compared, so that the time taken does not tell which one was near.
        let mut found = &self.other;
        for credential in self.known.iter() {
            if credential.sha256.ct_eq(&given).into() {
                found = &credential.caller;
            }
        }
        Some(found)
    }
}

/// Names the caller, or refuses the call before anything of it is read. `None`: anybody may ask.
pub(super) fn authenticate(
    credentials: &Credentials,
    path: &str,
    headers: &HeaderMap,
) -> Result<Option<Arc<Caller>>, Status> {
    if FREE.iter().any(|free| path.starts_with(free)) {
        return Ok(None);
    }
    let caller = credentials
        .caller(headers)
        .filter(|caller| caller.role != Role::Unknown || BY_TOKEN.contains(&path))
        .ok_or_else(|| status(&ServiceError::Unauthenticated, &Asked::default()))?;
    Ok(Some(Arc::clone(caller)))
}
