//! Messages that no handler ever sees because they cannot be read: tonic answers them with statuses
//! of its own, which are given the code and the reason that this service promises.

use http::Response;
use tonic::body::Body;
use tonic::{Code, Status};

use crate::domain::error::InvalidField;
use crate::service::error::ServiceError;
use crate::transport::grpc::status::{Asked, message_too_large, status};

/// Gives what tonic refused its reason. A handler's own errors carry details and pass unchanged.
pub(super) fn explain(response: Response<Body>) -> Response<Body> {
    let refusal = Status::from_header_map(response.headers());
    match refusal.and_then(|refusal| explained(&refusal)) {
        Some(explained) => explained.into_http(),
        None => response,
    }
}

fn explained(refusal: &Status) -> Option<Status> {
    if !refusal.details().is_empty() {
        return None;
    }
    let invalid = |field: String, problem: &str| {
        let error = ServiceError::InvalidField(InvalidField::new(field, problem));
        Some(status(&error, &Asked::default()))
    };
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "tonic's codes: all others are what they are"
    )]
    match refusal.code() {
        // Before and after it is inflated.
        Code::OutOfRange | Code::ResourceExhausted => Some(message_too_large()),
        Code::Internal => match unreadable_field(refusal.message()) {
            Some((field, true)) => invalid(field, "must be UTF-8"),
            Some((field, false)) => invalid(field, "cannot be read"),
            None => invalid(
                "request".to_owned(),
                "cannot be read as the method's message",
            ),
        },
        _ => None,
    }
}

/// The field that prost could not read, as a path, and whether it is its text that is not UTF-8.
/// Prost says `… message: Outer.field: Inner.field: what is wrong`.
fn unreadable_field(message: &str) -> Option<(String, bool)> {
    let (_, rest) = message.split_once("message: ")?;
    let mut path = Vec::new();
    let mut problem = "";
    for part in rest.split(": ") {
        match part.split_once('.') {
            Some((_, field)) if !field.contains(' ') => path.push(field),
            _ => {
                problem = part;
                break;
            }
        }
    }
    let not_utf8 = problem == "invalid string value";
    (!path.is_empty()).then(|| (path.join("."), not_utf8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_field_is_named_by_its_path() {
        let invalid = "invalid string value: data is not UTF-8 encoded";
        for (message, want) in [
            (
                format!("failed to decode Protobuf message: A.key: B.account: {invalid}"),
                Some(("key.account", true)),
            ),
            (
                "failed to decode Protobuf message: A.lease: invalid wire type".to_owned(),
                Some(("lease", false)),
            ),
            ("Missing request message.".to_owned(), None),
        ] {
            let got = unreadable_field(&message);
            let want = want.map(|(path, utf8): (&str, bool)| (path.to_owned(), utf8));
            assert_eq!(got, want, "{message}");
        }
    }
}
