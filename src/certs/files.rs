//! Certificates in a directory with the file names of a Kubernetes TLS Secret.
//!
//! Reading suits a mounted Secret, whoever filled it; writing is for development only, where the
//! CA's key lies beside the leaf. Nothing here serves TLS.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::Error;
use super::authority::{Authority, Subject};
use super::pair::Pair;

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITY: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";

/// What the files say, unchecked. Compared as bytes to notice a change.
#[derive(Clone, PartialEq, Eq)]
pub struct Material {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
    /// Absent when another party publishes the CA.
    pub(crate) authority: Option<Vec<u8>>,
}

/// Reads a certificate directory.
pub fn read(dir: &Path) -> Result<Material, Error> {
    // A second look at once: between resolving the link and reading, kubelet may have removed the
    // old directory.
    read_once(dir).or_else(|_| read_once(dir))
}

fn read_once(dir: &Path) -> Result<Material, Error> {
    // kubelet swaps the `..data` link of a Secret volume. Resolving it once gives a certificate
    // and a key of the same version, never one of each.
    let dir = fs::canonicalize(dir.join("..data")).unwrap_or_else(|_| dir.to_owned());
    let authority = match read_file(&dir.join(AUTHORITY)) {
        Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
        other => Some(other?),
    };
    Ok(Material {
        certificate: read_file(&dir.join(CERTIFICATE))?,
        key: read_file(&dir.join(KEY))?,
        authority,
    })
}

pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}

/// What became of a certificate in the development directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// It was there and is still good.
    Kept,
    /// It was made now.
    New,
}

/// The development files, and which of them are new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) authority: PathBuf,
    /// Whether the CA is new.
    pub authority_made: Made,
    /// Whether the server's certificate is new.
    pub leaf_made: Made,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let made = |made| match made {
            Made::Kept => "kept",
            Made::New => "new",
        };
        let (authority, leaf) = (made(self.authority_made), made(self.leaf_made));
        writeln!(f, "CA:          {} ({authority})", self.authority.display())?;
        writeln!(f, "certificate: {} ({leaf})", self.certificate.display())?;
        write!(f, "key:         {} ({leaf})", self.key.display())
    }
}

/// Makes a development CA and leaf where they are missing or due; a second call changes nothing.
pub fn write_development(dir: &Path, extra_sans: &[String]) -> Result<Written, Error> {
    let subject = Subject::default().also_named(extra_sans);
    renew_development(dir, &subject, SystemTime::now())
}

/// As [`write_development`], for a leaf of one's own making, at a given moment.
pub fn renew_development(dir: &Path, subject: &Subject, now: SystemTime) -> Result<Written, Error> {
    fs::create_dir_all(dir).map_err(|source| Error::Write {
        path: dir.to_owned(),
        source,
    })?;
    let mut written = Written {
        certificate: dir.join(CERTIFICATE),
        key: dir.join(KEY),
        authority: dir.join(AUTHORITY),
        authority_made: Made::Kept,
        leaf_made: Made::Kept,
    };
    let authority = match usable_authority(dir, subject, now) {
        Some(authority) => authority,
        None => {
            let authority = Authority::generate(now)?;
            // The key goes first: a CA certificate whose key is lost could never be reused.
            write_secret(&dir.join(AUTHORITY_KEY), &authority.key_pem())?;
            write_public(&written.authority, authority.certificate_pem())?;
            written.authority_made = Made::New;
            authority
        }
    };
    if !usable_leaf(dir, &authority, subject, now) {
        let leaf = authority.issue(subject, now)?;
        write_secret(&written.key, &leaf.key)?;
        write_public(&written.certificate, &leaf.certificate)?;
        written.leaf_made = Made::New;
    }
    Ok(written)
}

/// The CA of an earlier run, unless it is broken or would end before a new leaf does.
fn usable_authority(dir: &Path, subject: &Subject, now: SystemTime) -> Option<Authority> {
    let certificate = fs::read_to_string(dir.join(AUTHORITY)).ok()?;
    let key = fs::read_to_string(dir.join(AUTHORITY_KEY)).ok()?;
    let authority = Authority::from_pem(&certificate, &key).ok()?;
    authority.validity().check(now).ok()?;
    authority
        .validity()
        .check(now + subject.lifetime.whole)
        .ok()?;
    Some(authority)
}

fn usable_leaf(dir: &Path, authority: &Authority, subject: &Subject, now: SystemTime) -> bool {
    let Ok(material) = read(dir) else {
        return false;
    };
    Pair::from_pem(&material.certificate, &material.key)
        .is_ok_and(|pair| authority.signed(&pair.facts) && subject.is_met_by(&pair.facts, now))
}

fn write_secret(path: &Path, text: &str) -> Result<(), Error> {
    write(path, text, 0o600)
}

fn write_public(path: &Path, text: &str) -> Result<(), Error> {
    write(path, text, 0o644)
}

/// Writes beside the file and renames, so that a reader sees the old text or the new, not a part.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = PathBuf::from(beside);
    let attempt = || -> io::Result<()> {
        // A file left by a crash may have another mode: `create_new` makes ours count.
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    attempt().map_err(|source| Error::Write {
        path: path.to_owned(),
        source,
    })
}
