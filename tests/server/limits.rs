//! Overload, slow clients and old connections: who is cut off, when, and who is not.

use crate::support;

use std::fs::File;
use std::io::BufRead as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use muster::server::Config;
use support::client::{Http1, Http2, metric, post, raw, read_all, review, tls_over, write};
use support::{Gate, Running, config, echo, gated, millis, roots, start, within};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

const DEADLINE: Duration = Duration::from_millis(400);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_above_the_limit_is_told_to_come_back_elsewhere() {
    let gate = Gate::default();
    let config = Config {
        max_in_flight: 2,
        ..config()
    };
    let server = Arc::new(start(config, gated(&gate)).await);
    let held: Vec<_> = (0..2)
        .map(|_| {
            let server = server.clone();
            tokio::spawn(async move { post(&server, "/mutate", "wait").await })
        })
        .collect();
    gate.holds(2).await;
    assert_eq!(
        metric(server.admin, "muster_admission_in_flight").await,
        2.0
    );

    let shed = post(&server, "/mutate", "quick").await;
    assert_eq!(shed.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(shed.header("retry-after"), Some("1"));
    assert_eq!(shed.header("connection"), Some("close"));
    // HTTP/2 has no Connection header; the rest is the same.
    let connection = Http2::connect(&server).await;
    let shed = within(5, connection.send(review("/validate", "quick")))
        .await
        .unwrap();
    assert_eq!(shed.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(shed.header("retry-after"), Some("1"));
    // The answer arrives whole even when the body is larger than the socket's buffers.
    let shed = post(&server, "/mutate", vec![b'x'; 6 * 1024 * 1024]).await;
    assert_eq!(shed.status, StatusCode::TOO_MANY_REQUESTS);
    let series = r#"muster_admission_requests_total{operation="",kind="",outcome="shed"}"#;
    assert_eq!(metric(server.admin, series).await, 3.0);

    gate.open();
    for call in held {
        assert_eq!(within(10, call).await.unwrap().status, StatusCode::OK);
    }
    assert_eq!(
        post(&server, "/mutate", "quick").await.status,
        StatusCode::OK
    );
    assert_eq!(
        metric(server.admin, "muster_admission_in_flight").await,
        0.0
    );
}

/// Short deadlines, and an idle time that is not among them.
fn impatient() -> Config {
    Config {
        handshake_deadline: DEADLINE,
        first_request_deadline: DEADLINE,
        body_deadline: DEADLINE,
        ..config()
    }
}

/// Runs a slow client to its end: cut off not before the deadline and soon after it, with a quick
/// client served in between.
async fn is_cut_off<T>(server: &Running, slow: impl Future<Output = T>) -> T {
    let started = Instant::now();
    let quick = async {
        tokio::time::sleep(DEADLINE / 2).await;
        let quick = post(server, "/mutate", "quick").await;
        assert_eq!(quick.status, StatusCode::OK);
    };
    let (end, ()) = within(10, async { tokio::join!(slow, quick) }).await;
    let took = started.elapsed();
    assert!(took >= DEADLINE, "cut off too early: {took:?}");
    assert!(
        took < DEADLINE + Duration::from_secs(4),
        "cut off late: {took:?}"
    );
    end
}

#[tokio::test]
async fn a_client_that_never_finishes_the_handshake_is_cut_off() {
    let server = start(impatient(), echo()).await;
    let mut stream = TcpStream::connect(server.webhook).await.unwrap();
    let mut bytes = Vec::new();
    let _ = is_cut_off(&server, stream.read_to_end(&mut bytes)).await;
    let series = r#"muster_tls_handshake_failures_total{reason="timeout"}"#;
    assert_eq!(metric(server.admin, series).await, 1.0);
}

#[tokio::test]
async fn a_client_that_never_sends_a_byte_is_cut_off() {
    let server = start(impatient(), echo()).await;
    let reply = is_cut_off(&server, async { read_all(&mut raw(&server).await).await }).await;
    assert_eq!(reply, "");
}

#[tokio::test]
async fn a_client_that_dribbles_its_headers_is_cut_off() {
    let server = start(impatient(), echo()).await;
    let dribble = async {
        let (mut reader, mut writer) = tokio::io::split(raw(&server).await);
        let writing = async move {
            use tokio::io::AsyncWriteExt;
            let head = "POST /mutate HTTP/1.1\r\n".bytes();
            for byte in head.chain(std::iter::repeat(b'x')) {
                if writer.write_all(&[byte]).await.is_err() || writer.flush().await.is_err() {
                    break;
                }
                tokio::time::sleep(millis(20)).await;
            }
        };
        let reading = async move {
            let mut bytes = Vec::new();
            let _ = reader.read_to_end(&mut bytes).await;
            bytes
        };
        tokio::select! {
            () = writing => Vec::new(),
            bytes = reading => bytes,
        }
    };
    assert_eq!(is_cut_off(&server, dribble).await, b"");
}

#[tokio::test]
async fn a_client_that_stalls_in_its_body_is_told_so_and_cut_off() {
    let server = start(impatient(), echo()).await;
    let mut stream = raw(&server).await;
    let head = "POST /mutate HTTP/1.1\r\nhost: m\r\ncontent-type: application/json\r\n\
                content-length: 100\r\n\r\n{\"half\":";
    let reply = is_cut_off(&server, async {
        write(&mut stream, head).await;
        read_all(&mut stream).await
    })
    .await;
    assert!(reply.starts_with("HTTP/1.1 408 "), "{reply}");
    assert!(reply.contains("connection: close"), "{reply}");
    assert_eq!(
        metric(server.admin, "muster_admission_in_flight").await,
        0.0
    );
}

#[tokio::test]
async fn an_idle_connection_outlives_the_deadlines_of_a_new_one() {
    let server = start(impatient(), echo()).await;
    let mut http1 = Http1::connect(&server).await;
    let http2 = Http2::connect(&server).await;
    for _ in 0..2 {
        let reply = within(5, http1.send(review("/mutate", "x"))).await.unwrap();
        assert_eq!(reply.status, StatusCode::OK);
        let reply = within(5, http2.send(review("/mutate", "x"))).await.unwrap();
        assert_eq!(reply.status, StatusCode::OK);
        tokio::time::sleep(DEADLINE * 3).await;
    }
}

#[tokio::test]
async fn the_default_idle_time_is_longer_than_the_apiservers() {
    assert!(Config::default().idle_deadline > Duration::from_secs(90));
    let config = Config {
        idle_deadline: DEADLINE,
        ..config()
    };
    let server = start(config, echo()).await;
    let mut stream = raw(&server).await;
    let reply = is_cut_off(&server, async {
        let head = "POST /mutate HTTP/1.1\r\nhost: m\r\ncontent-type: application/json\r\n\
                    content-length: 1\r\n\r\nx";
        write(&mut stream, head).await;
        read_all(&mut stream).await
    })
    .await;
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
}

#[tokio::test]
async fn an_old_connection_ends_after_its_next_answer() {
    let config = Config {
        max_connection_age: DEADLINE,
        ..config()
    };
    let server = start(config, echo()).await;
    let mut http1 = Http1::connect(&server).await;
    let http2 = Http2::connect(&server).await;
    let young = within(5, http1.send(review("/mutate", "x"))).await.unwrap();
    assert_eq!(young.header("connection"), None);
    within(5, http2.send(review("/mutate", "x"))).await.unwrap();

    // Not closed under the client, which may be about to write.
    tokio::time::sleep(DEADLINE + millis(100)).await;
    let old = within(5, http1.send(review("/mutate", "x"))).await.unwrap();
    assert_eq!(old.status, StatusCode::OK);
    assert_eq!(old.header("connection"), Some("close"));
    assert!(within(5, http1.send(review("/mutate", "x"))).await.is_err());
    within(5, http2.closed()).await;
}

/// The real binary, with fewer file descriptors than clients.
#[tokio::test]
async fn a_server_out_of_file_descriptors_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let serve = "ulimit -n 40 && exec \"$0\" serve --listen 127.0.0.1:0 \
                 --admin-listen 127.0.0.1:0 --lame-duck-seconds 0";
    let mut server = Command::new("sh")
        .args(["-c", serve, env!("CARGO_BIN_EXE_muster")])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let out = server.stdout.take().unwrap();
    std::io::BufReader::new(out).read_line(&mut first).unwrap();
    let address = first.trim().strip_prefix("webhook: https://").unwrap();
    let hoard: Vec<_> = (0..60)
        .map(|_| std::net::TcpStream::connect(address).unwrap())
        .collect();
    within(10, async {
        while !std::fs::read_to_string(&log)
            .unwrap()
            .contains("os error 24")
        {
            tokio::time::sleep(millis(20)).await;
        }
    })
    .await;
    drop(hoard);
    let roots = roots(&std::fs::read(dir.path().join("certs/ca.crt")).unwrap());
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = within(20, tls_over(stream, &roots)).await.unwrap();
    let mut connection = Http1::over(stream).await.unwrap();
    let reply = within(5, connection.send(review("/mutate", "x"))).await;
    assert_eq!(reply.unwrap().status, StatusCode::BAD_REQUEST);
    server.kill().unwrap();
    server.wait().unwrap();
}
