//! How often the apiserver has called Muster's webhooks, by its own metrics.

use anyhow::Result;
use hyper::Request;
use kube::Client;

/// Since the apiserver started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calls {
    pub made: u64,
    /// Those that Muster did not answer, whatever became of the object.
    pub failed: u64,
}

impl Calls {
    pub async fn of(client: &Client) -> Result<Calls> {
        let request = Request::get("/metrics").body(Vec::new())?;
        let page = client.request_text(request).await?;
        let prefix = "apiserver_admission_webhook_";
        let sum = |metric: &str, without: &str| -> u64 {
            let metric = format!("{prefix}{metric}{{");
            let lines = page.lines().filter(|line| line.starts_with(&metric));
            let ours = lines.filter(|line| line.contains("muster.dev\""));
            let ours = ours.filter(|line| without.is_empty() || !line.contains(without));
            let counts = ours.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            counts.sum::<f64>() as u64
        };
        Ok(Calls {
            made: sum("admission_duration_seconds_count", ""),
            failed: sum("rejection_count", "error_type=\"no_error\""),
        })
    }
}
