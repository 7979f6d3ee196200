//! Why no connection to a server came about, in words for whoever named it.

use std::error::Error;
use std::io;

use tokio_rustls::rustls::{self, CertificateError};

use super::client::root_cause;
use super::exit::Exit;
use super::failure::Failure;

/// Tells a server that is not there from one that is not trusted, and says what to do.
pub(super) fn unreached(endpoint: &str, error: &(dyn Error + 'static)) -> Failure {
    let Some(refused) = of_tls(error) else {
        let message = format!("no server answers at {endpoint}: {}", root_cause(error));
        return Failure::new(Exit::Unavailable, message)
            .hint("start one with `oncegate serve`, or name yours with --endpoint");
    };
    let (problem, advice) = told(refused);
    let message = format!("no secure connection to {endpoint}: {problem}");
    Failure::new(Exit::Unavailable, message).hint(advice)
}

/// What TLS refused, if that is the cause.
fn of_tls<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        // An I/O error does not count what it wraps among its sources.
        let wrapped = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        let wrapped = wrapped.and_then(|inner| inner.downcast_ref());
        if let Some(refused) = wrapped.or_else(|| error.downcast_ref()) {
            return Some(refused);
        }
        cause = error.source();
    }
    None
}

fn told(refused: &rustls::Error) -> (String, &'static str) {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "rustls' errors: all others say for themselves what they are"
    )]
    match refused {
        rustls::Error::InvalidMessage(_) => (
            "it does not speak TLS".to_owned(),
            "write http:// if it is meant to speak plain text",
        ),
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => (
            "its certificate comes from no authority that is trusted here".to_owned(),
            "name the certificate of its authority with --ca-file",
        ),
        other => (
            other.to_string(),
            "have the server's certificate put right, or use a name that stands in it",
        ),
    }
}
