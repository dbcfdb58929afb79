//! A server that demands certificates of its clients, and a CA that makes them.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use hyper::StatusCode;
use muster::certs::{Clients, Subject};
use muster::server::Server;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::SupportedProtocolVersion;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::version::{TLS12, TLS13};
use tempfile::TempDir;

use super::client::{Failure, Http1, Identity, Reply, metric, review, tls_as};
use super::{Running, config, echo, in_memory, millis, within};

pub const NAME: &str = "kube-apiserver";
pub const REFUSED: &str = r#"muster_tls_handshake_failures_total{reason="client_certificate"}"#;
const RELOADS: &str = "muster_client_ca_reloads_total";
pub const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// A CA that certifies clients.
pub struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Self {
        Self::named("test")
    }

    pub fn named(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    pub fn client(&self, common_name: &str) -> Identity {
        self.sign(for_client(common_name, &[]))
    }

    pub fn sign(&self, params: CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        (vec![certificate.der().clone()], PrivateKeyDer::from(key))
    }
}

pub fn for_client(common_name: &str, dns_names: &[&str]) -> CertificateParams {
    let dns_names: Vec<String> = dns_names.iter().map(|&name| name.into()).collect();
    let mut params = CertificateParams::new(dns_names).unwrap();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

/// A server that demands certificates, and the file that says whose.
pub struct Strict {
    pub server: Running,
    dir: TempDir,
}

impl Strict {
    pub async fn start(authority: &Authority, names: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ca.crt");
        fs::write(&file, &authority.pem).unwrap();
        let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
        let clients = Clients::open(&file, &names)
            .unwrap()
            .polled_every(millis(20));
        let certificates = Arc::new(in_memory(Subject::default()));
        let mut server = Server::bind(config(), certificates, echo()).await.unwrap();
        server.demand_certificates(clients).unwrap();
        let server = super::run(server);
        Self { server, dir }
    }

    pub fn file(&self) -> PathBuf {
        self.dir.path().join("ca.crt")
    }

    /// One review by a connection of its own.
    async fn call(
        &self,
        identity: Option<&Identity>,
        version: &'static SupportedProtocolVersion,
    ) -> Result<Reply, Failure> {
        let identity = identity.map(|(chain, key)| (chain.clone(), key.clone_key()));
        let call = async {
            let stream = tls_as(&self.server, identity, version).await?;
            let mut connection = Http1::over(stream).await?;
            connection.send(review("/mutate", "asked")).await
        };
        within(10, call).await
    }

    pub async fn is_answered(&self, identity: &Identity) {
        for version in VERSIONS {
            let reply = self.call(Some(identity), version).await;
            let reply = reply.unwrap_or_else(|error| panic!("{version:?}: {error}"));
            assert_eq!(reply.status, StatusCode::OK);
            assert_eq!(reply.text, "asked");
        }
    }

    /// And each time is counted as what it is.
    pub async fn is_not_answered(&self, identity: Option<&Identity>) {
        let before = metric(self.server.admin, REFUSED).await;
        for version in VERSIONS {
            let reply = self.call(identity, version).await;
            assert!(reply.is_err(), "{version:?}: {reply:?}");
        }
        let count = async || metric(self.server.admin, REFUSED).await - before;
        eventually(async || count().await >= 2.0).await;
        assert_eq!(count().await, 2.0);
    }

    pub async fn reloads(&self, result: &str) -> f64 {
        let series = format!(r#"{RELOADS}{{result="{result}"}}"#);
        metric(self.server.admin, &series).await
    }
}

/// Waits for a condition, for at most ten seconds.
pub async fn eventually(condition: impl AsyncFn() -> bool) {
    within(10, async {
        while !condition().await {
            tokio::time::sleep(millis(10)).await;
        }
    })
    .await;
}
