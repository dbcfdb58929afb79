//! A server that demands certificates answers only who shows the right one.
//!
//! In TLS 1.3 a client counts the handshake as done before the server has looked at its certificate,
//! so each promise is about a request and its answer, not about a connection.

use crate::support;

use std::fs;
use std::time::{Duration, SystemTime};

use hyper::StatusCode;
use muster::certs::Clients;
use rcgen::{ExtendedKeyUsagePurpose, KeyPair};
use support::client::{Http1, admin, metric, review, tls_as};
use support::strict::{Authority, NAME, REFUSED, Strict, VERSIONS, eventually, for_client};
use support::{millis, within};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test]
async fn the_right_certificate_is_answered() {
    let authority = Authority::new();
    let strict = Strict::start(&authority, &[NAME]).await;
    strict.is_answered(&authority.client(NAME)).await;
    assert_eq!(metric(strict.server.admin, REFUSED).await, 0.0);
}

#[tokio::test]
async fn no_certificate_is_not_answered() {
    let strict = Strict::start(&Authority::new(), &[]).await;
    strict.is_not_answered(None).await;
}

#[tokio::test]
async fn a_certificate_of_another_ca_is_not_answered() {
    let strict = Strict::start(&Authority::new(), &[NAME]).await;
    // Of the same name too, so that only the signature tells.
    for other in [Authority::new(), Authority::named("another")] {
        let other = other.client(NAME);
        strict.is_not_answered(Some(&other)).await;
    }
}

#[tokio::test]
async fn a_certificate_of_another_name_is_not_answered() {
    let authority = Authority::new();
    let strict = Strict::start(&authority, &[NAME, "other-apiserver"]).await;
    for name in [
        "system:node:n1",
        "",
        "kube-apiserver.example",
        "KUBE-APISERVER",
    ] {
        let kubelet = authority.client(name);
        strict.is_not_answered(Some(&kubelet)).await;
    }
    let second = authority.client("other-apiserver");
    strict.is_answered(&second).await;
}

#[tokio::test]
async fn the_name_may_be_a_dns_name_and_is_taken_literally() {
    let authority = Authority::new();
    let strict = Strict::start(&authority, &["api.example"]).await;
    let named = authority.sign(for_client("x", &["first.example", "api.example"]));
    strict.is_answered(&named).await;
    let wild = authority.sign(for_client("x", &["*.example"]));
    strict.is_not_answered(Some(&wild)).await;
}

#[tokio::test]
async fn without_names_every_client_of_the_ca_is_answered() {
    let authority = Authority::new();
    let strict = Strict::start(&authority, &[]).await;
    strict.is_answered(&authority.client("anybody")).await;
}

#[tokio::test]
async fn a_certificate_that_is_expired_or_not_for_clients_is_not_answered() {
    let authority = Authority::new();
    let strict = Strict::start(&authority, &[NAME]).await;
    let now = SystemTime::now();
    let mut expired = for_client(NAME, &[]);
    expired.not_before = (now - DAY * 2).into();
    expired.not_after = (now - DAY).into();
    let expired = authority.sign(expired);
    strict.is_not_answered(Some(&expired)).await;

    let mut early = for_client(NAME, &[]);
    early.not_before = (now + DAY).into();
    early.not_after = (now + DAY * 2).into();
    let early = authority.sign(early);
    strict.is_not_answered(Some(&early)).await;

    let mut serving = for_client(NAME, &[]);
    serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let serving = authority.sign(serving);
    strict.is_not_answered(Some(&serving)).await;
}

/// The certificate is public; only its key makes a client the bearer.
#[tokio::test]
async fn a_certificate_without_its_key_is_not_answered() {
    let authority = Authority::new();
    let strict = Strict::start(&authority, &[NAME]).await;
    let (chain, _) = authority.client(NAME);
    let (_, key) = authority.client(NAME);
    strict.is_not_answered(Some(&(chain, key))).await;
}

#[tokio::test]
async fn a_new_ca_counts_for_new_connections_and_open_ones_stay() {
    let (old, new) = (Authority::new(), Authority::new());
    let (old_client, new_client) = (old.client(NAME), new.client(NAME));
    let strict = Strict::start(&old, &[NAME]).await;
    let mut open = Vec::new();
    for version in VERSIONS {
        let identity = (old_client.0.clone(), old_client.1.clone_key());
        let stream = tls_as(&strict.server, Some(identity), version).await;
        let mut connection = Http1::over(stream.unwrap()).await.unwrap();
        connection.send(review("/mutate", "x")).await.unwrap();
        open.push(connection);
    }
    strict.is_not_answered(Some(&new_client)).await;

    // Both for a while, as one rotates.
    fs::write(strict.file(), format!("{}{}", old.pem, new.pem)).unwrap();
    eventually(async || strict.reloads("taken").await == 1.0).await;
    strict.is_answered(&old_client).await;
    strict.is_answered(&new_client).await;

    fs::write(strict.file(), &new.pem).unwrap();
    eventually(async || strict.reloads("taken").await == 2.0).await;
    strict.is_answered(&new_client).await;
    strict.is_not_answered(Some(&old_client)).await;
    for connection in &mut open {
        let reply = within(5, connection.send(review("/mutate", "x"))).await;
        assert_eq!(reply.unwrap().status, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_spoilt_file_leaves_the_old_ca_in_use() {
    let authority = Authority::new();
    let strict = Strict::start(&authority, &[NAME]).await;
    let client = authority.client(NAME);
    let leaf = for_client(NAME, &[]);
    let leaf = leaf.self_signed(&KeyPair::generate().unwrap()).unwrap();
    let spoilt = ["", "rubbish", &format!("{}{}", authority.pem, leaf.pem())];
    let mut told = 0.0;
    for text in spoilt {
        fs::write(strict.file(), text).unwrap();
        // An empty file and rubbish are the same trouble, which is told once.
        told += if text == "rubbish" { 0.0 } else { 1.0 };
        tokio::time::sleep(millis(200)).await;
        eventually(async || strict.reloads("refused").await == told).await;
        strict.is_answered(&client).await;
        strict.is_not_answered(None).await;
    }
    fs::remove_file(strict.file()).unwrap();
    eventually(async || strict.reloads("refused").await == told + 1.0).await;
    strict.is_answered(&client).await;

    let new = Authority::new();
    fs::write(strict.file(), &new.pem).unwrap();
    eventually(async || strict.reloads("taken").await == 1.0).await;
    strict.is_not_answered(Some(&client)).await;
    strict.is_answered(&new.client(NAME)).await;
}

#[tokio::test]
async fn health_and_metrics_need_no_certificate() {
    let strict = Strict::start(&Authority::new(), &[NAME]).await;
    for path in ["/livez", "/readyz", "/metrics"] {
        let reply = admin(strict.server.admin, path).await;
        assert_eq!(reply.status, StatusCode::OK, "{path}");
    }
}

#[test]
fn a_file_that_holds_no_ca_is_told_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.crt");
    let authority = Authority::new();
    let told = || {
        let error = Clients::open(&file, &[]).unwrap_err().to_string();
        error.replace(dir.path().to_str().unwrap(), "DIR")
    };
    insta::assert_snapshot!(told(), @"cannot read DIR/ca.crt: No such file or directory (os error 2)");
    fs::create_dir(&file).unwrap();
    insta::assert_snapshot!(told(), @"cannot read DIR/ca.crt: Is a directory (os error 21)");
    fs::remove_dir(&file).unwrap();
    fs::write(&file, "").unwrap();
    insta::assert_snapshot!(told(), @"DIR/ca.crt: there is no certificate in the PEM text");
    fs::write(&file, "-----BEGIN CERTIFICATE-----\nAAAA").unwrap();
    insta::assert_snapshot!(told(), @"DIR/ca.crt: it is not PEM, or is cut off");
    let not_x509 = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    fs::write(&file, format!("{}{not_x509}", authority.pem)).unwrap();
    insta::assert_snapshot!(told(), @"DIR/ca.crt: certificate 2 is not X.509");
    let leaf = for_client(NAME, &[]);
    let leaf = leaf.self_signed(&KeyPair::generate().unwrap()).unwrap();
    fs::write(&file, leaf.pem()).unwrap();
    insta::assert_snapshot!(told(), @"DIR/ca.crt: certificate 1 is not the certificate of a CA");
}
