//! Certificates of one test: an authority of its own, what it signs, and whoever trusts it.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

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
        let params = CertificateParams::new(vec![host.to_owned()]).expect("a host");
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &self.0).expect("signed");
        Signed {
            cert: cert.pem(),
            key: key.serialize_pem(),
        }
    }
}
