//! TLS versions, and certificates that change while the server serves.

use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use hyper::StatusCode;
use muster::certs::pair::seconds;
use muster::certs::{Certificates, Source, Subject};
use rustls::ProtocolVersion;
use rustls::version::{TLS12, TLS13};
use support::client::{Http1, admin, metric, raw, review, tls};
use support::secret::Secret;
use support::{Running, config, echo, in_memory, millis, start, start_with, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const DAY: Duration = Duration::from_secs(24 * 3600);
const EXPIRY: &str = "muster_certificate_expiry_timestamp_seconds";
const TAKEN: &str = r#"muster_certificate_reloads_total{result="taken"}"#;
const REFUSED: &str = r#"muster_certificate_reloads_total{result="refused"}"#;

#[tokio::test]
async fn tls_1_2_and_tls_1_3_are_both_served() {
    let server = start(config(), echo()).await;
    for (offered, expected) in [
        (&TLS12, ProtocolVersion::TLSv1_2),
        (&TLS13, ProtocolVersion::TLSv1_3),
    ] {
        let stream = tls(&server, &["http/1.1"], &[offered]).await.unwrap();
        assert_eq!(stream.get_ref().1.protocol_version(), Some(expected));
        let mut connection = Http1::over(stream).await.unwrap();
        let reply = within(5, connection.send(review("/mutate", "x")))
            .await
            .unwrap();
        assert_eq!(reply.status, StatusCode::OK, "{expected:?}");
    }
}

#[tokio::test]
async fn a_failed_handshake_is_counted_and_harms_nobody() {
    let server = start(config(), echo()).await;
    let mut plain = TcpStream::connect(server.webhook).await.unwrap();
    plain
        .write_all(b"POST /mutate HTTP/1.1\r\n\r\n")
        .await
        .unwrap();
    let mut rest = Vec::new();
    let _ = within(5, plain.read_to_end(&mut rest)).await;
    assert!(!rest.starts_with(b"HTTP"), "no plain HTTP on the TLS port");
    // A port probe: opened and closed.
    drop(TcpStream::connect(server.webhook).await.unwrap());

    let count = async |reason: &str| {
        let series = format!(r#"muster_tls_handshake_failures_total{{reason="{reason}"}}"#);
        metric(server.admin, &series).await
    };
    eventually(async || count("refused").await == 1.0 && count("closed").await == 1.0).await;
    assert_eq!(
        support::client::post(&server, "/mutate", "x").await.status,
        200
    );
}

/// Waits for a condition, for at most ten seconds.
async fn eventually(condition: impl AsyncFn() -> bool) {
    within(10, async {
        while !condition().await {
            tokio::time::sleep(millis(10)).await;
        }
    })
    .await;
}

fn following(secret: &Secret) -> Certificates {
    let certificates = Certificates::open(Source::Files(secret.dir())).unwrap();
    certificates.polled_every(millis(20))
}

/// The leaf that a new connection is shown.
async fn served_leaf(server: &Running) -> Vec<u8> {
    let stream = raw(server).await;
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_secret_rotations_under_load_fail_no_request() {
    let mut secret = Secret::with_leaf(DAY);
    let server = Arc::new(start_with(config(), following(&secret), echo()).await);
    let stop = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicU64::new(0));

    let load = |new_connection_each_time: fn(u64) -> bool| {
        let (server, stop, answered) = (server.clone(), stop.clone(), answered.clone());
        tokio::spawn(async move {
            let mut connection = Http1::connect(&server).await;
            for n in 0.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                if new_connection_each_time(n) {
                    connection = Http1::connect(&server).await;
                }
                let reply = connection.send(review("/mutate", format!("{n}"))).await;
                assert_eq!(reply.expect("no failed call").status, StatusCode::OK);
                answered.fetch_add(1, Ordering::SeqCst);
            }
        })
    };
    let clients = [
        load(|_| false),
        load(|_| false),
        load(|_| true),
        load(|n| n % 3 == 0),
    ];

    let mut leaves = vec![served_leaf(&server).await];
    for rotation in 1..=2_u64 {
        let before = answered.load(Ordering::SeqCst);
        eventually(async || answered.load(Ordering::SeqCst) > before + 50).await;
        secret.rotate(DAY * (rotation as u32 + 1));
        eventually(async || metric(server.admin, TAKEN).await == rotation as f64).await;
        let leaf = served_leaf(&server).await;
        assert!(
            !leaves.contains(&leaf),
            "a new connection sees the new certificate"
        );
        leaves.push(leaf);
        let expected = seconds(SystemTime::now() + DAY * (rotation as u32 + 1)) as f64;
        let expiry = metric(server.admin, EXPIRY).await;
        assert!(
            (expiry - expected).abs() < 30.0,
            "{expiry} is not near {expected}"
        );
        let after = answered.load(Ordering::SeqCst);
        eventually(async || answered.load(Ordering::SeqCst) > after + 50).await;
    }
    stop.store(true, Ordering::SeqCst);
    for client in clients {
        within(10, client).await.expect("no client failed");
    }
    assert_eq!(metric(server.admin, REFUSED).await, 0.0);
}

#[tokio::test]
async fn a_broken_pair_is_refused_once_and_the_old_stays_until_a_sound_one_comes() {
    let mut secret = Secret::with_leaf(DAY);
    let server = start_with(config(), following(&secret), echo()).await;
    let old = served_leaf(&server).await;
    let expiry = metric(server.admin, EXPIRY).await;

    secret.put("rubbish", "rubbish");
    eventually(async || metric(server.admin, REFUSED).await == 1.0).await;
    secret.put_mismatch();
    eventually(async || metric(server.admin, REFUSED).await == 2.0).await;
    // Expired the moment it was made: it would replace one that works.
    secret.rotate(Duration::ZERO);
    eventually(async || metric(server.admin, REFUSED).await == 3.0).await;
    // Several polls later each is still told once.
    tokio::time::sleep(millis(200)).await;
    assert_eq!(metric(server.admin, REFUSED).await, 3.0);
    assert_eq!(metric(server.admin, TAKEN).await, 0.0);
    assert_eq!(served_leaf(&server).await, old);
    assert_eq!(metric(server.admin, EXPIRY).await, expiry);
    assert_eq!(admin(server.admin, "/readyz").await.status, StatusCode::OK);

    secret.rotate(DAY);
    eventually(async || metric(server.admin, TAKEN).await == 1.0).await;
    assert_ne!(served_leaf(&server).await, old);
}

#[tokio::test]
async fn an_expired_certificate_makes_the_server_unready() {
    let secret = Secret::with_leaf(Duration::from_secs(2));
    let server = start_with(config(), following(&secret), echo()).await;
    let ready = async || admin(server.admin, "/readyz").await;
    eventually(async || ready().await.status == StatusCode::SERVICE_UNAVAILABLE).await;
    let reply = ready().await;
    assert!(
        reply.text.contains("certificate: it expired at "),
        "{}",
        reply.text
    );
    assert_eq!(admin(server.admin, "/livez").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_leaf_of_our_own_is_renewed_before_it_expires() {
    let lifetime = Duration::from_secs(4);
    let certificates = in_memory(Subject::default().living(lifetime)).polled_every(millis(20));
    let server = start_with(config(), certificates, echo()).await;
    renews_itself(&server, lifetime).await;
}

#[tokio::test]
async fn a_development_leaf_is_renewed_before_it_expires() {
    let dir = tempfile::tempdir().unwrap();
    let lifetime = Duration::from_secs(4);
    let source = Source::Development {
        dir: dir.path().to_owned(),
        subject: Subject::default().living(lifetime),
    };
    let certificates = Certificates::open(source).unwrap().polled_every(millis(20));
    let server = start_with(config(), certificates, echo()).await;
    renews_itself(&server, lifetime).await;
}

/// For longer than one leaf lives, every new client trusts what it is shown and the server is ready.
async fn renews_itself(server: &Running, lifetime: Duration) {
    let first = served_leaf(server).await;
    let end = SystemTime::now() + lifetime * 3 / 2;
    while SystemTime::now() < end {
        let reply = support::client::post(server, "/mutate", "x").await;
        assert_eq!(reply.status, StatusCode::OK);
        assert_eq!(admin(server.admin, "/readyz").await.status, StatusCode::OK);
        tokio::time::sleep(millis(50)).await;
    }
    assert_ne!(served_leaf(server).await, first);
    assert!(metric(server.admin, TAKEN).await >= 2.0);
}
