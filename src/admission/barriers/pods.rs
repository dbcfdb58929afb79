//! Pods that wait at a start barrier: each is told which one, and gets a token for it.
//!
//! Only now the start is known: a template is the same for all attempts, and a Job's cannot change when
//! it is resumed.

use serde_json::Value;

use super::lists::List;
use crate::admission::children;
use crate::admission::patch::PatchBuilder;
use crate::admission::trust::{self, Trust};
use crate::admission::{Decided, Decision, Phase, Review, Unanswerable};
use crate::barrier::container;
use crate::gang::barrier::{CONTAINER, VOLUME};
use crate::gang::{BarrierStart, FieldError, FieldPath};
use crate::scheduler::Snapshot;
use crate::workload::child::{self, Child};
use crate::workload::keys;

pub(crate) fn decide(
    phase: Phase,
    review: &Review<'_>,
    pod: &Child<'_>,
    cluster: &Snapshot,
) -> Result<Decided, Unanswerable> {
    let namespace = review.namespace();
    let start = match child::barrier_start(pod.meta, namespace) {
        Some(start) => start,
        None => return Ok(children::deny(vec![stray("of any workload that has one")])),
    };
    let proof = child::barrier_proof(pod.meta, namespace, &cluster.seals);
    let proof = proof.unwrap_or(child::Proof::None);
    if let Trust::Forged(error) = trust::by(proof, namespace, cluster, stray)? {
        return Ok(children::deny(vec![error]));
    }
    let waiting = Waiting::new(pod, &start, cluster);
    let mut patch = PatchBuilder::default();
    match phase {
        Phase::Mutate => waiting.tell(&mut patch),
        Phase::Validate => {
            if let Some(error) = waiting.lacks() {
                return Ok(children::deny(vec![error]));
            }
        }
    }
    if !pod.is_stamped() {
        return Ok(Decision::allow(patch.finish(), Vec::new()).about(String::new()));
    }
    let Decided { decision, gang } = children::decide(phase, review, pod, None, cluster)?;
    Ok(decision.after(patch.finish()).about(gang))
}

fn stray(whose: &str) -> FieldError {
    let at = FieldPath::new("metadata")
        .child("labels")
        .key(keys::BARRIER);
    let detail = format!(
        "Muster has not written this for a pod {whose}: it would count for a start barrier that it \
         does not belong to; remove it together with {}, or ask for a start barrier on the workload",
        keys::BARRIER_STAMP
    );
    FieldError::forbidden(at, detail)
}

/// Where a volume names its ConfigMap: as it is written today, and as templates have it that were stamped
/// before.
const SHOWN: [&str; 2] = ["/projected/sources/0/configMap/name", "/configMap/name"];

/// A pod, its container that waits, and what that is to be told.
struct Waiting {
    barrier: String,
    /// The container's position and its variables.
    container: Option<(usize, Vec<Value>)>,
    /// The position of the volume, where in it the ConfigMap is named, and the name.
    volume: Option<(usize, Option<(&'static str, String)>)>,
    told: Vec<Value>,
}

impl Waiting {
    fn new(pod: &Child<'_>, start: &BarrierStart, cluster: &Snapshot) -> Self {
        let spec = pod.pods.spec;
        let containers = List::new("initContainers", spec.init_containers.items());
        let volumes = List::new("volumes", spec.volumes.items());
        let variables = |container: &Value| container["env"].as_array().cloned();
        let shows = |volume: &Value| {
            SHOWN.into_iter().find_map(|path| {
                let name = volume.pointer(path)?.as_str()?;
                Some((path, name.to_owned()))
            })
        };
        Self {
            barrier: start.name(),
            container: containers
                .position(CONTAINER)
                .zip(containers.named(CONTAINER))
                .map(|(at, container)| (at, variables(container).unwrap_or_default())),
            volume: volumes
                .position(VOLUME)
                .zip(volumes.named(VOLUME))
                .map(|(at, volume)| (at, shows(volume))),
            told: container::told(start, &cluster.wait, &cluster.seals),
        }
    }

    fn tell(&self, patch: &mut PatchBuilder) {
        if let Some((at, variables)) = &self.container {
            let others = variables.iter().filter(|variable| !self.tells(variable));
            let all: Vec<Value> = others.chain(&self.told).cloned().collect();
            if all != *variables {
                let at = at.to_string();
                patch.set(["spec", "initContainers", &at, "env"], Value::Array(all));
            }
        }
        if let Some((at, Some((path, shows)))) = &self.volume
            && *shows != self.barrier
        {
            let at = at.to_string();
            let name = Value::from(self.barrier.as_str());
            let steps = path.split('/').skip(1);
            patch.set(["spec", "volumes", &at].into_iter().chain(steps), name);
        }
    }

    fn tells(&self, variable: &Value) -> bool {
        self.told
            .iter()
            .any(|told| told["name"] == variable["name"])
    }

    /// Why the pod would not wait at its barrier, if so.
    fn lacks(&self) -> Option<FieldError> {
        // Which barrier it is; whom it asks may have changed since the first phase.
        let barrier = self.told.first();
        let asks = self.container.as_ref();
        let asks =
            asks.is_some_and(|(_, variables)| barrier.is_some_and(|told| variables.contains(told)));
        let shows = self.volume.as_ref().and_then(|(_, shows)| shows.as_ref());
        let shown = shows.is_some_and(|(_, shows)| *shows == self.barrier);
        (!asks || !shown).then(|| {
            let at = FieldPath::new("spec").child("initContainers");
            FieldError::required(
                at,
                format!(
                    "the container {CONTAINER} or its volume is not as Muster wrote it, and the pod \
                     would not wait at its start barrier: another webhook changed it"
                ),
            )
        })
    }
}
