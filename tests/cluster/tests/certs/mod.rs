//! Certificates that change while they are used, and clocks that are off.

pub mod bundles;
pub mod clocks;
pub mod load;
pub mod rotation;

use anyhow::{Context, Result};

use crate::control_plane::ControlPlane;
use crate::muster::{Muster, metrics};
use crate::ports::Port;
use crate::process::Process;

/// A process that is ready.
pub struct Replica {
    pub name: String,
    pub port: u16,
    pub admin: u16,
    pub process: Process,
}

impl Replica {
    pub async fn start(muster: &Muster, plane: &ControlPlane, name: &str) -> Result<Replica> {
        let (port, admin) = (Port::reserve()?, Port::reserve()?);
        let (at, shown) = (port.number, admin.number);
        let process = muster.start_on(plane, name, port, admin).await?;
        Ok(Replica {
            name: name.to_owned(),
            port: at,
            admin: shown,
            process,
        })
    }

    pub async fn shown(&self) -> Result<Shown> {
        Shown::of(&metrics(self.admin).await?)
    }
}

/// What a replica's metrics say of its certificate.
pub struct Shown {
    /// How often it was replaced.
    pub taken: u64,
    /// How often a new one was refused.
    pub refused: u64,
    /// When it expires, in seconds since 1970.
    pub expires: i64,
}

impl Shown {
    pub fn of(page: &str) -> Result<Shown> {
        let reloads = |result: &str| {
            let metric = format!("muster_certificate_reloads_total{{result=\"{result}\"}}");
            value(page, &metric)
        };
        Ok(Shown {
            taken: reloads("taken")? as u64,
            refused: reloads("refused")? as u64,
            expires: value(page, "muster_certificate_expiry_timestamp_seconds")? as i64,
        })
    }
}

/// A sample of a page of metrics.
fn value(page: &str, metric: &str) -> Result<f64> {
    let mut lines = page.lines();
    let found = lines.find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
    let found = found.with_context(|| format!("no {metric}"))?;
    Ok(found.parse()?)
}
