//! The connection to a server, and the credential that goes with every call.

use std::path::Path;
use std::time::Duration;

use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};

use super::args::ServerArgs;
use super::exit::Exit;
use super::failure::Failure;
use super::unreached::unreached;
use crate::domain::limits;
use crate::proto::v1::admin_service_client::AdminServiceClient;
use crate::proto::v1::gate_service_client::GateServiceClient;
use crate::proto::v1::support_service_client::SupportServiceClient;

const TOKEN_VARIABLE: &str = "ONCEGATE_TOKEN";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A channel on which every call carries the credential.
pub(crate) type Authorized = InterceptedService<Channel, Bearer>;

/// A connected server.
#[derive(Clone)]
pub(crate) struct Client {
    channel: Channel,
    bearer: Bearer,
    timeout: Duration,
}

/// A bearer token, or none.
#[derive(Clone)]
pub(crate) struct Bearer(Option<MetadataValue<Ascii>>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(bearer) = &self.0 {
            let metadata = request.metadata_mut();
            metadata.insert("authorization", bearer.clone());
        }
        Ok(request)
    }
}

impl Client {
    /// Connects, so that a server that is not there is told apart from one that refuses.
    pub(crate) async fn connect(args: &ServerArgs) -> Result<Self, Failure> {
        let bearer = Bearer::read(args)?;
        let endpoint = endpoint(args)?;
        let channel = endpoint.connect().await;
        let channel = channel.map_err(|error| unreached(&args.endpoint, &error))?;
        Ok(Self {
            channel,
            bearer,
            timeout: args.timeout,
        })
    }

    pub(crate) fn gate(&self) -> GateServiceClient<Authorized> {
        GateServiceClient::with_interceptor(self.channel.clone(), self.bearer.clone())
            .max_decoding_message_size(limits::MESSAGE_BYTES_MAX)
    }

    pub(crate) fn support(&self) -> SupportServiceClient<Authorized> {
        SupportServiceClient::with_interceptor(self.channel.clone(), self.bearer.clone())
            .max_decoding_message_size(limits::MESSAGE_BYTES_MAX)
    }

    pub(crate) fn admin(&self) -> AdminServiceClient<Authorized> {
        AdminServiceClient::with_interceptor(self.channel.clone(), self.bearer.clone())
            .max_decoding_message_size(limits::MESSAGE_BYTES_MAX)
    }

    /// The bare channel, for services that need no credential.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// A request that may take the call's time and no longer.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        self.waiting(message, Duration::ZERO)
    }

    /// A request that tells the server to wait: its deadline lies behind that time.
    pub(crate) fn waiting<T>(&self, message: T, wait: Duration) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.timeout.saturating_add(wait));
        request
    }
}

impl Bearer {
    fn read(args: &ServerArgs) -> Result<Self, Failure> {
        let token = match &args.token_file {
            Some(path) => {
                let text = std::fs::read_to_string(path);
                let text =
                    text.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
                if text.trim().is_empty() {
                    return Err(Failure::usage(format!("{} is empty", path.display())));
                }
                Some(text)
            }
            None => std::env::var(TOKEN_VARIABLE).ok(),
        };
        let Some(token) = token.filter(|token| !token.trim().is_empty()) else {
            return Ok(Self(None));
        };
        // The text of the error would show the token.
        let mut bearer: MetadataValue<Ascii> = format!("Bearer {}", token.trim())
            .parse()
            .map_err(|_shows_it| Failure::usage("the bearer token has characters that none has"))?;
        bearer.set_sensitive(true);
        Ok(Self(Some(bearer)))
    }
}

fn endpoint(args: &ServerArgs) -> Result<Endpoint, Failure> {
    let text = &args.endpoint;
    let url = if text.contains("://") {
        text.clone()
    } else {
        format!("http://{text}")
    };
    let bad = |problem: String| Failure::usage(format!("--endpoint {text}: {problem}"));
    let endpoint = Endpoint::from_shared(url.clone()).map_err(|error| bad(root_cause(&error)))?;
    let endpoint = endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .user_agent(concat!("oncegate-cli/", env!("CARGO_PKG_VERSION")))
        .map_err(|error| bad(root_cause(&error)))?;
    if url.starts_with("http://") {
        return Ok(endpoint);
    }
    if !url.starts_with("https://") {
        return Err(bad("write http://HOST:PORT or https://HOST:PORT".to_owned()));
    }
    let tls = match &args.ca_file {
        None => ClientTlsConfig::new().with_enabled_roots(),
        Some(path) => ClientTlsConfig::new().ca_certificate(authority(path)?),
    };
    endpoint
        .tls_config(tls)
        .map_err(|error| bad(root_cause(&error)))
}

/// Whoever is told nothing but this trusts nobody: a file without a certificate is a mistake.
fn authority(path: &Path) -> Result<Certificate, Failure> {
    let bad = |problem: String| Failure::usage(format!("{}: {problem}", path.display()));
    let pem = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
    let first = CertificateDer::from_pem_slice(&pem);
    first.map_err(|_not_pem| bad("holds no certificate in PEM".to_owned()))?;
    Ok(Certificate::from_pem(pem))
}

/// The innermost cause: the outer ones say only that there is one.
pub(super) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// 16 bytes from the operating system's random source, for one Reserve or Reexecute.
pub(crate) fn request_id() -> Result<[u8; 16], Failure> {
    let mut id = [0; 16];
    getrandom::fill(&mut id)
        .map_err(|error| Failure::new(Exit::Failed, format!("no random bytes: {error}")))?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(endpoint: &str) -> ServerArgs {
        ServerArgs {
            endpoint: endpoint.to_owned(),
            token_file: None,
            ca_file: None,
            timeout: Duration::from_secs(1),
        }
    }

    #[test]
    fn an_address_without_a_scheme_is_http() {
        let uri = endpoint(&args("127.0.0.1:7011")).expect("valid");
        assert_eq!(uri.uri(), "http://127.0.0.1:7011/");
    }

    #[test]
    fn another_scheme_or_no_address_is_a_usage_error() {
        for text in ["ftp://127.0.0.1", "http://", "a b"] {
            let failure = endpoint(&args(text)).expect_err("must be refused");
            assert_eq!(failure.exit, Exit::Usage, "{text}");
        }
    }
}
