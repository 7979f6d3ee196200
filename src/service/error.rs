//! Why a call was not answered with a verdict. Each variant has one reason, one page in
//! `docs/errors/`, and one status, which the transport gives it.

use std::time::Duration;

use crate::domain::error::InvalidField;
use crate::domain::record::StateName;
use crate::port::store::StoreError;

/// A call that gets no verdict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// A field breaks its limit.
    #[error("{0}")]
    InvalidField(#[from] InvalidField),
    /// The token is not genuine for this record.
    #[error("token: does not belong to this record")]
    TokenInvalid,
    /// The namespace requires a fingerprint.
    #[error("fingerprint: is required by {namespace}/{environment}")]
    FingerprintRequired {
        /// The namespace.
        namespace: String,
        /// The environment.
        environment: String,
    },
    /// No credential, or one that is not known.
    #[error("a valid bearer token is required")]
    Unauthenticated,
    /// The credential does not reach there.
    #[error("the credential does not allow this")]
    NotPermitted,
    /// No such namespace or environment.
    #[error("there is no namespace {namespace}{}", with_environment(environment))]
    NamespaceNotFound {
        /// The namespace.
        namespace: String,
        /// The environment; empty if none was named.
        environment: String,
    },
    /// No such record.
    #[error("there is no such record")]
    RecordNotFound,
    /// Expire: the state does not allow it.
    #[error("a record in {} cannot be expired", .0.name())]
    NotExpirable(StateName),
    /// Resolve: the state does not allow it.
    #[error("a record in {} cannot be resolved", .0.name())]
    NotResolvable(StateName),
    /// What was named is not what is there now.
    #[error("the {0} has changed since its etag was read")]
    EtagMismatch(&'static str),
    /// More at once than the server takes.
    #[error("the server is overloaded")]
    Overloaded,
    /// A batch's answer has no room for this item.
    #[error("the outcome does not fit into this answer: ask for it alone")]
    AnswerTooLarge,
    /// The store could not be reached; nothing was done.
    #[error("the store is unavailable")]
    StoreUnavailable,
    /// Whether it was done is not known; the same call again tells.
    #[error("whether this was done is not known yet: repeat the same call")]
    OutcomeUnknown,
    /// The stored record cannot be right.
    #[error("the stored record is damaged")]
    Corrupt,
}

impl ServiceError {
    /// The reason's name, as in `error_reason.proto` without its prefix.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::InvalidField(_) => "INVALID_FIELD",
            Self::TokenInvalid => "TOKEN_INVALID",
            Self::FingerprintRequired { .. } => "FINGERPRINT_REQUIRED",
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::NotPermitted => "NOT_PERMITTED",
            Self::NamespaceNotFound { .. } => "NAMESPACE_NOT_FOUND",
            Self::RecordNotFound => "RECORD_NOT_FOUND",
            Self::NotExpirable(_) => "NOT_EXPIRABLE",
            Self::NotResolvable(_) => "NOT_RESOLVABLE",
            Self::EtagMismatch(_) => "ETAG_MISMATCH",
            Self::Overloaded => "OVERLOADED",
            Self::AnswerTooLarge => "ANSWER_TOO_LARGE",
            Self::StoreUnavailable => "STORE_UNAVAILABLE",
            Self::OutcomeUnknown => "OUTCOME_UNKNOWN",
            Self::Corrupt => "CORRUPT",
        }
    }

    /// The field that is to blame, as a path from the request.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::InvalidField(invalid) => Some(&invalid.field),
            Self::TokenInvalid => Some("token"),
            Self::FingerprintRequired { .. } => Some("fingerprint"),
            Self::Unauthenticated
            | Self::NotPermitted
            | Self::NamespaceNotFound { .. }
            | Self::RecordNotFound
            | Self::NotExpirable(_)
            | Self::NotResolvable(_)
            | Self::EtagMismatch(_)
            | Self::Overloaded
            | Self::AnswerTooLarge
            | Self::StoreUnavailable
            | Self::OutcomeUnknown
            | Self::Corrupt => None,
        }
    }

    /// When repeating the same call can help; `None`: it does not by itself.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Overloaded | Self::StoreUnavailable => Some(Duration::from_secs(1)),
            Self::OutcomeUnknown => Some(Duration::from_millis(100)),
            Self::InvalidField(_)
            | Self::TokenInvalid
            | Self::FingerprintRequired { .. }
            | Self::Unauthenticated
            | Self::NotPermitted
            | Self::NamespaceNotFound { .. }
            | Self::RecordNotFound
            | Self::NotExpirable(_)
            | Self::NotResolvable(_)
            | Self::EtagMismatch(_)
            | Self::AnswerTooLarge
            | Self::Corrupt => None,
        }
    }
}

fn with_environment(name: &str) -> String {
    if name.is_empty() {
        return String::new();
    }
    format!(" with environment {name}")
}

/// The store's own words stay in the log.
impl From<StoreError> for ServiceError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) | StoreError::Unusable(_) => Self::StoreUnavailable,
            StoreError::Overloaded => Self::Overloaded,
            StoreError::OutcomeUnknown(_) => Self::OutcomeUnknown,
            StoreError::Corrupt(_) => Self::Corrupt,
        }
    }
}
