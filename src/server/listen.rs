//! Takes a port, for all who serve one: the webhook, health and metrics, and start barriers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::net::sockopt::set_ipv6_v6only;
use tokio::net::{TcpListener, TcpSocket};

/// Connections that wait to be accepted, as tokio has it.
pub(super) const BACKLOG: u32 = 1_024;

/// Takes a port. `[::]` serves IPv4 too, except on nodes that were booted without IPv6; those
/// get `0.0.0.0`.
pub(crate) fn listen(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let mut bound = bind(address, backlog);
    if bound.is_err() && address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        let fallback = bind((Ipv4Addr::UNSPECIFIED, address.port()).into(), backlog);
        bound = fallback.or(bound);
    }
    bound
}

fn bind(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => {
            let socket = TcpSocket::new_v6()?;
            // Also on a node whose `net.ipv6.bindv6only` says otherwise.
            set_ipv6_v6only(&socket, false)?;
            socket
        }
    };
    // A replica that is started again finds its port, though old connections linger.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(backlog)
}
