//! The server's certificate: made, read, kept fresh.
//!
//! An [`Authority`] signs leaves; [`files`] holds them in a directory laid out as a Kubernetes TLS
//! Secret; [`Certificates`] is what the TLS listener serves, and it follows changes while it runs.
//! [`keeper`] keeps the authorities in a cluster: in a Secret, and in the webhook configurations that
//! must trust them. Nothing here knows of HTTP, of metrics, of admission or of gangs.

pub mod authority;
pub mod files;
// Until its items are private unless used.
#[allow(unreachable_pub)]
pub mod keeper;
pub mod pair;
mod reload;

use std::io;
use std::path::PathBuf;

pub use authority::{Authority, Signer, Subject};
pub use reload::{Certificates, Source};

/// Why a certificate could not be made, read or taken into use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("the certificate pair is unusable: {0}")]
    Pair(#[from] pair::PairError),
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    #[error("the certificate is outside its validity: {0}")]
    Validity(#[from] pair::OutOfValidity),
}
