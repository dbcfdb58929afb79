//! Crowds: clients that send half a body, or too many connections, keep nobody else out.

use crate::support;

use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;
use hyper::StatusCode;
use muster::server::Config;
use support::client::{Http1, metric, post, raw, review, tls_over, write};
use support::{config, echo, start, within};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A request whose body is never finished.
async fn half_a_body(server: &support::Running) -> TlsStream<TcpStream> {
    let mut stream = raw(server).await;
    let head = "POST /mutate HTTP/1.1\r\nhost: m\r\ncontent-type: application/json\r\n\
                content-length: 100\r\n\r\n{";
    write(&mut stream, head).await;
    stream
}

async fn a_crowd_of_half_bodies_keeps_nobody_out(count: usize) {
    // A busy machine needs long for so many handshakes, and none of them may end meanwhile.
    let patient = Config {
        handshake_deadline: Duration::from_secs(60),
        body_deadline: Duration::from_secs(60),
        ..config()
    };
    let server = start(patient, echo()).await;
    let crowd = within(60, join_all((0..count).map(|_| half_a_body(&server)))).await;
    // The server has read what they sent.
    tokio::time::sleep(Duration::from_millis(300)).await;
    for _ in 0..5 {
        let reply = post(&server, "/mutate", "quick").await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    }
    let in_work = metric(server.admin, "muster_admission_in_flight").await;
    assert_eq!(in_work, 0.0, "half a body is no work");
    drop(crowd);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_half_bodies_keep_nobody_out() {
    a_crowd_of_half_bodies_keeps_nobody_out(64).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_half_bodies_keep_nobody_out() {
    a_crowd_of_half_bodies_keeps_nobody_out(500).await;
}

/// A connection from another address of this machine.
async fn from_elsewhere(server: &support::Running) -> Http1 {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 2], 0))).unwrap();
    let tcp = within(10, socket.connect(server.webhook)).await.unwrap();
    let stream = within(10, tls_over(tcp, &server.roots)).await.unwrap();
    Http1::over(stream).await.unwrap()
}

#[tokio::test]
async fn connections_beyond_a_peers_share_are_closed_and_counted_and_others_still_come_in() {
    let config = Config {
        max_connections: 20,
        ..config()
    };
    let server = start(config, echo()).await;
    let mut crowd = Vec::new();
    for _ in 0..10 {
        crowd.push(raw(&server).await);
    }
    let mut refused = TcpStream::connect(server.webhook).await.unwrap();
    let end = within(5, refused.read(&mut [0])).await;
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    let series = r#"muster_connections_refused_total{port="webhook"}"#;
    assert_eq!(metric(server.admin, series).await, 1.0);

    let mut other = from_elsewhere(&server).await;
    let reply = within(5, other.send(review("/mutate", "x"))).await.unwrap();
    assert_eq!(reply.status, StatusCode::OK);
    // A place is free again as soon as a connection ends.
    drop((crowd, other));
    tokio::time::sleep(Duration::from_millis(200)).await;
    let reply = post(&server, "/mutate", "x").await;
    assert_eq!(reply.status, StatusCode::OK);
}

#[tokio::test]
async fn bytes_beyond_a_peers_share_are_429_and_others_are_still_served() {
    let config = Config {
        body_budget: 64 * 1024,
        ..config()
    };
    let server = start(config, echo()).await;
    let mut hoard = raw(&server).await;
    let head = "POST /mutate HTTP/1.1\r\nhost: m\r\ncontent-type: application/json\r\n\
                content-length: 100000\r\n\r\n";
    write(&mut hoard, head).await;
    write(&mut hoard, &"x".repeat(30 * 1024)).await;
    tokio::time::sleep(Duration::from_millis(200)).await;

    let shed = post(&server, "/mutate", vec![b'x'; 8 * 1024]).await;
    assert_eq!(shed.status, StatusCode::TOO_MANY_REQUESTS, "{}", shed.text);
    assert_eq!(shed.header("retry-after"), Some("1"));
    assert_eq!(shed.header("connection"), Some("close"));
    let mut other = from_elsewhere(&server).await;
    let large = review("/mutate", vec![b'x'; 8 * 1024]);
    let reply = within(5, other.send(large)).await.unwrap();
    assert_eq!(reply.status, StatusCode::OK);

    drop(hoard);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let reply = post(&server, "/mutate", vec![b'x'; 30 * 1024]).await;
    assert_eq!(reply.status, StatusCode::OK);
}

#[tokio::test]
async fn half_sent_bodies_give_their_bytes_back_after_the_deadline() {
    let config = Config {
        body_deadline: Duration::from_millis(300),
        body_budget: 64 * 1024,
        ..config()
    };
    let server = start(config, echo()).await;
    let mut hoard = raw(&server).await;
    let head = "POST /mutate HTTP/1.1\r\nhost: m\r\ncontent-type: application/json\r\n\
                content-length: 100000\r\n\r\n";
    write(&mut hoard, head).await;
    write(&mut hoard, &"x".repeat(30 * 1024)).await;
    tokio::time::sleep(Duration::from_millis(900)).await;
    let reply = post(&server, "/mutate", vec![b'x'; 30 * 1024]).await;
    assert_eq!(reply.status, StatusCode::OK);
}
