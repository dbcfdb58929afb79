//! What the two endpoints accept, over HTTP/1.1 and HTTP/2, and how they refuse the rest.

use crate::support;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, StatusCode, Version};
use muster::certs::Subject;
use muster::server::Server;
use rustls::version::TLS13;
use support::client::{
    Http1, Http2, Reply, admin, metric, post, raw, read_all, review, tls, write,
};
use support::{config, echo, in_memory, obedient, start, within};

#[tokio::test]
async fn http1_keeps_one_connection_for_many_reviews() {
    let server = start(config(), echo()).await;
    let stream = raw(&server).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let mut connection = Http1::over(stream).await.unwrap();
    for n in 0..50 {
        let body = format!("review {n}");
        let reply = within(
            5,
            connection.send(review("/mutate?timeout=10s", body.clone())),
        )
        .await;
        let reply = reply.unwrap();
        assert_eq!((reply.status, reply.text), (StatusCode::OK, body));
        assert_eq!(reply.version, Version::HTTP_11);
        assert_eq!(reply.headers["content-type"], "application/json");
        assert!(!reply.headers.contains_key("connection"));
    }
}

#[tokio::test]
async fn http2_answers_many_reviews_at_once_on_one_connection() {
    let server = start(config(), echo()).await;
    let connection = Http2::connect(&server).await;
    let calls: Vec<_> = (0..50)
        .map(|n| tokio::spawn(connection.send(review("/validate", format!("review {n}")))))
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        let reply = within(10, call).await.unwrap().unwrap();
        assert_eq!(reply.status, StatusCode::OK);
        assert_eq!(reply.text, format!("review {n}"));
        assert_eq!(reply.version, Version::HTTP_2);
    }
}

#[tokio::test]
async fn a_client_without_alpn_is_served_over_http1() {
    let server = start(config(), echo()).await;
    let stream = tls(&server, &[], &[&TLS13]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), None);
    let mut connection = Http1::over(stream).await.unwrap();
    let reply = within(5, connection.send(review("/mutate", "x")))
        .await
        .unwrap();
    assert_eq!(reply.status, StatusCode::OK);
}

#[tokio::test]
async fn each_endpoint_tells_the_handler_its_phase() {
    let server = start(config(), obedient()).await;
    assert_eq!(post(&server, "/mutate", "{}").await.text, "Mutate");
    assert_eq!(post(&server, "/validate", "{}").await.text, "Validate");
}

async fn with_content_type(server: &support::Running, value: Option<&'static str>) -> Reply {
    let mut request = review("/mutate", "{}");
    request.headers_mut().remove("content-type");
    if let Some(value) = value {
        request
            .headers_mut()
            .insert("content-type", value.parse().unwrap());
    }
    let mut connection = Http1::connect(server).await;
    within(5, connection.send(request)).await.unwrap()
}

#[tokio::test]
async fn only_json_is_reviewed() {
    let server = start(config(), echo()).await;
    for good in [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON",
    ] {
        let reply = with_content_type(&server, Some(good)).await;
        assert_eq!(reply.status, StatusCode::OK, "{good}");
    }
    for bad in [
        Some("application/yaml"),
        Some("application/jsonx"),
        Some("text/plain"),
        None,
    ] {
        let reply = with_content_type(&server, bad).await;
        assert_eq!(reply.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{bad:?}");
        assert!(
            reply.text.contains("must be application/json"),
            "{}",
            reply.text
        );
    }
}

#[tokio::test]
async fn an_unknown_path_is_404_and_a_wrong_method_405() {
    let server = start(config(), echo()).await;
    for path in ["/", "/mutate/", "/mutat", "/metrics", "/readyz"] {
        let reply = post(&server, path, "{}").await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND, "{path}");
        assert!(reply.text.contains("/mutate and /validate"));
    }
    let mut connection = Http1::connect(&server).await;
    for method in ["GET", "PUT", "DELETE"] {
        let mut request = review("/mutate", "{}");
        *request.method_mut() = method.parse().unwrap();
        let reply = within(5, connection.send(request)).await.unwrap();
        assert_eq!(reply.status, StatusCode::METHOD_NOT_ALLOWED, "{method}");
        assert_eq!(reply.header("allow"), Some("POST"));
        assert!(reply.text.contains("must be POST"));
    }
}

#[tokio::test]
async fn a_review_that_cannot_be_answered_says_whose_fault_it_is() {
    let server = start(config(), obedient()).await;
    for (body, status, message) in [
        ("not json", 400, "the body is not an AdmissionReview"),
        ("", 400, "the body is not an AdmissionReview"),
        (r#"{"do":"unsupported"}"#, 400, "not this kind"),
        (
            r#"{"do":"fail"}"#,
            500,
            "internal error: the snapshot is torn",
        ),
    ] {
        let reply = post(&server, "/mutate", body).await;
        assert_eq!(reply.status.as_u16(), status, "{body}");
        assert!(reply.text.contains(message), "{body}: {}", reply.text);
        assert!(
            reply
                .header("content-type")
                .unwrap()
                .starts_with("text/plain")
        );
    }
    let count = async |outcome| {
        let labels = r#"operation="",kind="""#;
        let series = format!(r#"muster_admission_requests_total{{{labels},outcome="{outcome}"}}"#);
        metric(server.admin, &series).await
    };
    let (callers, ours) = (count("unanswerable").await, count("failed").await);
    assert_eq!((callers, ours), (3.0, 1.0));
}

#[tokio::test]
async fn a_panic_in_the_handler_is_a_500_and_the_connection_lives_on() {
    let server = start(config(), obedient()).await;
    let mut connection = Http1::connect(&server).await;
    let reply = within(5, connection.send(review("/mutate", r#"{"do":"panic"}"#)))
        .await
        .unwrap();
    assert_eq!(reply.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(reply.text.contains("internal error"), "{}", reply.text);
    let reply = within(5, connection.send(review("/mutate", "{}")))
        .await
        .unwrap();
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(
        metric(server.admin, "muster_admission_in_flight").await,
        0.0
    );
}

#[tokio::test]
async fn decisions_are_counted_by_operation_kind_and_outcome() {
    let server = start(config(), echo()).await;
    post(&server, "/mutate", "{}").await;
    post(&server, "/validate", "{}").await;
    post(&server, "/validate", "{}").await;
    let count = async |outcome| {
        let labels = r#"operation="CREATE",kind="JobSet""#;
        let series = format!(r#"muster_admission_requests_total{{{labels},outcome="{outcome}"}}"#);
        metric(server.admin, &series).await
    };
    assert_eq!((count("patched").await, count("allowed").await), (1.0, 2.0));
    assert_eq!(
        metric(server.admin, "muster_admission_duration_seconds_count").await,
        3.0
    );
    let page = admin(server.admin, "/metrics").await;
    assert!(
        page.header("content-type")
            .unwrap()
            .starts_with("application/openmetrics-text")
    );
    for bound in [r#"le="0.00005""#, r#"le="2.5""#] {
        assert!(page.text.contains(bound), "{}", page.text);
    }
    assert!(page.text.ends_with("# EOF\n"));
}

#[tokio::test]
async fn the_admin_port_says_alive_and_ready_with_reasons_against() {
    let certificates = std::sync::Arc::new(in_memory(Subject::default()));
    let mut server = Server::bind(config(), certificates, echo()).await.unwrap();
    let synced = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = synced.clone();
    let check = move || match seen.load(std::sync::atomic::Ordering::SeqCst) {
        true => Ok(()),
        false => Err("not synced".to_owned()),
    };
    server.ready_when("cache", Box::new(check));
    let server = support::run(server);

    assert_eq!(admin(server.admin, "/livez").await.status, StatusCode::OK);
    let reply = admin(server.admin, "/readyz").await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(reply.text, "not ready\ncache: not synced\n");
    assert_eq!(metric(server.admin, "muster_ready").await, 0.0);
    synced.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(admin(server.admin, "/readyz").await.status, StatusCode::OK);
    assert_eq!(metric(server.admin, "muster_ready").await, 1.0);
    assert_eq!(
        admin(server.admin, "/mutate").await.status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_request_of_an_unknown_shape_does_not_end_the_server() {
    let server = start(config(), echo()).await;
    let mut stream = raw(&server).await;
    write(&mut stream, "\0\x01 nonsense\r\n\r\n").await;
    let reply = within(5, read_all(&mut stream)).await;
    assert!(
        reply.is_empty() || reply.starts_with("HTTP/1.1 400 "),
        "{reply}"
    );
    let request: Request<Full<Bytes>> = review("/mutate", "{}");
    let mut connection = Http1::connect(&server).await;
    assert_eq!(
        within(5, connection.send(request)).await.unwrap().status,
        StatusCode::OK
    );
}
