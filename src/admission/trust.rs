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
    let proof = child::proof(child.meta, namespace, &cluster.seals);
    // Nobody is asked about what cannot be read anyway: the reading says what is wrong with it.
    let read = !matches!(proof, Some(Proof::Unsealed(..))) || child::stamp(child.meta).is_ok();
    // Without a stamp or a workload there is nothing to believe, and the reading says so.
    match proof.filter(|_| read) {
        None => Ok(Trust::Good),
        Some(proof) => by(proof, namespace, cluster, forged),
    }
}

/// The same by what proves it; `forged` says whose it is not.
pub(super) fn by(
    proof: Proof,
    namespace: &str,
    cluster: &Snapshot,
    forged: impl Fn(&str) -> FieldError,
) -> Result<Trust, Unanswerable> {
    let (carrier, stamp) = match proof {
        Proof::Sealed => return Ok(Trust::Good),
        Proof::None => return Ok(Trust::Forged(forged("of any workload"))),
        Proof::Unsealed(carrier, stamp) => (carrier, stamp),
    };
    match cluster.vouched.of(&carrier, stamp) {
        Word::Carried => Ok(Trust::Good),
        Word::NotAsked if cluster.namespaces.knows(namespace) => {
            Err(Unanswerable::StampNotKnown(carrier))
        }
        Word::NotAsked => Err(Unanswerable::NamespaceNotSeen(namespace.to_owned())),
        Word::Denied => {
            let Carrier { kind, workload } = &carrier;
            Ok(Trust::Forged(forged(&format!(
                "of the {kind} {workload}, and no template of that {kind} carries it"
            ))))
        }
    }
}

fn forged(whose: &str) -> FieldError {
    let detail = format!(
        "Muster has not sealed this stamp for a child {whose}; only Muster writes stamps: remove it \
         together with the label muster.dev/gang, or ask for a gang on the workload"
    );
    FieldError::forbidden(child::stamp_path(), detail)
}
