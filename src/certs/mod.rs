//! The server's certificate: made, read, kept fresh; and the CAs of its clients.
//!
//! An [`Authority`] signs leaves; [`files`] holds them in a directory laid out as a Kubernetes TLS
//! Secret; [`Certificates`] is what the TLS listener serves, and it follows changes while it runs.
//! [`keeper`] keeps the authorities in a cluster: in a Secret, and in the webhook configurations that
//! must trust them; [`rotation`] says how often they are replaced. [`Clients`] are those whom the listener lets in, where it asks. Nothing here
//! knows of HTTP, of metrics, of admission or of gangs.

pub mod authority;
pub mod clients;
pub mod files;
pub mod keeper;
pub mod pair;
mod reload;
pub mod rotation;

use std::io;
use std::path::PathBuf;

pub use authority::{Authority, Signer, Subject};
pub use clients::Clients;
pub(crate) use reload::Reloads;
pub use reload::{Certificates, Source};
pub use rotation::{Lifetime, Rotation};

/// Why a certificate could not be made, read or taken into use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is missing or unreadable.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file of the development directory cannot be replaced.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Certificate and key cannot be served.
    #[error("the certificate pair is unusable: {0}")]
    Pair(#[from] pair::PairError),
    /// A file of CAs cannot be used.
    #[error("{}: {source}", path.display())]
    Bundle {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: clients::BundleError,
    },
    /// Key generation or signing failed.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// It has expired, or is not valid yet.
    #[error("the certificate is outside its validity: {0}")]
    Validity(#[from] pair::OutOfValidity),
}
