//! The keys of one lab run: a CA of its own, a server certificate for the external name, and the identity that
//! sidecar and gateway show each other. Made at start, kept in memory and in Envoy's configuration, gone at the end.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, version};

use crate::lab::envoy::bootstrap;

/// The CAs that clients of the lab trust.
#[derive(Debug, Clone)]
pub struct Roots {
    store: Arc<RootCertStore>,
    pem: String,
}

/// Certificates and keys, in the shapes that backends, clients and Envoy take.
#[derive(Debug, Clone)]
pub struct Trust {
    roots: Roots,
    server_cert: CertificateDer<'static>,
    server_key: Arc<PrivateKeyDer<'static>>,
    envoy: bootstrap::Trust,
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// rcgen refused; the name is the only input.
    #[error("no certificate can be made for {host:?}")]
    Certificate {
        /// The external name.
        host: String,
        /// rcgen's reason.
        source: rcgen::Error,
    },
    /// What a backend says is its CA is none.
    #[error("the CA is no PEM")]
    Pem(#[from] pem::Error),
    /// rustls refused what rcgen made.
    #[error("TLS cannot be set up")]
    Tls(#[from] tokio_rustls::rustls::Error),
}

impl Trust {
    /// New keys for the external name `host`.
    ///
    /// # Errors
    /// A host that cannot stand in a certificate.
    pub fn generate(host: &str) -> Result<Self, TrustError> {
        let made = make(host).map_err(|source| TrustError::Certificate { host: host.to_owned(), source })?;
        Ok(Self {
            roots: Roots::from_pem(&made.ca.pem())?,
            server_cert: made.server.0.der().clone(),
            server_key: Arc::new(PrivatePkcs8KeyDer::from(made.server.1.serialize_der()).into()),
            envoy: bootstrap::Trust {
                ca_pem: made.ca.pem(),
                mesh_cert_pem: made.mesh.0.pem(),
                mesh_key_pem: made.mesh.1.serialize_pem(),
            },
        })
    }

    /// What Envoy is given.
    #[must_use]
    pub fn envoy(&self) -> &bootstrap::Trust {
        &self.envoy
    }

    /// TLS of a backend: HTTP/2 and HTTP/1.1 by ALPN.
    ///
    /// # Errors
    /// rustls refuses the key pair.
    pub fn server(&self) -> Result<ServerConfig, TrustError> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])?
            .with_no_client_auth()
            .with_single_cert(vec![self.server_cert.clone()], self.server_key.clone_key())?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// What clients trust.
    #[must_use]
    pub const fn roots(&self) -> &Roots {
        &self.roots
    }
}

impl Roots {
    /// One CA or several, as PEM.
    ///
    /// # Errors
    /// No PEM, or no CA in it.
    pub fn from_pem(pem: &str) -> Result<Self, TrustError> {
        let mut store = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            store.add(certificate?)?;
        }
        Ok(Self { store: Arc::new(store), pem: pem.to_owned() })
    }

    /// As PEM.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// TLS of a client that trusts these only and offers the one protocol `alpn`.
    ///
    /// # Errors
    /// rustls refuses its own defaults.
    pub fn client(&self, alpn: &[u8]) -> Result<ClientConfig, TrustError> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])?
            .with_root_certificates(Arc::clone(&self.store))
            .with_no_client_auth();
        config.alpn_protocols = vec![alpn.to_vec()];
        // Every connection pays for its own handshake, as a new client would.
        config.resumption = tokio_rustls::rustls::client::Resumption::disabled();
        Ok(config)
    }
}

struct Made {
    ca: CertifiedIssuer<'static, KeyPair>,
    server: (rcgen::Certificate, KeyPair),
    mesh: (rcgen::Certificate, KeyPair),
}

fn make(host: &str) -> Result<Made, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // A leaf whose subject equals its issuer counts as self-signed in BoringSSL: each needs a name of its own.
    params.distinguished_name.push(DnType::CommonName, "egress-audit lab CA");
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let leaf = |name: &str| {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![name.to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &ca)?;
        Ok::<_, rcgen::Error>((certificate, key))
    };
    Ok(Made { server: leaf(host)?, mesh: leaf("egress-gateway.lab")?, ca })
}
