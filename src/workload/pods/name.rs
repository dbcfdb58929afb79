//! What a gang that pods declare is called, by them and by others.

use sha2::{Digest, Sha256};

use super::facts::KIND;
use super::read::speaks_dialect;
use crate::gang::{FieldError, FieldPath, Identity, PartName, PartnerRef, Round, WorkloadRef};
use crate::workload::declaration::dialect;
use crate::workload::keys;
use crate::workload::view::Meta;

/// The longest value of a label, which the gang's name is.
pub(super) const MAX_NAME: usize = 63;

/// Between the gang's name and the revision. No gang's own name has it.
const SEPARATOR: char = '_';

/// How others name the gang of a pod. Which revision it is of they do not know.
pub(super) fn itself(meta: &Meta<'_>) -> PartnerRef {
    let namespace = meta.namespace.as_deref().unwrap_or("default");
    let dialect = || dialect::name_of(meta);
    let name = meta.annotation(keys::GANG_NAME).or_else(dialect);
    let gang = WorkloadRef::new(namespace, name.unwrap_or_default());
    PartnerRef::new(KIND.name, gang)
}

/// The label whose value tells revisions apart, where each has a gang of its own.
pub(in crate::workload) fn revision_key<'m>(meta: &'m Meta<'_>) -> Option<&'m str> {
    meta.annotation(keys::REVISION_LABEL)
}

/// The name of a pod's gang: the one that it declares, and its revision where each has a gang of its
/// own.
pub(crate) fn name(meta: &Meta<'_>) -> Result<String, FieldError> {
    let dialect = || dialect::name_of(meta).filter(|_| speaks_dialect(meta));
    let declared = meta.annotation(keys::GANG_NAME).or_else(dialect);
    let declared = declared.unwrap_or_default();
    let Some(key) = revision_key(meta) else {
        return Ok(declared.to_owned());
    };
    let metadata = FieldPath::new("metadata");
    let Some(revision) = meta.label(key) else {
        let at = metadata.child("labels").key(key);
        let detail = format!(
            "{} names it, and the pod's controller has not written it",
            keys::REVISION_LABEL
        );
        return Err(FieldError::required(at, detail));
    };
    let name = format!("{declared}{SEPARATOR}{revision}");
    if name.len() > MAX_NAME {
        let at = metadata.child("annotations").key(keys::GANG_NAME);
        let most = MAX_NAME.saturating_sub(revision.len() + 1);
        let detail =
            format!("together with the revision {revision:?} at most {most} characters fit");
        return Err(FieldError::invalid(at, declared, detail));
    }
    Ok(name)
}

/// What tells such a gang from all others of the cluster.
pub(crate) fn identity(namespace: &str, name: &str, round: Round) -> Identity {
    Identity {
        namespace: namespace.to_owned(),
        workload: name.to_owned(),
        uid: uid(namespace, name),
        part: PartName::whole(),
        round,
        ..Identity::default()
    }
}

/// Stands for the uid of an object: such a gang has none.
pub(super) fn uid(namespace: &str, name: &str) -> String {
    let mut hash = Sha256::new();
    hash.update("pods/");
    hash.update(namespace);
    hash.update("/");
    hash.update(name);
    let digest = hash.finalize();
    digest.iter().take(16).map(|b| format!("{b:02x}")).collect()
}
