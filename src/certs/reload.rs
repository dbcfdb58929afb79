//! The certificate in use, and how it follows its source while the server runs.
//!
//! Files are polled by content: kubelet swaps the `..data` link of a Secret volume, and a watch on
//! a file inside dies at the first swap. Every tick looks at the wall clock, because a timer for
//! "in four days" is late after a suspended machine wakes up.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::Error;
use super::authority::{Signer, Subject};
use super::files::{self, Material};
use super::pair::{OutOfValidity, Pair, Validity};

pub(super) const POLL: Duration = Duration::from_secs(10);

/// Where the certificate comes from.
pub enum Source {
    /// A directory that others keep fresh: a mounted Secret, cert-manager.
    Files(PathBuf),
    /// A directory that Muster keeps fresh with a CA of its own.
    Development {
        /// The directory.
        dir: PathBuf,
        /// What leaves are made for.
        subject: Subject,
    },
    /// A leaf that never touches a disk, signed by a CA in memory; a new one when that CA changes.
    Memory {
        /// The CA.
        signer: Signer,
        /// What leaves are made for.
        subject: Subject,
    },
}

/// How often the certificate changed, and how often a new one was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reloads {
    pub taken: u64,
    pub(crate) refused: u64,
}

struct Loaded {
    material: Material,
    pair: Pair,
}

/// The certificate that the listener serves now.
pub struct Certificates {
    source: Source,
    every: Duration,
    current: ArcSwap<Loaded>,
    taken: AtomicU64,
    refused: AtomicU64,
    /// The last refusal, so that the same trouble is told once and not at every tick.
    complaint: Mutex<Option<Complaint>>,
}

#[derive(PartialEq, Eq)]
struct Complaint {
    material: Option<Material>,
    reason: String,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("validity", &self.validity())
            .field("reloads", &self.reloads())
            .finish_non_exhaustive()
    }
}

impl Certificates {
    /// Loads the first certificate. An expired one is taken, for readiness to report; later ones
    /// must be valid, since they would replace something that works.
    pub fn open(source: Source) -> Result<Self, Error> {
        let material = source.fetch(None, SystemTime::now())?;
        let pair = Pair::from_pem(&material.certificate, &material.key)?;
        Ok(Self {
            source,
            every: POLL,
            current: ArcSwap::from_pointee(Loaded { material, pair }),
            taken: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            complaint: Mutex::new(None),
        })
    }

    /// Polls at another interval than ten seconds.
    pub fn polled_every(mut self, interval: Duration) -> Self {
        self.every = interval;
        self
    }

    /// Follows the source until the future is dropped.
    pub(crate) async fn keep_fresh(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.every).await;
            let this = Arc::clone(&self);
            // Disks stall; the threads that answer reviews must not.
            let refreshed = tokio::task::spawn_blocking(move || this.refresh(SystemTime::now()));
            if let Err(error) = refreshed.await {
                tracing::error!(%error, "the certificate check failed");
            }
        }
    }

    /// Looks at the source once, and takes what is new and sound.
    pub fn refresh(&self, now: SystemTime) {
        let loaded = self.current.load();
        let material = match self.source.fetch(Some(&loaded), now) {
            Ok(material) => material,
            Err(error) => return self.complain(None, &error),
        };
        if material == loaded.material {
            return self.settle();
        }
        let pair = Pair::from_pem(&material.certificate, &material.key)
            .map_err(Error::from)
            .and_then(|pair| {
                pair.facts.validity.check(now)?;
                Ok(pair)
            });
        match pair {
            Err(error) => self.complain(Some(material), &error),
            Ok(pair) => {
                let expires = super::pair::seconds(pair.facts.validity.not_after);
                self.current.store(Arc::new(Loaded { material, pair }));
                self.taken.fetch_add(1, Ordering::Relaxed);
                self.settle();
                tracing::info!(expires, "new certificate in use");
            }
        }
    }

    fn complain(&self, material: Option<Material>, error: &Error) {
        let complaint = Complaint {
            material,
            reason: error.to_string(),
        };
        let mut last = self
            .complaint
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() != Some(&complaint) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            tracing::error!(%error, "new certificate refused, the old one stays in use");
            *last = Some(complaint);
        }
    }

    fn settle(&self) {
        *self
            .complaint
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) fn validity(&self) -> Validity {
        self.current.load().pair.facts.validity
    }

    /// Whether the certificate in use counts at that moment.
    pub(crate) fn check(&self, now: SystemTime) -> Result<(), OutOfValidity> {
        self.validity().check(now)
    }

    /// How often the certificate was replaced or refused so far.
    pub fn reloads(&self) -> Reloads {
        Reloads {
            taken: self.taken.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// The CAs that clients should trust, as PEM, where the source knows them.
    pub fn authority_pem(&self) -> Option<Vec<u8>> {
        match &self.source {
            Source::Memory { signer, .. } => Some(signer.trusted().as_bytes().to_vec()),
            Source::Files(_) | Source::Development { .. } => {
                self.current.load().material.authority.clone()
            }
        }
    }
}

impl Source {
    fn fetch(&self, loaded: Option<&Loaded>, now: SystemTime) -> Result<Material, Error> {
        match self {
            Self::Files(dir) => files::read(dir),
            Self::Development { dir, subject } => {
                files::renew_development(dir, subject, now)?;
                files::read(dir)
            }
            Self::Memory { signer, subject } => {
                let authority = signer.current();
                if let Some(loaded) = loaded
                    && authority.signed(&loaded.pair.facts)
                    && subject.is_met_by(&loaded.pair.facts, now)
                {
                    return Ok(loaded.material.clone());
                }
                let leaf = authority.issue(subject, now)?;
                Ok(Material {
                    certificate: leaf.certificate.into_bytes(),
                    key: leaf.key.into_bytes(),
                    authority: Some(authority.certificate_pem().as_bytes().to_vec()),
                })
            }
        }
    }
}

impl ResolvesServerCert for Certificates {
    /// One certificate for every name asked: a client by IP address sends no name at all.
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.load().pair.key))
    }
}
