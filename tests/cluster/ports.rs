//! Free ports on loopback: several processes must know each other's port before any of them runs.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};

/// A port that the system picked, held until the process that will listen on it starts.
pub struct Port {
    pub number: u16,
    _held: TcpListener,
}

impl Port {
    pub fn reserve() -> Result<Port> {
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .context("cannot bind a port on 127.0.0.1")?;
        let number = held.local_addr()?.port();
        Ok(Port {
            number,
            _held: held,
        })
    }

    /// The same port again, after whoever had it has ended.
    pub fn again(number: u16) -> Result<Port> {
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, number))
            .with_context(|| format!("port {number} is not free again"))?;
        Ok(Port {
            number,
            _held: held,
        })
    }
}
