//! Ending: no call is lost between SIGTERM and the end of the process, and the end comes in time.

mod support;

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use muster::certs::Subject;
use muster::server::{Config, Error, Server};
use support::client::{Http1, Http2, admin, post, raw, review};
use support::{Gate, config, echo, gated, in_memory, millis, start, within};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

fn with_lame_duck(lame_duck: Duration) -> Config {
    Config {
        lame_duck,
        ..config()
    }
}

async fn refuses_connections(address: std::net::SocketAddr) -> bool {
    match TcpStream::connect(address).await {
        Ok(_) => false,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
    }
}

#[tokio::test]
async fn the_lame_duck_is_unready_at_once_and_still_serves() {
    let lame_duck = Duration::from_secs(3);
    let mut server = start(with_lame_duck(lame_duck), echo()).await;
    let mut kept = Http1::connect(&server).await;
    let reply = within(5, kept.send(review("/mutate", "x"))).await.unwrap();
    assert_eq!(reply.header("connection"), None);
    let http2 = Http2::connect(&server).await;
    assert_eq!(admin(server.admin, "/readyz").await.status, StatusCode::OK);

    let asked = Instant::now();
    server.stop();
    tokio::time::sleep(millis(50)).await;
    let ready = admin(server.admin, "/readyz").await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(ready.text.contains("draining"), "{}", ready.text);
    assert_eq!(admin(server.admin, "/livez").await.status, StatusCode::OK);

    let reply = within(5, kept.send(review("/mutate", "x"))).await.unwrap();
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(reply.header("connection"), Some("close"));
    for _ in 0..3 {
        let reply = post(&server, "/validate", "new connection").await;
        assert_eq!(reply.status, StatusCode::OK);
        assert_eq!(reply.header("connection"), Some("close"));
        let reply = within(5, http2.send(review("/mutate", "x"))).await.unwrap();
        assert_eq!(reply.status, StatusCode::OK);
    }
    assert!(asked.elapsed() < lame_duck, "too slow a machine to tell");

    let (webhook, admin) = (server.webhook, server.admin);
    within(10, http2.closed()).await;
    server.ended().await.unwrap();
    assert!(asked.elapsed() >= lame_duck);
    assert!(
        asked.elapsed() < lame_duck + Duration::from_secs(3),
        "nothing was left to wait for"
    );
    assert!(refuses_connections(webhook).await && refuses_connections(admin).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_in_flight_finishes_after_the_listener_has_closed() {
    let gate = Gate::default();
    let mut server = start(config(), gated(&gate)).await;
    let mut http1 = Http1::connect(&server).await;
    let http2 = Http2::connect(&server).await;
    let one = tokio::spawn(async move { http1.send(review("/mutate", "wait")).await });
    let two = tokio::spawn(http2.send(review("/mutate", "wait")));
    gate.holds(2).await;

    server.stop();
    within(5, async {
        while !refuses_connections(server.webhook).await {
            tokio::time::sleep(millis(10)).await;
        }
    })
    .await;
    assert!(!one.is_finished() && !two.is_finished());
    gate.open();
    let one = within(5, one).await.unwrap().unwrap();
    assert_eq!((one.status, one.text.as_str()), (StatusCode::OK, "wait"));
    assert_eq!(one.header("connection"), Some("close"));
    let two = within(5, two).await.unwrap().unwrap();
    assert_eq!((two.status, two.text.as_str()), (StatusCode::OK, "wait"));
    server.ended().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_never_ends_holds_the_server_no_longer_than_its_grace() {
    let gate = Gate::default();
    let config = Config {
        grace: millis(500),
        ..config()
    };
    let mut server = start(config, gated(&gate)).await;
    let mut connection = Http1::connect(&server).await;
    let call = tokio::spawn(async move { connection.send(review("/mutate", "wait")).await });
    gate.holds(1).await;
    let asked = Instant::now();
    server.stop();
    server.ended().await.unwrap();
    let took = asked.elapsed();
    assert!(
        took >= millis(500) && took < Duration::from_secs(4),
        "{took:?}"
    );
    gate.open();
    let _ = within(5, call).await;
}

#[tokio::test]
async fn idle_connections_and_silent_clients_do_not_delay_the_end() {
    let mut server = start(config(), echo()).await;
    let mut idle = Http1::connect(&server).await;
    within(5, idle.send(review("/mutate", "x"))).await.unwrap();
    let idle2 = Http2::connect(&server).await;
    within(5, idle2.send(review("/mutate", "x"))).await.unwrap();
    let _silent = raw(&server).await;
    let _no_handshake = TcpStream::connect(server.webhook).await.unwrap();
    tokio::time::sleep(millis(100)).await;
    let asked = Instant::now();
    server.stop();
    server.ended().await.unwrap();
    assert!(
        asked.elapsed() < Duration::from_secs(3),
        "{:?}",
        asked.elapsed()
    );
}

/// Signals reach the whole process: these tests take turns.
static SIGNALS: Mutex<()> = Mutex::const_new(());

fn send_own_process(signal: &str) {
    let own = std::process::id().to_string();
    let sent = Command::new("sh")
        .args(["-c", "kill -s \"$0\" \"$1\"", signal, &own])
        .status();
    assert!(sent.unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_in_flight_finishes_after_sigterm() {
    let _turn = SIGNALS.lock().await;
    let gate = Gate::default();
    let certificates = Arc::new(in_memory(Subject::default()));
    let server = Server::bind(with_lame_duck(millis(300)), certificates, gated(&gate));
    let (server, ended) = support::run_until_signalled(server.await.unwrap());
    let mut connection = Http1::connect(&server).await;
    let call = tokio::spawn(async move { connection.send(review("/mutate", "wait")).await });
    gate.holds(1).await;
    send_own_process("TERM");
    within(5, async {
        while !refuses_connections(server.webhook).await {
            tokio::time::sleep(millis(10)).await;
        }
    })
    .await;
    // Long enough for a server that does not wait to be gone.
    tokio::time::sleep(millis(200)).await;
    assert!(!ended.is_finished());
    gate.open();
    assert_eq!(
        within(5, call).await.unwrap().unwrap().status,
        StatusCode::OK
    );
    within(5, ended).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_second_signal_ends_the_drain_at_once() {
    let _turn = SIGNALS.lock().await;
    let certificates = Arc::new(in_memory(Subject::default()));
    let server = Server::bind(
        with_lame_duck(Duration::from_secs(60)),
        certificates,
        echo(),
    );
    let (server, ended) = support::run_until_signalled(server.await.unwrap());
    send_own_process("INT");
    within(5, async {
        while admin(server.admin, "/readyz").await.status == StatusCode::OK {
            tokio::time::sleep(millis(10)).await;
        }
    })
    .await;
    assert_eq!(post(&server, "/mutate", "x").await.status, StatusCode::OK);
    send_own_process("TERM");
    let end = within(5, ended).await.unwrap();
    assert!(matches!(end, Err(Error::Aborted("SIGTERM"))), "{end:?}");
    assert!(refuses_connections(server.webhook).await);
}

#[tokio::test]
async fn trouble_makes_a_server_unready_and_ends_it_in_order() {
    let _turn = SIGNALS.lock().await;
    let certificates = Arc::new(in_memory(Subject::default()));
    let server = Server::bind(with_lame_duck(millis(1000)), certificates, echo());
    let (trouble, told) = tokio::sync::oneshot::channel::<()>();
    let (server, ended) = support::run_until(server.await.unwrap(), async move {
        let _ = told.await;
    });
    assert_eq!(admin(server.admin, "/readyz").await.status, StatusCode::OK);
    trouble.send(()).unwrap();
    within(5, async {
        while admin(server.admin, "/readyz").await.status == StatusCode::OK {
            tokio::time::sleep(millis(10)).await;
        }
    })
    .await;
    assert_eq!(post(&server, "/mutate", "x").await.status, StatusCode::OK);
    within(10, ended).await.unwrap().unwrap();
}
