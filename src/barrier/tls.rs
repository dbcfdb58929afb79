//! A connection of the port that pods ask, under TLS and without buffers of its own while a pod waits.
//!
//! rustls' usual connection keeps 4 KiB to read into for as long as it lives. Two connections of ten
//! thousand pods wait and say nothing; what one needs while it waits is most of what it costs.

use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

/// Bytes that are read of one connection in its whole life, handshake included: an honest one sends less
/// than half of that. A message that never ends would be kept up to 64 KiB.
const MOST_READ: usize = 4_096;

/// A pod's side of the handshake, or what it says, in one read.
const READ: usize = 1_024;

/// A peer, and what it has said.
pub(super) struct Secured {
    stream: TcpStream,
    /// Boxed: what a pod that waits needs is held once, not in every future that it is handed to.
    tls: Box<UnbufferedServerConnection>,
    /// Of TLS, not read yet. Nothing is allocated where nothing is left.
    unread: Vec<u8>,
    said: Vec<u8>,
    /// Bytes that may still be read.
    left: usize,
}

/// What can be done next.
enum Next {
    /// Nothing before more is read.
    Read,
    /// The peer says no more.
    Ended,
}

impl Secured {
    /// The handshake happens as lines are read.
    pub(super) fn new(config: &Arc<ServerConfig>, stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let tls = UnbufferedServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        Ok(Self {
            stream,
            tls: Box::new(tls),
            unread: Vec::new(),
            said: Vec::new(),
            left: MOST_READ,
        })
    }

    /// The next line that the peer says, without its end. What comes with it and is of the next is kept,
    /// also where this is dropped before it has ended.
    pub(super) async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.said.iter().position(|byte| *byte == b'\n') {
                let rest = self.said.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.said, rest);
                line.truncate(end);
                return String::from_utf8(line).map_err(io::Error::other);
            }
            self.stream.readable().await?;
            let mut out = Vec::new();
            let next = match self.read() {
                Ok(()) => self.advance(&mut out)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            };
            if !out.is_empty() {
                self.stream.write_all(&out).await?;
            }
            if matches!(next, Next::Ended) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads what has come; not `async`, so that its buffer is gone while a pod waits.
    fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; READ];
        let read = self.stream.try_read(&mut buffer)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let left = self.left.checked_sub(read);
        self.left = left.ok_or_else(|| io::Error::other("it says more than anybody needs to"))?;
        self.unread.extend_from_slice(&buffer[..read]);
        Ok(())
    }

    /// Goes as far as what was read allows; what must be sent for that is added to `out`.
    fn advance(&mut self, out: &mut Vec<u8>) -> io::Result<Next> {
        loop {
            let UnbufferedStatus { mut discard, state } =
                self.tls.process_tls_records(&mut self.unread);
            let next = match state.map_err(io::Error::other)? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(io::Error::other)?;
                        discard += record.discard;
                        self.said.extend_from_slice(record.payload);
                    }
                    None
                }
                ConnectionState::EncodeTlsData(mut message) => {
                    add(out, |to| message.encode(to))?;
                    None
                }
                // It is sent before anything else is read.
                ConnectionState::TransmitTlsData(transmit) => {
                    transmit.done();
                    None
                }
                ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_) => {
                    Some(Next::Read)
                }
                _ => Some(Next::Ended),
            };
            self.unread.drain(..discard);
            if let Some(next) = next {
                if self.unread.is_empty() {
                    self.unread = Vec::new();
                }
                return Ok(next);
            }
        }
    }

    /// The last line and the end, in one packet.
    pub(super) async fn end_with(mut self, line: &str) -> io::Result<()> {
        let mut out = Vec::new();
        self.advance(&mut out)?;
        let status = self.tls.process_tls_records(&mut self.unread);
        let ConnectionState::WriteTraffic(mut traffic) = status.state.map_err(io::Error::other)?
        else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        add(&mut out, |to| traffic.encrypt(line.as_bytes(), to))?;
        add(&mut out, |to| traffic.queue_close_notify(to))?;
        self.stream.write_all(&out).await
    }
}

/// Adds what `write` writes, with as much room as it asks for.
fn add<E: Into<Short>>(
    out: &mut Vec<u8>,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, E>,
) -> io::Result<()> {
    let at = out.len();
    loop {
        match write(&mut out[at..]).map_err(E::into) {
            Ok(written) => {
                out.truncate(at + written);
                return Ok(());
            }
            Err(Short::Of(needed)) => out.resize(at + needed, 0),
            Err(Short::Never(error)) => return Err(error),
        }
    }
}

/// Why something was not written.
enum Short {
    /// It needs so many bytes.
    Of(usize),
    Never(io::Error),
}

impl From<EncodeError> for Short {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::InsufficientSize(needed) => Self::Of(needed.required_size),
            error => Self::Never(io::Error::other(error)),
        }
    }
}

impl From<EncryptError> for Short {
    fn from(error: EncryptError) -> Self {
        match error {
            EncryptError::InsufficientSize(needed) => Self::Of(needed.required_size),
            error => Self::Never(io::Error::other(error)),
        }
    }
}
