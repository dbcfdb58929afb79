//! Takes a port, for all who serve one: the webhook, health and metrics, and start barriers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;
use rustix::net::sockopt::set_ipv6_v6only;
use tokio::net::{TcpListener, TcpSocket};

/// Connections that wait to be accepted, as tokio has it.
pub(super) const BACKLOG: u32 = 1_024;

/// Takes a port. `[::]` serves IPv4 too, except on nodes that were booted without IPv6; those
/// get `0.0.0.0`.
/// What a client has sent and nobody has read yet is memory of this container: `unread` bounds it for
/// each connection, where the system's own bound is too much.
pub(crate) fn listen(
    address: SocketAddr,
    backlog: u32,
    unread: Option<u32>,
) -> io::Result<TcpListener> {
    let bound = bind(address, backlog, unread);
    match bound {
        Err(error) if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && lacks_ipv6(&error) => {
            tracing::warn!(%address, %error, "no IPv6 on this node: only IPv4 is served");
            bind(
                (Ipv4Addr::UNSPECIFIED, address.port()).into(),
                backlog,
                unread,
            )
        }
        bound => bound,
    }
}

/// Another error, as of a port that is taken, must not become a replica that half of the network
/// cannot reach.
fn lacks_ipv6(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}

fn bind(address: SocketAddr, backlog: u32, unread: Option<u32>) -> io::Result<TcpListener> {
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
    if let Some(bytes) = unread {
        // Connections have it from the port. Linux takes twice as much, for its own needs.
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind(address)?;
    socket.listen(backlog)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_node_without_ipv6_is_served_by_ipv4_alone() {
        let lacks = |errno: Errno| lacks_ipv6(&errno.into());
        assert!(lacks(Errno::AFNOSUPPORT));
        assert!(lacks(Errno::ADDRNOTAVAIL));
        assert!(!lacks(Errno::ADDRINUSE));
        assert!(!lacks(Errno::ACCESS));
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_an_error() {
        let any = |port| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        let taken = listen(any(0), BACKLOG, None).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = listen(any(port), BACKLOG, None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
