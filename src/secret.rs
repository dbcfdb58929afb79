//! A Secret that all replicas keep alike, without a leader: read, and written with optimistic
//! concurrency where its content will not do. What the content is its users know.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ObjectMeta, PostParams};

/// What a Secret holds.
pub(crate) type Data = BTreeMap<String, ByteString>;

/// How often a write begins again because somebody else wrote first. Each time somebody else got on,
/// so that a few replicas never need so many.
const ATTEMPTS: usize = 10;

/// Why a Secret could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read the Secret {name}: {source}")]
    Read {
        /// Which one.
        name: &'static str,
        /// What the apiserver said.
        source: kube::Error,
    },
    /// It cannot be written.
    #[error("cannot write the Secret {name}: {source}")]
    Write {
        /// Which one.
        name: &'static str,
        /// What the apiserver said.
        source: kube::Error,
    },
    /// Other replicas keep writing it at the same time.
    #[error("the Secret {0} changes faster than it can be written")]
    Contended(&'static str),
}

/// Whether a Secret must be written.
pub(crate) enum Renewal<T> {
    /// What was read will do.
    Kept(T),
    /// This is to be used from now on, and written.
    New(T),
}

/// Reads a Secret, and writes what `renew` makes of it. A replica whose write conflicts reads again, so
/// that all replicas have the same.
pub(crate) async fn keep<T, E: From<Error>>(
    secrets: &Api<Secret>,
    name: &'static str,
    renew: impl Fn(&Data) -> Result<Renewal<T>, E>,
    write: impl Fn(&T) -> Data,
) -> Result<T, E> {
    for _ in 0..ATTEMPTS {
        let found = secrets.get_opt(name).await;
        let found = found.map_err(|source| Error::Read { name, source })?;
        let data = found.as_ref().and_then(|secret| secret.data.as_ref());
        let new = match renew(data.unwrap_or(&Data::new()))? {
            Renewal::Kept(kept) => return Ok(kept),
            Renewal::New(new) => new,
        };
        let params = PostParams::default();
        let written = match found {
            Some(mut secret) => {
                secret.data = Some(write(&new));
                secrets.replace(name, &params, &secret).await
            }
            None => secrets.create(&params, &secret(name, write(&new))).await,
        };
        match written {
            Ok(_) => {
                tracing::info!(name, "wrote a new key into the Secret");
                return Ok(new);
            }
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
            }
            Err(source) => return Err(Error::Write { name, source }.into()),
        }
    }
    Err(Error::Contended(name).into())
}

fn secret(name: &str, data: Data) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([("app.kubernetes.io/name".to_owned(), "muster".to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..Secret::default()
    }
}
