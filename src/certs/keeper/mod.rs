//! Muster's own CA in a cluster: kept in a Secret, trusted through the webhook configurations.
//!
//! All replicas do this alike, without a leader: the Secret is written with optimistic
//! concurrency, the bundle by a server-side apply that says the same from each of them. The
//! decisions are in `ring`, the configurations in `bundle`; here are the calls. Nothing
//! here serves TLS: the server takes its leaf from the [`Signer`].

mod bundle;
mod ring;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use tokio::sync::watch;

use super::{Authority, Rotation, Signer};
use crate::secret;
use bundle::Configurations;
use ring::{DerSet, Ring};

pub use bundle::{GROUP_KEYS, MUTATING, VALIDATING};

/// The Secret's name, in Muster's own namespace.
pub const SECRET: &str = "muster-ca";

/// How long to wait after a change, so that many changes at once cost few looks.
const BREATH: Duration = Duration::from_millis(200);

/// How soon to look again after trouble. Sooner than the poll, because a replica may be unready
/// until then.
const RETRY: Duration = Duration::from_secs(5);

/// How often a look begins again because somebody else wrote first. Each time somebody else got on,
/// so that a few replicas never need so many.
const ATTEMPTS: usize = 10;

/// Why the CA could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Secret cannot be kept.
    #[error(transparent)]
    Secret(#[from] secret::Error),
    /// A webhook configuration cannot be read.
    #[error("cannot read the webhook configuration {name}: {source}")]
    ReadConfiguration {
        /// Which one.
        name: &'static str,
        /// What the apiserver said.
        source: kube::Error,
    },
    /// A webhook configuration cannot be written.
    #[error("cannot write the CA into the webhook configuration {name}: {source}")]
    WriteConfiguration {
        /// Which one.
        name: &'static str,
        /// What the apiserver said.
        source: kube::Error,
    },
    /// All CAs have expired.
    #[error("no CA is valid now")]
    NoneValid,
    /// A certificate cannot be made or read.
    #[error(transparent)]
    Certificates(#[from] super::Error),
}

impl Error {
    /// Somebody else wrote the configuration, or removed it, after it was read.
    fn is_out_of_date(&self) -> bool {
        match self {
            Self::WriteConfiguration {
                source: kube::Error::Api(status),
                ..
            } => status.is_conflict() || status.is_not_found(),
            _ => false,
        }
    }
}

/// Whether the apiserver can trust the leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Not written yet, or there is no webhook configuration to write it into.
    Missing,
    /// Every webhook that exists carries all CAs.
    Carried,
}

/// Keeps the Secret and the bundle, and says which CA signs.
pub struct Keeper {
    secrets: Api<Secret>,
    configurations: Configurations,
    signer: Signer,
    trust: watch::Sender<Trust>,
    rotation: Rotation,
    carried: Carried,
}

/// What every webhook carries, by the certificates' DER bytes, and since when it has been seen there.
type Carried = BTreeMap<Vec<u8>, SystemTime>;

impl Keeper {
    /// Reads the CA, or makes the first one. The configurations are not touched yet: nobody
    /// should be sent here before the server listens.
    pub async fn open(client: Client, namespace: &str) -> Result<Self, Error> {
        Self::rotating(Rotation::default(), client, namespace).await
    }

    /// The same with other lifetimes.
    pub async fn rotating(
        rotation: Rotation,
        client: Client,
        namespace: &str,
    ) -> Result<Self, Error> {
        let secrets = Api::namespaced(client.clone(), namespace);
        let now = SystemTime::now();
        let ring = ring(&secrets, &rotation, now).await?;
        let signer = Signer::new(sign(&ring, &DerSet::new(), None, now)?);
        signer.trust(ring.bundle(now));
        Ok(Self {
            signer,
            configurations: Configurations::new(client),
            trust: watch::Sender::new(Trust::Missing),
            secrets,
            rotation,
            carried: Carried::new(),
        })
    }

    /// For `certs::Source::Memory`.
    pub fn signer(&self) -> Signer {
        self.signer.clone()
    }

    /// For readiness.
    pub fn trust(&self) -> watch::Receiver<Trust> {
        self.trust.subscribe()
    }

    /// Never ends: looks after each change of a configuration, and every `poll`.
    pub async fn run(mut self, poll: Duration) {
        let mut changes = self.configurations.changes();
        loop {
            let mut pause = poll;
            if let Err(error) = self.look(SystemTime::now()).await {
                tracing::error!(%error, "the CA is not kept");
                pause = poll.min(RETRY);
            }
            tokio::select! {
                _ = changes.next() => {
                    tokio::time::sleep(BREATH).await;
                    // The next look sees them all.
                    while let Some(Some(())) = changes.next().now_or_never() {}
                }
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// One look, with as few writes as are needed: none when all is settled. Replicas that start at
    /// the same time write at the same time: the slower one looks again at once, and is no trouble.
    pub async fn look(&mut self, now: SystemTime) -> Result<(), Error> {
        let before = self.carried.clone();
        for _ in 1..ATTEMPTS {
            match self.try_look(&before, now).await {
                Err(error) if error.is_out_of_date() => {
                    tracing::debug!(%error, "somebody else wrote first, looking again");
                }
                looked => return looked,
            }
        }
        self.try_look(&before, now).await
    }

    /// `before` is what every webhook carried at the last look.
    async fn try_look(&mut self, before: &Carried, now: SystemTime) -> Result<(), Error> {
        // The configurations first: whatever CA they carry is then in the Secret that is read
        // after them, and another replica's new CA is never taken for one that is not ours.
        let found = self.configurations.read().await?;
        let ring = ring(&self.secrets, &self.rotation, now).await?;
        let since = |der: Vec<u8>| {
            let since = before.get(&der).copied().unwrap_or(now);
            (der, since)
        };
        let carried: Carried = found.carried().into_iter().map(since).collect();

        let settled = |since: SystemTime| since + self.rotation.settling <= now;
        let lasting = carried.iter().filter(|(_, since)| settled(**since));
        let lasting: DerSet = lasting.map(|(der, _)| der.clone()).collect();
        let signing = self.signer.current();
        let authority = sign(&ring, &lasting, Some(&signing), now)?;
        if authority.certificate_pem() != signing.certificate_pem() {
            tracing::info!("another CA signs from now on");
            self.signer.replace(authority);
        }
        self.signer.trust(ring.bundle(now));
        self.carried = carried;

        for configuration in &found.0 {
            if !configuration.is_settled(&ring, now) {
                let bundle = ring.bundle(now);
                self.configurations.write(configuration, &bundle).await?;
            }
        }
        self.trust.send_replace(found.trust());
        Ok(())
    }
}

fn sign(
    ring: &Ring,
    lasting: &DerSet,
    signing: Option<&Authority>,
    now: SystemTime,
) -> Result<Authority, Error> {
    let signer = ring.signer(lasting, signing, now);
    let signer = signer.ok_or(Error::NoneValid)?;
    let (certificate, key) = (signer.certificate_pem(), signer.key_pem());
    Ok(Authority::from_pem(certificate, &key)?)
}

/// Reads the CAs, and adds one when it is due.
async fn ring(secrets: &Api<Secret>, rotation: &Rotation, now: SystemTime) -> Result<Ring, Error> {
    let renew = |data: &secret::Data| {
        let renewed = Ring::read(data).renewed(rotation.authority, now)?;
        Ok::<_, Error>(renewed)
    };
    secret::keep(secrets, SECRET, renew, Ring::write).await
}
