//! The two webhook endpoints: bytes in, the handler's answer out.
//!
//! It knows the handler's type and nothing of what a review contains.

use std::net::Ipv4Addr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::post;

use super::config::Config;
use super::connection::Peer;
use super::metrics::Metrics;
use super::refusal::{Lines, Refusal};
use super::share::Share;
use super::sparing::Sparing;
use super::work::Work;
use super::{Handler, body};
use crate::admission::{Answer, Phase, Record};

/// What every review needs.
pub(super) struct Reviews {
    metrics: Metrics,
    work: Work,
    bytes: Arc<Share>,
    max_body: usize,
    body_deadline: Duration,
    refused: Lines,
}

impl Reviews {
    pub(crate) fn new(config: &Config, handler: Handler, metrics: Metrics) -> Self {
        Self {
            work: Work::new(config, handler, metrics.clone()),
            metrics,
            bytes: Share::of(config.body_budget),
            max_body: config.max_body,
            body_deadline: config.body_deadline,
            refused: Lines::default(),
        }
    }

    pub(crate) fn routes(self) -> Router {
        let reviews = Arc::new(self);
        let endpoint = |phase| {
            let reviews = Arc::clone(&reviews);
            post(move |request: Request| async move { reviews.review(phase, request).await })
        };
        Router::new()
            .route("/mutate", endpoint(Phase::Mutate))
            .route("/validate", endpoint(Phase::Validate))
            .fallback(unknown_path)
            .method_not_allowed_fallback(wrong_method)
    }

    async fn review(&self, phase: Phase, request: Request) -> Response {
        let (head, mut body) = request.into_parts();
        let answer = self.answer(phase, &head, &mut body).await;
        match answer {
            Ok(bytes) => {
                let json = HeaderValue::from_static("application/json");
                ([(CONTENT_TYPE, json)], bytes).into_response()
            }
            Err(refusal) => {
                self.metrics.not_reviewed(refusal.outcome());
                refusal.log(head.uri.path(), &self.refused);
                if !matches!(refusal, Refusal::Slow { .. }) {
                    body::discard(&mut body, &head.headers, self.max_body).await;
                }
                refusal.into_response(head.version)
            }
        }
    }

    async fn answer(
        &self,
        phase: Phase,
        head: &Parts,
        body: &mut axum::body::Body,
    ) -> Result<Vec<u8>, Refusal> {
        must_be_json(&head.headers)?;
        let peer = head.extensions.get::<Peer>();
        let peer = peer.map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0);
        let mut budget = self.bytes.part(peer);
        let bytes = body::read(body, &mut budget, self.max_body, self.body_deadline).await?;
        // A slot is for work: who only sends slowly takes none.
        let (answer, took) = self.work.decide(phase, bytes, budget).await?;
        self.metrics.took(took);
        let Answer { body, record } = answer?;
        self.metrics.reviewed(&record);
        log(phase, &record, took);
        Ok(body)
    }
}

/// The one line per decision.
fn log(phase: Phase, record: &Record, took: Duration) {
    tracing::info!(
        webhook = match phase {
            Phase::Mutate => "mutate",
            Phase::Validate => "validate",
        },
        uid = record.uid,
        operation = record.operation,
        kind = record.kind,
        namespace = record.namespace,
        name = record.name,
        outcome = record.outcome.as_str(),
        gang = record.gang,
        duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        "reviewed"
    );
}

/// `application/json`, with or without parameters such as a charset.
fn must_be_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let given = headers.get(CONTENT_TYPE).map_or("", |value| {
        // A header that is not text is not a content type either.
        value.to_str().unwrap_or("?")
    });
    let essence = given.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        Ok(())
    } else {
        Err(Refusal::NotJson(given.to_owned()))
    }
}

/// The lines about calls that reach no endpoint.
static MISSED: LazyLock<Sparing> = LazyLock::new(Sparing::default);

async fn unknown_path(uri: Uri) -> (StatusCode, &'static str) {
    if let Some(left_out) = MISSED.turn(Instant::now()) {
        let path = uri.path();
        tracing::warn!(path, status = 404, left_out, "no such endpoint");
    }
    (
        StatusCode::NOT_FOUND,
        "no such endpoint: there are /mutate and /validate",
    )
}

async fn wrong_method(method: Method, uri: Uri) -> (StatusCode, &'static str) {
    if let Some(left_out) = MISSED.turn(Instant::now()) {
        let path = uri.path();
        tracing::warn!(%method, path, status = 405, left_out, "wrong method");
    }
    (StatusCode::METHOD_NOT_ALLOWED, "the method must be POST")
}
