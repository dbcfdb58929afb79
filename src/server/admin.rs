//! The admin endpoints, for kubelet and Prometheus: alive, ready, metrics.
//!
//! On a port of their own and without TLS, so that a broken certificate shows as "not ready"
//! instead of as a failed probe that restarts the pod.

use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use super::lifecycle::Lifecycle;
use crate::certs::Certificates;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A condition of readiness: an `Err` says why not.
pub(crate) type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Whether calls should be sent here.
pub(super) struct Readiness {
    pub(crate) lifecycle: Lifecycle,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) checks: Vec<(&'static str, Check)>,
}

impl Readiness {
    fn reasons_against(&self, now: SystemTime) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.lifecycle.is_draining() {
            reasons.push("draining".to_owned());
        }
        if let Err(error) = self.certificates.check(now) {
            reasons.push(format!("certificate: {error}"));
        }
        for (name, check) in &self.checks {
            if let Err(reason) = check() {
                reasons.push(format!("{name}: {reason}"));
            }
        }
        reasons
    }
}

pub(super) fn routes(readiness: Readiness, registry: Registry) -> Router {
    let readiness = Arc::new(readiness);
    let registry = Arc::new(registry);
    Router::new()
        .route("/livez", get(async || "alive\n"))
        .route("/readyz", get(async move || ready(&readiness)))
        .route("/metrics", get(async move || metrics(&registry)))
}

fn ready(readiness: &Readiness) -> Response {
    let reasons = readiness.reasons_against(SystemTime::now());
    if reasons.is_empty() {
        return "ready\n".into_response();
    }
    let text = format!("not ready\n{}\n", reasons.join("\n"));
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

fn metrics(registry: &Registry) -> Response {
    let mut text = String::new();
    match text::encode(&mut text, registry) {
        Ok(()) => ([(CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "cannot encode the metrics");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
