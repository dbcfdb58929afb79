//! Free ports on loopback: several processes must know each other's port before any of them runs.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use tokio::net::TcpSocket;

/// A port that the system picked, held as long as this lives.
///
/// Linux lets a process listen on a port that another socket is bound to, if both allow it
/// (`SO_REUSEADDR`, which Go and tokio set) and the other does not listen. To nobody else the
/// system gives such a port: not to a connection, and not to whoever asks for any port. Were it let
/// go for the process that will listen, one of thousands of connections could get it first.
pub struct Port {
    pub number: u16,
    _held: TcpSocket,
}

impl Port {
    pub fn reserve() -> Result<Port> {
        Port::bind(0).context("cannot bind a port on 127.0.0.1")
    }

    /// The same port again, after whoever had it has ended.
    pub fn again(number: u16) -> Result<Port> {
        Port::bind(number).with_context(|| format!("port {number} is not free again"))
    }

    fn bind(number: u16) -> Result<Port> {
        let held = TcpSocket::new_v4()?;
        held.set_reuseaddr(true)?;
        held.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, number)))?;
        let number = held.local_addr()?.port();
        Ok(Port {
            number,
            _held: held,
        })
    }
}
