//! The certificate that both ports show. Its files are looked at from time to time: what has changed
//! is shown to new connections, and those that are open live on. A pair that cannot be used changes
//! nothing.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

use crate::telemetry::metrics::Metrics;

/// How often the files are looked at. What is the same twice is used, so a change is shown after
/// two to three of these.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where the certificate is.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate and those between it and its authority, in PEM.
    pub cert: PathBuf,
    /// Its private key, in PEM, not encrypted.
    pub key: PathBuf,
}

/// A file that cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {}: {problem}", path.display())]
pub struct BadFile {
    setting: &'static str,
    path: PathBuf,
    problem: String,
}

/// The certificate that is shown to new connections.
pub struct Tls {
    files: TlsFiles,
    first: Pair,
    shown: ArcSwap<ServerConfig>,
}

/// The content of both files.
#[derive(Clone, PartialEq, Eq)]
struct Pair {
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Tls({:?})", self.files)
    }
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// One cannot be read, holds nothing that can be used, or they do not belong together.
    pub async fn read(files: TlsFiles) -> Result<Self, BadFile> {
        let first = files.read().await?;
        let shown = ArcSwap::from_pointee(files.config(&first)?);
        Ok(Self {
            files,
            first,
            shown,
        })
    }

    /// For one new connection.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.shown.load_full())
    }

    /// Follows changes of the files, also where a link in front of both is what changes, until it is
    /// dropped; a server runs it once.
    pub async fn follow(&self, metrics: &Metrics) {
        let mut judged = Ok(self.first.clone());
        let mut before = judged.clone();
        loop {
            sleep(LOOK_EVERY).await;
            let now = self.files.read().await;
            // Two files never change at once: what still differs from the look before is unfinished.
            if now == before && now != judged {
                self.show(&now, metrics);
                judged = now.clone();
            }
            before = now;
        }
    }

    fn show(&self, pair: &Result<Pair, BadFile>, metrics: &Metrics) {
        let config = pair.as_ref().map_err(Clone::clone);
        match config.and_then(|pair| self.files.config(pair)) {
            Ok(config) => {
                self.shown.store(Arc::new(config));
                metrics.certificate_changed("used");
                tracing::info!("new connections are shown the changed certificate");
            }
            Err(error) => {
                metrics.certificate_changed("refused");
                tracing::error!(%error, "the certificate has changed and cannot be used; the one before stays");
            }
        }
    }
}

impl TlsFiles {
    async fn read(&self) -> Result<Pair, BadFile> {
        let read = async |path: &Path| tokio::fs::read(path).await.map_err(|it| it.to_string());
        Ok(Pair {
            cert: read(&self.cert).await.map_err(|it| self.bad_cert(it))?,
            key: read(&self.key).await.map_err(|it| self.bad_key(it))?,
        })
    }

    fn config(&self, pair: &Pair) -> Result<ServerConfig, BadFile> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pair.cert).collect();
        let chain = chain.map_err(|error| self.bad_cert(error.to_string()))?;
        if chain.is_empty() {
            return Err(self.bad_cert("holds no certificate in PEM".to_owned()));
        }
        // The error's own text could repeat what stands in the file.
        let key = PrivateKeyDer::from_pem_slice(&pair.key).map_err(|_secret| {
            self.bad_key("holds no private key in PEM that is not encrypted".to_owned())
        })?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| self.bad_cert(error.to_string()))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| self.bad_pair(&error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    fn bad_pair(&self, error: &rustls::Error) -> BadFile {
        if matches!(error, rustls::Error::InvalidCertificate(_)) {
            return self.bad_cert(error.to_string());
        }
        if matches!(error, rustls::Error::InconsistentKeys(_)) {
            return self.bad_key("is not the key of the certificate in tls.cert_file".to_owned());
        }
        self.bad_key(error.to_string())
    }

    fn bad_cert(&self, problem: String) -> BadFile {
        BadFile {
            setting: "tls.cert_file",
            path: self.cert.clone(),
            problem,
        }
    }

    fn bad_key(&self, problem: String) -> BadFile {
        BadFile {
            setting: "tls.key_file",
            path: self.key.clone(),
            problem,
        }
    }
}
