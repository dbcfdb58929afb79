//! One certificate authority per control plane, and what it signs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Where a certificate and its key are.
pub struct Pair {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

pub struct Authority {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

impl Authority {
    pub fn new(dir: &Path) -> Result<Authority> {
        fs::create_dir_all(dir)?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "e2e");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        let authority = Authority {
            dir: dir.to_owned(),
            issuer: Issuer::new(params, key),
            pem,
        };
        fs::write(authority.certificate(), &authority.pem)?;
        // Service-account tokens are signed by a key of their own.
        let key = KeyPair::generate()?;
        fs::write(authority.token_key(), key.serialize_pem())?;
        fs::write(authority.token_public_key(), key.public_key_pem())?;
        Ok(authority)
    }

    pub fn certificate(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    pub fn token_key(&self) -> PathBuf {
        self.dir.join("sa.key")
    }

    /// The apiserver finds the public key in an SEC1 private key, but not in PKCS 8, which ring
    /// writes.
    pub fn token_public_key(&self) -> PathBuf {
        self.dir.join("sa.pub")
    }

    /// A certificate that names its bearer to the apiserver.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Pair> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params, &self.dir.join(user.replace(':', "-")))
    }

    /// A serving certificate for DNS names or addresses, as `tls.crt` and `tls.key` in a
    /// directory of its own, which is the layout that controller-runtime reads.
    pub fn server(&self, name: &str, hosts: &[&str]) -> Result<Pair> {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params, &self.dir.join(name))
    }

    fn sign(&self, params: CertificateParams, dir: &Path) -> Result<Pair> {
        fs::create_dir_all(dir)?;
        let key = KeyPair::generate()?;
        let pair = Pair {
            certificate: dir.join("tls.crt"),
            key: dir.join("tls.key"),
        };
        fs::write(
            &pair.certificate,
            params.signed_by(&key, &self.issuer)?.pem(),
        )?;
        fs::write(&pair.key, key.serialize_pem())?;
        Ok(pair)
    }
}
