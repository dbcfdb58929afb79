//! Who may call: the CAs whose client certificates are taken, and the names that they must carry.
//!
//! The file of CAs is followed while the server runs, in the way of the server's own certificate. A
//! change counts from the next handshake on; connections that are open stay. Nothing here knows of
//! sockets, or of what a caller may ask.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, RootCertStore,
    SignatureScheme,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use super::reload::{POLL, Reloads};
use super::{Error, files};

/// Why a file is not a bundle of CAs.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// It has no certificate in it.
    #[error("there is no certificate in the PEM text")]
    Empty,
    /// It is not PEM.
    #[error("it is not PEM, or is cut off")]
    Pem(#[source] pem::Error),
    /// A certificate in it cannot be decoded.
    #[error("certificate {number} is not X.509")]
    X509 {
        /// Its place in the file, from 1.
        number: usize,
    },
    /// A certificate in it may not sign others, so that nobody could be let in by it.
    #[error("certificate {number} is not the certificate of a CA")]
    NotAuthority {
        /// Its place in the file, from 1.
        number: usize,
    },
    /// The TLS library does not take it.
    #[error("the TLS library refuses it: {0}")]
    Unusable(String),
}

/// A certificate of the right CA and of the wrong bearer.
#[derive(Debug, thiserror::Error)]
#[error("it is for {found:?}, which is none of the names that may call")]
struct WrongName {
    found: String,
}

struct Loaded {
    pem: Vec<u8>,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// The callers that a TLS listener lets in.
pub struct Clients {
    file: PathBuf,
    /// Whose certificates are taken; of anybody whom the CAs certify, if there are none.
    names: Vec<String>,
    every: Duration,
    current: ArcSwap<Loaded>,
    taken: AtomicU64,
    refused: AtomicU64,
    /// The last refusal, so that the same trouble is told once and not at every tick.
    complaint: Mutex<Option<String>>,
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients")
            .field("file", &self.file)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl Clients {
    /// Reads the CAs. Each name is one that a certificate may carry, as its common name or as a DNS
    /// name; without names every certificate of the CAs will do.
    pub fn open(file: &Path, names: &[String]) -> Result<Self, Error> {
        Ok(Self {
            file: file.to_owned(),
            names: names.to_vec(),
            every: POLL,
            current: ArcSwap::from_pointee(load(file, files::read_file(file)?)?),
            taken: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            complaint: Mutex::new(None),
        })
    }

    /// Polls at another interval than ten seconds.
    pub fn polled_every(mut self, interval: Duration) -> Self {
        self.every = interval;
        self
    }

    /// Follows the file until the future is dropped.
    pub(crate) async fn keep_fresh(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.every).await;
            let this = Arc::clone(&self);
            if let Err(error) = tokio::task::spawn_blocking(move || this.refresh()).await {
                tracing::error!(%error, "the check of the client CA failed");
            }
        }
    }

    fn refresh(&self) {
        // A second look at once: kubelet may have removed the old directory in between.
        let read = files::read_file(&self.file).or_else(|_| files::read_file(&self.file));
        let news = match read {
            Ok(pem) if pem == self.current.load().pem => None,
            Ok(pem) => Some(load(&self.file, pem)),
            Err(error) => Some(Err(error)),
        };
        let complaint = match news {
            None => None,
            Some(Ok(loaded)) => {
                self.current.store(Arc::new(loaded));
                self.taken.fetch_add(1, Ordering::Relaxed);
                tracing::info!("new client CA in use");
                None
            }
            Some(Err(error)) => Some(error.to_string()),
        };
        let mut last = self
            .complaint
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = complaint.as_ref().filter(|_| *last != complaint) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            tracing::error!(error, "new client CA refused, the old one stays in use");
        }
        *last = complaint;
    }

    /// How often the CAs were replaced or refused so far.
    pub(crate) fn reloads(&self) -> Reloads {
        Reloads {
            taken: self.taken.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// Whether the bearer is one that may call. The chain is verified already.
    fn check_name(&self, der: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        if self.names.is_empty() {
            return Ok(());
        }
        let (_, parsed) =
            X509Certificate::from_der(der).map_err(|_| CertificateError::BadEncoding)?;
        let found = names(&parsed);
        if found.iter().any(|name| self.names.contains(name)) {
            return Ok(());
        }
        // Cut: it goes to the log.
        let found = found.join(", ").chars().take(200).collect();
        let wrong = OtherError(Arc::new(WrongName { found }));
        Err(CertificateError::Other(wrong).into())
    }
}

/// The common name and the DNS names.
fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let common = certificate.subject().iter_common_name();
    let common = common.filter_map(|name| name.as_str().ok());
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let alternative = alternative.into_iter().flat_map(|names| {
        let names = names.value.general_names.iter();
        names.filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(*name),
            _ => None,
        })
    });
    common.chain(alternative).map(str::to_owned).collect()
}

fn load(file: &Path, pem: Vec<u8>) -> Result<Loaded, Error> {
    match verifier(&pem) {
        Ok(verifier) => Ok(Loaded { pem, verifier }),
        Err(source) => Err(Error::Bundle {
            path: file.to_owned(),
            source,
        }),
    }
}

fn verifier(pem: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, BundleError> {
    let mut roots = RootCertStore::empty();
    for (number, der) in (1..).zip(CertificateDer::pem_slice_iter(pem)) {
        let der = der.map_err(BundleError::Pem)?;
        let (_, parsed) =
            X509Certificate::from_der(&der).map_err(|_| BundleError::X509 { number })?;
        if !parsed.is_ca() {
            return Err(BundleError::NotAuthority { number });
        }
        let added = roots.add(der);
        added.map_err(|error| BundleError::Unusable(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(BundleError::Empty);
    }
    let provider = Arc::new(ring::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| BundleError::Unusable(error.to_string()))
}

impl ClientCertVerifier for Clients {
    /// None: a client then sends the certificate that it has. Go sends none at all when its issuer is
    /// not among the hints, and the log would not tell a wrong certificate from a missing one.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let loaded = self.current.load();
        let verified = loaded
            .verifier
            .verify_client_cert(end_entity, intermediates, now)?;
        self.check_name(end_entity)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let loaded = self.current.load();
        loaded.verifier.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let loaded = self.current.load();
        loaded.verifier.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.current.load().verifier.supported_verify_schemes()
    }
}
