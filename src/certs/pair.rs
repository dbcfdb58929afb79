//! A certificate chain and its private key, checked to belong together.
//!
//! It knows PEM and X.509, not where the bytes come from.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;

/// Why two PEM files are not a certificate pair.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// The file has no certificate in it.
    #[error("there is no certificate in the PEM text")]
    Empty,
    /// The certificate file is not PEM.
    #[error("the certificate is not PEM: {0}")]
    Certificate(pem::Error),
    /// The key file is not PEM.
    #[error("the private key is not PEM: {0}")]
    Key(pem::Error),
    /// The certificate cannot be decoded.
    #[error("the certificate is not X.509: {0}")]
    X509(String),
    /// The key is not the certificate's.
    #[error("the certificate and the private key do not belong together: {0}")]
    Mismatch(rustls::Error),
}

/// The time in which a certificate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first moment at which it is valid.
    pub not_before: SystemTime,
    /// The last moment at which it is valid.
    pub not_after: SystemTime,
}

/// A certificate that does not count now. Times are seconds since 1970, as in the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OutOfValidity {
    /// Its validity ended at this time.
    #[error("it expired at {}", seconds(*.0))]
    Expired(SystemTime),
    /// Its validity starts at this time.
    #[error("it is not valid before {}", seconds(*.0))]
    NotYet(SystemTime),
}

impl Validity {
    /// Whether the certificate counts at that moment of the wall clock.
    pub(crate) fn check(&self, now: SystemTime) -> Result<(), OutOfValidity> {
        if now >= self.not_after {
            return Err(OutOfValidity::Expired(self.not_after));
        }
        if now < self.not_before {
            return Err(OutOfValidity::NotYet(self.not_before));
        }
        Ok(())
    }
}

/// Seconds since 1970.
pub fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// What of a leaf matters to its renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// When it is valid.
    pub validity: Validity,
    /// DNS names and addresses, as text.
    pub names: Vec<String>,
    /// The identifier of its own key.
    pub subject_key_id: Option<Vec<u8>>,
    pub(crate) authority_key_id: Option<Vec<u8>>,
}

/// A chain and its key, ready to serve.
pub struct Pair {
    pub(crate) key: Arc<CertifiedKey>,
    /// What is known of the leaf.
    pub facts: Facts,
}

impl fmt::Debug for Pair {
    /// The key stays out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair")
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}

impl Pair {
    /// Reads a pair, and checks that the key is the certificate's.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, PairError> {
        let chain = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(PairError::Certificate)?;
        let facts = facts(chain.first().ok_or(PairError::Empty)?)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(PairError::Key)?;
        let key = CertifiedKey::from_der(chain, key, &ring::default_provider())
            .map_err(PairError::Mismatch)?;
        Ok(Self {
            key: Arc::new(key),
            facts,
        })
    }
}

fn facts(der: &CertificateDer<'_>) -> Result<Facts, PairError> {
    let (_, parsed) =
        X509Certificate::from_der(der).map_err(|error| PairError::X509(error.to_string()))?;
    let at = |time: x509_parser::time::ASN1Time| {
        UNIX_EPOCH + Duration::from_secs(u64::try_from(time.timestamp()).unwrap_or(0))
    };
    let mut facts = Facts {
        validity: Validity {
            not_before: at(parsed.validity().not_before),
            not_after: at(parsed.validity().not_after),
        },
        names: Vec::new(),
        subject_key_id: None,
        authority_key_id: None,
    };
    for extension in parsed.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::SubjectAlternativeName(names) => {
                facts.names = names.general_names.iter().filter_map(name).collect();
            }
            ParsedExtension::SubjectKeyIdentifier(id) => {
                facts.subject_key_id = Some(id.0.to_vec());
            }
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                facts.authority_key_id = id.key_identifier.as_ref().map(|id| id.0.to_vec());
            }
            _ => {}
        }
    }
    Ok(facts)
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(dns) => Some((*dns).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let address = match bytes.len() {
                4 => IpAddr::from(<[u8; 4]>::try_from(*bytes).ok()?),
                _ => IpAddr::from(<[u8; 16]>::try_from(*bytes).ok()?),
            };
            Some(address.to_string())
        }
        _ => None,
    }
}
