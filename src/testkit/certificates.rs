//! Certificates of one test: an authority of its own, what it signs, and whoever trusts it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::transport::tls::TlsFiles;

/// An authority that only its own test trusts.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
#[derive(Debug, Clone)]
pub struct Signed {
    /// The certificate.
    pub cert: String,
    /// Its private key.
    pub key: String,
}

impl Authority {
    /// A new one; two of the same name are not the same.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("signed"))
    }

    /// Its own certificate, in PEM.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for a host's name or address.
    pub fn sign(&self, host: &str) -> Signed {
        self.sign_until(host, 2100)
    }

    /// The same, over since long ago.
    pub fn sign_expired(&self, host: &str) -> Signed {
        self.sign_until(host, 2000)
    }

    fn sign_until(&self, host: &str, year: i32) -> Signed {
        let mut params = CertificateParams::new(vec![host.to_owned()]).expect("a host");
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &self.0).expect("signed");
        Signed {
            cert: cert.pem(),
            key: key.serialize_pem(),
        }
    }

    /// A client that trusts this authority alone and asks for no protocol.
    pub fn client(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("an authority");
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring knows them")
            .with_root_certificates(roots)
            .with_no_client_auth()
    }
}

impl Signed {
    /// Writes both into a folder, under the names that Kubernetes gives them.
    pub fn write(&self, folder: &Path) -> TlsFiles {
        let files = TlsFiles {
            cert: folder.join("tls.crt"),
            key: folder.join("tls.key"),
        };
        fs::write(&files.cert, &self.cert).expect("written");
        fs::write(&files.key, &self.key).expect("written");
        files
    }
}
