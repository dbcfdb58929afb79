//! Whether a child's stamp may be believed: by its seal, or because its workload carries it too.

use super::Unanswerable;
use crate::gang::vouched::Word;
use crate::gang::{Carrier, FieldError};
use crate::scheduler::Snapshot;
use crate::workload::child::{self, Child, Proof};

/// What is to be thought of a stamp.
pub(super) enum Trust {
    /// Muster wrote it, for this child.
    Good,
    /// Somebody else did.
    Forged(FieldError),
}

pub(super) fn of(
    child: &Child<'_>,
    namespace: &str,
    cluster: &Snapshot,
) -> Result<Trust, Unanswerable> {
    match child::proof(child.meta, namespace, &cluster.seals) {
        // Without a stamp or a workload there is nothing to believe, and the reading says so.
        None | Some(Proof::Sealed) => Ok(Trust::Good),
        Some(Proof::Unsealed(carrier, stamp)) => match cluster.vouched.of(&carrier, stamp) {
            Word::Carried => Ok(Trust::Good),
            Word::Denied => Ok(Trust::Forged(forged(&carrier))),
            Word::NotAsked => Err(Unanswerable::StampNotKnown(carrier)),
        },
    }
}

fn forged(carrier: &Carrier) -> FieldError {
    let Carrier { kind, workload } = carrier;
    let detail = format!(
        "Muster has not sealed this stamp for the {kind} {workload}, and no template of that {kind} \
         carries it; only Muster writes stamps: remove it together with the label muster.dev/gang, \
         or ask for a gang on the workload"
    );
    FieldError::forbidden(child::stamp_path(), detail)
}
