//! A certificate authority of our own, and the leaves that it signs.
//!
//! It knows keys and names; it touches no file and starts no task.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};

use super::Error;
use super::pair::{Facts, Pair, Validity};
use super::rotation::{BACKDATE, Lifetime};

/// Where Muster is installed, unless somebody says otherwise.
const NAMESPACE: &str = "muster-system";

/// What a leaf is made for: its names (DNS or IP addresses) and how long it lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    pub(crate) names: Vec<String>,
    pub(crate) lifetime: Lifetime,
}

impl Default for Subject {
    fn default() -> Self {
        Self::within(NAMESPACE)
    }
}

impl Subject {
    /// The names that a server in this namespace answers to. The apiserver asks for
    /// `<service>.<namespace>.svc`, and pods that wait ask each replica of the other Service.
    pub fn within(namespace: &str) -> Self {
        let names = [
            &format!("muster.{namespace}.svc"),
            &format!("muster.{namespace}.svc.cluster.local"),
            &format!("muster-barrier.{namespace}.svc"),
            "localhost",
            "127.0.0.1",
            "::1",
        ];
        Self {
            names: names.map(String::from).to_vec(),
            lifetime: Lifetime::LEAF,
        }
    }

    /// The usual names and these.
    pub fn also_named(mut self, extra: &[String]) -> Self {
        for name in extra {
            let name = canonical(name);
            if !self.names.contains(&name) {
                self.names.push(name);
            }
        }
        self
    }

    /// The same with another lifetime.
    pub fn living(mut self, lifetime: impl Into<Lifetime>) -> Self {
        self.lifetime = lifetime.into();
        self
    }

    /// Whether a leaf may go on being used: it has all the names and the next one is not due.
    pub(crate) fn is_met_by(&self, leaf: &Facts, now: SystemTime) -> bool {
        self.names
            .iter()
            .all(|name| leaf.names.contains(&canonical(name)))
            && now < self.lifetime.renewal_due(&leaf.validity)
            && leaf.validity.check(now).is_ok()
    }
}

/// An address as it is read back from a certificate: `0:0::1` becomes `::1`. Otherwise a leaf would
/// seem to lack the name, and be recreated at every check.
fn canonical(name: &str) -> String {
    match name.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => name.to_owned(),
    }
}

/// A certificate and its key as PEM text.
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// The private key, PKCS #8.
    pub key: String,
}

/// A CA with its key in memory.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    facts: Facts,
}

impl Authority {
    /// A new CA with a new key, valid from `now`.
    pub fn generate(now: SystemTime) -> Result<Self, Error> {
        Self::living(Lifetime::AUTHORITY, now)
    }

    /// The same with another lifetime.
    pub fn living(lifetime: Lifetime, now: SystemTime) -> Result<Self, Error> {
        let key = key()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name("Muster CA");
        // No CA below this one: it signs leaves only.
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = (now - BACKDATE).into();
        params.not_after = (now + lifetime.whole).into();
        let certificate = params.self_signed(&key)?.pem();
        Self::from_pem(&certificate, &key.serialize_pem())
    }

    pub(crate) fn from_pem(certificate: &str, key: &str) -> Result<Self, Error> {
        let facts = Pair::from_pem(certificate.as_bytes(), key.as_bytes())?.facts;
        Ok(Self {
            issuer: Issuer::from_ca_cert_pem(certificate, KeyPair::from_pem(key)?)?,
            certificate: certificate.to_owned(),
            facts,
        })
    }

    /// Signs a new leaf with a new key.
    pub fn issue(&self, subject: &Subject, now: SystemTime) -> Result<Issued, Error> {
        let key = key()?;
        let mut params = CertificateParams::new(subject.names.clone())?;
        params.distinguished_name = common_name("muster");
        // "Explicit" so that the leaf carries a subject key identifier too.
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.not_before = (now - BACKDATE).into();
        // A leaf that outlives its CA would look healthy and be refused.
        let end = (now + subject.lifetime.whole).min(self.facts.validity.not_after);
        params.not_after = end.into();
        Ok(Issued {
            certificate: params.signed_by(&key, &self.issuer)?.pem(),
            key: key.serialize_pem(),
        })
    }

    /// Whether this CA signed that leaf, by their key identifiers.
    pub fn signed(&self, leaf: &Facts) -> bool {
        leaf.authority_key_id.is_some() && leaf.authority_key_id == self.facts.subject_key_id
    }

    /// When its certificate is valid.
    pub fn validity(&self) -> Validity {
        self.facts.validity
    }

    /// What clients must trust.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate
    }

    /// The private key, for the Secret that keeps it.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }
}

/// The CA that signs leaves now. Clones share it, so that whoever keeps the CAs can change it under
/// a running server.
#[derive(Clone)]
pub struct Signer {
    authority: Arc<ArcSwap<Authority>>,
    /// What clients that keep it should trust, as PEM.
    trusted: Arc<ArcSwap<String>>,
}

impl Signer {
    /// Signs with this CA until it is replaced.
    pub fn new(authority: Authority) -> Self {
        let trusted = authority.certificate_pem().to_owned();
        Self {
            authority: Arc::new(ArcSwap::from_pointee(authority)),
            trusted: Arc::new(ArcSwap::from_pointee(trusted)),
        }
    }

    /// The CA that signs now.
    pub fn current(&self) -> Arc<Authority> {
        self.authority.load_full()
    }

    /// Signs with another CA from now on.
    pub fn replace(&self, authority: Authority) {
        if !self.trusted().contains(authority.certificate_pem()) {
            self.trust(authority.certificate_pem().to_owned());
        }
        self.authority.store(Arc::new(authority));
    }

    /// All CAs that sign or may sign soon: whoever keeps one of them alone would not know the next.
    pub(crate) fn trusted(&self) -> Arc<String> {
        self.trusted.load_full()
    }

    /// Says what they are.
    pub fn trust(&self, bundle: String) {
        self.trusted.store(Arc::new(bundle));
    }
}

/// P-256: the apiserver keeps no TLS sessions, so every new connection pays a full handshake, and
/// an RSA signature costs many times more.
fn key() -> Result<KeyPair, rcgen::Error> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}
