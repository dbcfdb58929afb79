//! What the server counts, in prometheus-client's terms.
//!
//! Label values are a fixed few: nothing that a client chooses (names, namespaces) becomes one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::admission::Record;
use crate::certs::{Certificates, Clients, Reloads, pair};

/// Fine below a millisecond, where a review belongs; the apiserver's own metric starts at 5 ms.
const BUCKETS: [f64; 15] = [
    50e-6, 100e-6, 200e-6, 400e-6, 800e-6, 1.5e-3, 3e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3,
    1.0, 2.5,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Review {
    operation: &'static str,
    kind: &'static str,
    outcome: &'static str,
}

/// How a call ended that did not become a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreviewed {
    /// Answered with a 4xx: the caller's fault.
    Unanswerable,
    /// Answered with a 5xx: ours.
    Failed,
    Shed,
}

impl Unreviewed {
    const ALL: [Self; 3] = [Self::Unanswerable, Self::Failed, Self::Shed];

    fn as_str(self) -> &'static str {
        match self {
            Self::Unanswerable => "unanswerable",
            Self::Failed => "failed",
            Self::Shed => "shed",
        }
    }
}

/// Why a TLS handshake failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandshakeFailure {
    /// The client left.
    Closed,
    /// One side did not accept the other.
    Refused,
    /// The client showed no certificate, or a wrong one.
    ClientCertificate,
    Timeout,
}

impl HandshakeFailure {
    const ALL: [Self; 4] = [
        Self::Closed,
        Self::Refused,
        Self::ClientCertificate,
        Self::Timeout,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Refused => "refused",
            Self::ClientCertificate => "client_certificate",
            Self::Timeout => "timeout",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Handshake {
    reason: &'static str,
}

/// The two ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Port {
    Webhook,
    Admin,
}

impl Port {
    const ALL: [Self; 2] = [Self::Webhook, Self::Admin];

    fn as_str(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Admin => "admin",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refused {
    port: &'static str,
}

/// Handles to the counters; clones share them.
#[derive(Debug, Clone)]
pub(super) struct Metrics {
    requests: Family<Review, Counter>,
    duration: Histogram,
    in_flight: Gauge,
    handshakes: Family<Handshake, Counter>,
    refused: Family<Refused, Counter>,
}

/// Counts one review in flight for as long as it lives, even if the client goes away.
pub(super) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    pub(crate) fn register(registry: &mut Registry, certificates: Arc<Certificates>) -> Self {
        let metrics = Self {
            requests: Family::default(),
            duration: Histogram::new(BUCKETS),
            in_flight: Gauge::default(),
            handshakes: Family::default(),
            refused: Family::default(),
        };
        metrics.start_at_zero();
        registry.register(
            "muster_admission_requests",
            "Admission calls by how they ended",
            metrics.requests.clone(),
        );
        registry.register_with_unit(
            "muster_admission_duration",
            "Time to decide a review, its body once read",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        registry.register(
            "muster_admission_in_flight",
            "Admission calls in work",
            metrics.in_flight.clone(),
        );
        registry.register(
            "muster_tls_handshake_failures",
            "TLS handshakes that failed",
            metrics.handshakes.clone(),
        );
        registry.register(
            "muster_connections_refused",
            "Connections closed at once because too many were open",
            metrics.refused.clone(),
        );
        registry.register_collector(Box::new(CertificateMetrics(certificates)));
        metrics
    }

    pub(crate) fn reviewed(&self, record: &Record) {
        self.count(record.operation, record.kind, record.outcome.as_str());
    }

    /// Operation and kind stay empty: they are in a body that was not understood or not read.
    pub(crate) fn not_reviewed(&self, outcome: Unreviewed) {
        self.count("", "", outcome.as_str());
    }

    fn count(&self, operation: &'static str, kind: &'static str, outcome: &'static str) {
        let labels = Review {
            operation,
            kind,
            outcome,
        };
        self.requests.get_or_create(&labels).inc();
    }

    /// Prometheus sees no increase in a series that begins at 1.
    fn start_at_zero(&self) {
        for outcome in Unreviewed::ALL {
            let labels = Review {
                operation: "",
                kind: "",
                outcome: outcome.as_str(),
            };
            drop(self.requests.get_or_create(&labels));
        }
        for failure in HandshakeFailure::ALL {
            let reason = failure.as_str();
            drop(self.handshakes.get_or_create(&Handshake { reason }));
        }
        for port in Port::ALL {
            let port = port.as_str();
            drop(self.refused.get_or_create(&Refused { port }));
        }
    }

    pub(crate) fn took(&self, duration: Duration) {
        self.duration.observe(duration.as_secs_f64());
    }

    pub(crate) fn in_flight(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    pub(crate) fn handshake_failed(&self, failure: HandshakeFailure) {
        let reason = failure.as_str();
        self.handshakes.get_or_create(&Handshake { reason }).inc();
    }

    pub(super) fn connection_refused(&self, port: Port) {
        let port = port.as_str();
        self.refused.get_or_create(&Refused { port }).inc();
    }
}

/// Reads the certificate's state at each scrape, so that it is never out of date.
#[derive(Debug)]
struct CertificateMetrics(Arc<Certificates>);

impl Collector for CertificateMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let expiry = pair::seconds(self.0.validity().not_after);
        let gauge = ConstGauge::new(i64::try_from(expiry).unwrap_or(i64::MAX));
        gauge.encode(encoder.encode_descriptor(
            "muster_certificate_expiry_timestamp",
            "When the certificate in use expires, in seconds since 1970",
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?)?;

        let family = encoder.encode_descriptor(
            "muster_certificate_reloads",
            "New certificates found, by whether they were taken",
            None,
            MetricType::Counter,
        )?;
        encode(self.0.reloads(), family)
    }
}

/// Counts what became of the file of client CAs.
pub(super) fn register_clients(registry: &mut Registry, clients: Arc<Clients>) {
    registry.register_collector(Box::new(ClientMetrics(clients)));
}

#[derive(Debug)]
struct ClientMetrics(Arc<Clients>);

impl Collector for ClientMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let family = encoder.encode_descriptor(
            "muster_client_ca_reloads",
            "New client CAs found, by whether they were taken",
            None,
            MetricType::Counter,
        )?;
        encode(self.0.reloads(), family)
    }
}

fn encode(reloads: Reloads, mut family: MetricEncoder<'_>) -> fmt::Result {
    for (result, count) in [("taken", reloads.taken), ("refused", reloads.refused)] {
        ConstCounter::new(count).encode(family.encode_family(&[("result", result)])?)?;
    }
    Ok(())
}
