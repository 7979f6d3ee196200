//! The one place that turns an error of the services into what the wire carries: a status with its
//! `ErrorInfo`, or a batch's `ItemError`. Nothing of a store or a driver passes through here.

use std::collections::HashMap;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::convert::time::span;
use crate::domain::limits;
use crate::proto::v1 as pb;
use crate::service::error::ServiceError;

/// The domain of every `ErrorInfo`.
pub const DOMAIN: &str = "oncegate";

/// What a call named, for the errors that say so.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// The rpc's name.
    pub method: &'static str,
    /// The namespace; empty if none.
    pub namespace: String,
    /// The environment; empty if none.
    pub environment: String,
}

impl Asked {
    /// A call on one record.
    pub fn record(method: &'static str, key: Option<&pb::RecordKey>) -> Self {
        let (namespace, environment) = key.map_or_else(Default::default, |key| {
            (key.namespace.clone(), key.environment.clone())
        });
        Self {
            method,
            namespace,
            environment,
        }
    }

    /// A call on a namespace as a whole.
    pub fn namespace(method: &'static str, namespace: &str) -> Self {
        Self {
            method,
            namespace: namespace.to_owned(),
            environment: String::new(),
        }
    }
}

/// The status of an error.
pub fn status(error: &ServiceError, asked: &Asked) -> Status {
    let mut details = ErrorDetails::with_error_info(error.reason(), DOMAIN, metadata(error, asked));
    if let Some(field) = error.field() {
        details.add_bad_request_violation(field, problem(error));
    }
    if let Some(delay) = error.retry_after() {
        details.set_retry_info(Some(delay));
    }
    Status::with_error_details(code(error), error.to_string(), details)
}

/// The same error as one item of a batch.
pub fn item_error(error: &ServiceError) -> pb::ItemError {
    pb::ItemError {
        code: code(error).into(),
        reason: error.reason().to_owned(),
        message: error.to_string(),
        field: error.field().unwrap_or_default().to_owned(),
        retry_after: error.retry_after().map(span),
    }
}

/// A message over the receive limit; refused before it is read, so no service ever sees it.
pub fn message_too_large() -> Status {
    let limit = limits::MESSAGE_BYTES_MAX.to_string();
    let text = format!("the message is over {limit} bytes");
    let metadata = HashMap::from([("limit_bytes".to_owned(), limit)]);
    let details = ErrorDetails::with_error_info("MESSAGE_TOO_LARGE", DOMAIN, metadata);
    Status::with_error_details(Code::ResourceExhausted, text, details)
}

const fn code(error: &ServiceError) -> Code {
    match error {
        ServiceError::InvalidField(_)
        | ServiceError::TokenInvalid
        | ServiceError::FingerprintRequired { .. } => Code::InvalidArgument,
        ServiceError::Unauthenticated => Code::Unauthenticated,
        ServiceError::NotPermitted => Code::PermissionDenied,
        ServiceError::NamespaceNotFound { .. } | ServiceError::RecordNotFound => Code::NotFound,
        ServiceError::NotExpirable(_) | ServiceError::NotResolvable(_) => Code::FailedPrecondition,
        ServiceError::EtagMismatch(_) => Code::Aborted,
        ServiceError::Overloaded | ServiceError::AnswerTooLarge => Code::ResourceExhausted,
        ServiceError::StoreUnavailable | ServiceError::OutcomeUnknown => Code::Unavailable,
        ServiceError::Corrupt => Code::DataLoss,
    }
}

/// What `error_reason.proto` promises with each reason.
fn metadata(error: &ServiceError, asked: &Asked) -> HashMap<String, String> {
    let tenancy = |namespace: &str, environment: &str| {
        [
            ("namespace", namespace.to_owned()),
            ("environment", environment.to_owned()),
        ]
    };
    let pairs: Vec<(&str, String)> = match error {
        ServiceError::InvalidField(invalid) => vec![("field", invalid.field.clone())],
        ServiceError::TokenInvalid => vec![("field", "token".to_owned())],
        ServiceError::FingerprintRequired {
            namespace,
            environment,
        } => [("field", "fingerprint".to_owned())]
            .into_iter()
            .chain(tenancy(namespace, environment))
            .collect(),
        ServiceError::NotPermitted => [("method", asked.method.to_owned())]
            .into_iter()
            .chain(tenancy(&asked.namespace, &asked.environment))
            .collect(),
        ServiceError::NamespaceNotFound {
            namespace,
            environment,
        } => tenancy(namespace, environment).into(),
        ServiceError::RecordNotFound => tenancy(&asked.namespace, &asked.environment).into(),
        ServiceError::NotExpirable(state) | ServiceError::NotResolvable(state) => {
            vec![("state", state.name().to_owned())]
        }
        ServiceError::EtagMismatch(resource) => vec![("resource", (*resource).to_owned())],
        ServiceError::AnswerTooLarge => {
            vec![("limit_bytes", limits::BATCH_ANSWER_BYTES_MAX.to_string())]
        }
        ServiceError::Unauthenticated
        | ServiceError::Overloaded
        | ServiceError::StoreUnavailable
        | ServiceError::OutcomeUnknown
        | ServiceError::Corrupt => Vec::new(),
    };
    pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// What is wrong with the field, without its name.
fn problem(error: &ServiceError) -> String {
    match error {
        ServiceError::InvalidField(invalid) => invalid.problem.clone(),
        ServiceError::TokenInvalid => "does not belong to this record".to_owned(),
        ServiceError::FingerprintRequired { .. } => "is required by the namespace".to_owned(),
        ServiceError::Unauthenticated
        | ServiceError::NotPermitted
        | ServiceError::NamespaceNotFound { .. }
        | ServiceError::RecordNotFound
        | ServiceError::NotExpirable(_)
        | ServiceError::NotResolvable(_)
        | ServiceError::EtagMismatch(_)
        | ServiceError::Overloaded
        | ServiceError::AnswerTooLarge
        | ServiceError::StoreUnavailable
        | ServiceError::OutcomeUnknown
        | ServiceError::Corrupt => error.to_string(),
    }
}
