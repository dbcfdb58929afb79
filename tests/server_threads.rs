//! Long reviews: they hold up neither probes nor other reviews, and end for a caller in time.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hyper::StatusCode;
use muster::server::{Config, Handler};
use support::client::{Http1, Http2, admin, metric, post, review};
use support::{Running, answer, config, millis, start, within};

/// Larger than what is decided on the thread of the connection.
const LARGE: usize = 64 * 1024;

/// Sleeps for a large body, and counts those that it began.
fn slow(time: Duration) -> (Handler, Arc<AtomicUsize>) {
    let begun = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&begun);
    let handler: Handler = Arc::new(move |phase, body| {
        if body.len() >= LARGE {
            count.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(time);
        }
        Ok(answer(phase, &body[..1]))
    });
    (handler, begun)
}

async fn begins(begun: &AtomicUsize, count: usize) {
    within(5, async {
        while begun.load(Ordering::SeqCst) < count {
            tokio::time::sleep(millis(5)).await;
        }
    })
    .await;
}

fn send_large(server: &Arc<Running>) -> tokio::task::JoinHandle<support::client::Reply> {
    let server = Arc::clone(server);
    tokio::spawn(async move { post(&server, "/mutate", vec![b'x'; LARGE]).await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_are_answered_while_every_slot_is_busy() {
    let (handler, begun) = slow(millis(1500));
    let config = Config {
        max_in_flight: 8,
        ..config()
    };
    let server = Arc::new(start(config, handler).await);
    let calls: Vec<_> = (0..8).map(|_| send_large(&server)).collect();
    begins(&begun, 2).await;
    within(5, async {
        while metric(server.admin, "muster_admission_in_flight").await < 8.0 {
            tokio::time::sleep(millis(5)).await;
        }
    })
    .await;
    for path in ["/livez", "/readyz", "/livez", "/readyz"] {
        let asked = Instant::now();
        assert_eq!(admin(server.admin, path).await.status, StatusCode::OK);
        assert!(asked.elapsed() < millis(100), "{:?}", asked.elapsed());
    }
    for call in calls {
        call.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_review_does_not_wait_for_large_ones() {
    let (handler, begun) = slow(millis(1500));
    let server = Arc::new(start(config(), handler).await);
    let calls: Vec<_> = (0..4).map(|_| send_large(&server)).collect();
    begins(&begun, 2).await;
    let asked = Instant::now();
    assert_eq!(post(&server, "/mutate", "x").await.status, StatusCode::OK);
    assert!(asked.elapsed() < millis(500), "{:?}", asked.elapsed());
    for call in calls {
        assert_eq!(within(10, call).await.unwrap().status, StatusCode::OK);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_review_past_its_deadline_is_500_and_keeps_its_slot_until_it_ends() {
    let (handler, _) = slow(millis(2000));
    let config = Config {
        max_in_flight: 1,
        review_deadline: millis(300),
        ..config()
    };
    let server = Arc::new(start(config, handler).await);
    let asked = Instant::now();
    let reply = within(5, send_large(&server)).await.unwrap();
    assert_eq!(reply.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(reply.text.contains("within 300ms"), "{}", reply.text);
    assert!(asked.elapsed() < millis(1500), "{:?}", asked.elapsed());
    let shed = post(&server, "/mutate", "x").await;
    assert_eq!(shed.status, StatusCode::TOO_MANY_REQUESTS, "still in work");
    tokio::time::sleep(millis(2200)).await;
    assert_eq!(post(&server, "/mutate", "x").await.status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_review_that_gets_no_turn_in_time_is_told_to_come_back() {
    let (handler, begun) = slow(millis(1000));
    let config = Config {
        review_deadline: millis(300),
        ..config()
    };
    let server = Arc::new(start(config, handler).await);
    let calls: Vec<_> = (0..2).map(|_| send_large(&server)).collect();
    begins(&begun, 2).await;
    let shed = within(5, send_large(&server)).await.unwrap();
    assert_eq!(shed.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(shed.header("retry-after"), Some("1"));
    for call in calls {
        let _ = within(5, call).await;
    }
    assert_eq!(begun.load(Ordering::SeqCst), 2, "it never began");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_review_whose_caller_is_gone_is_not_begun() {
    let (handler, begun) = slow(millis(1000));
    let server = Arc::new(start(config(), handler).await);
    let calls: Vec<_> = (0..2).map(|_| send_large(&server)).collect();
    begins(&begun, 2).await;

    let mut http1 = Http1::connect(&server).await;
    let http2 = Http2::connect(&server).await;
    let gone = [
        tokio::spawn(async move {
            let _ = http1.send(review("/mutate", vec![b'x'; LARGE])).await;
        }),
        tokio::spawn(async move {
            let _ = http2.send(review("/mutate", vec![b'x'; LARGE])).await;
        }),
    ];
    within(5, async {
        while metric(server.admin, "muster_admission_in_flight").await < 4.0 {
            tokio::time::sleep(millis(5)).await;
        }
    })
    .await;
    for call in gone {
        call.abort();
    }
    for call in calls {
        assert_eq!(within(5, call).await.unwrap().status, StatusCode::OK);
    }
    tokio::time::sleep(millis(300)).await;
    assert_eq!(begun.load(Ordering::SeqCst), 2);
    let in_work = metric(server.admin, "muster_admission_in_flight").await;
    assert_eq!(in_work, 0.0);
}
