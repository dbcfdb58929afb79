//! The admin endpoints, for kubelet and Prometheus: alive, ready, metrics.
//!
//! On a port of their own and without TLS, so that a broken certificate shows as "not ready"
//! instead of as a failed probe that restarts the pod.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
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

/// The answer of `/readyz` as a metric: a replica that can be scraped need not be ready for reviews.
struct Ready(Arc<Readiness>);

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ready")
    }
}

impl Collector for Ready {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let ready = self.0.reasons_against(SystemTime::now()).is_empty();
        let encoder = encoder.encode_descriptor(
            "muster_ready",
            "Whether this replica is ready for reviews",
            None,
            MetricType::Gauge,
        )?;
        ConstGauge::new(i64::from(ready)).encode(encoder)
    }
}

pub(super) fn routes(readiness: Readiness, mut registry: Registry) -> Router {
    let readiness = Arc::new(readiness);
    registry.register_collector(Box::new(Ready(Arc::clone(&readiness))));
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
