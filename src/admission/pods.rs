//! Pods that declare their gang themselves: linked when they are created, to the gang of their name as
//! it stands. What they declare never changes after that.

use sha2::{Digest, Sha256};

use super::children::{Linked, deny};
use super::patch::PatchBuilder;
use super::{Decided, Decision, Phase, Review, Unanswerable};
use crate::gang::standing::{Stands, Unlisted};
use crate::gang::{FieldError, Member, Part, Plan, Round, Stamp};
use crate::judge::{self, Judged};
use crate::scheduler::abilities::Priorities;
use crate::scheduler::{Marks, Scheduler, Snapshot};
use crate::workload::child::{self, Child};
use crate::workload::pods::{self, PodStamp};
use crate::workload::{Unasked, Workload, keys};

pub(super) fn decide(
    phase: Phase,
    review: &Review<'_>,
    child: &Child<'_>,
    pod: &dyn Workload,
    cluster: &Snapshot,
) -> Result<Decided, Unanswerable> {
    let namespace = review.namespace();
    let name = pods::name(child.meta);
    let stands = match &name {
        Ok(name) => cluster.standing.of(namespace, name),
        Err(_) => Ok(Stands::default()),
    };
    let stands = stands.map_err(|Unlisted| Unanswerable::PodsNotSeen)?;
    // A gang keeps its scheduler when the label of its namespace changes.
    let agreed = stands.agreed.as_ref();
    let chosen = agreed.and_then(|(terms, _)| terms.get(keys::SCHEDULER));
    let chosen = chosen.map(String::as_str);
    let judged = judge::keeping(pod, chosen, namespace, cluster, Unasked::NoGang);
    let Some(gang) = Declared::of(&judged) else {
        return Ok(answer(phase, judged));
    };
    if pods::spoken_by(child.meta) == Some(gang.backend.kind()) {
        return Ok(left(phase, &gang, child));
    }
    let name = match name {
        Ok(name) => name,
        Err(error) => return Ok(deny(vec![error])),
    };
    let stamp = gang.stamp();
    if let Some(error) = disagrees(&stands, &stamp, &name) {
        return Ok(deny(vec![error]));
    }
    let linked = |round| gang.linked(child, namespace, &name, round, &stamp);
    let claimed = child::round(child.meta);
    let decided = match phase {
        // The link was written in the first phase. The others may have gone since.
        Phase::Validate => linked(claimed).decide_pod(phase, PatchBuilder::default()),
        Phase::Mutate => {
            let linked = linked(stands.round);
            // What a copied pod carries of an earlier round is no word of the user's.
            let copied =
                claimed != stands.round && gang.is_linked(child, namespace, &name, claimed);
            match copied {
                true => linked.write(PatchBuilder::default()),
                false => linked.decide_pod(phase, PatchBuilder::default()),
            }
        }
    };
    Ok(with_warnings(phase, decided, judged.warnings))
}

/// A gang that a pod declares, and the scheduler that it goes to.
struct Declared<'p> {
    plan: &'p Plan,
    part: &'p Part,
    backend: &'static dyn Scheduler,
}

impl<'p> Declared<'p> {
    /// `None` where something is wrong with it.
    fn of(judged: &'p Judged) -> Option<Self> {
        let plan = &judged.plan;
        let part = plan.parts.first().filter(|_| judged.errors.is_empty())?;
        let backend = judged.backend?;
        Some(Self {
            plan,
            part,
            backend,
        })
    }

    /// What the pod carries of all this.
    fn stamp(&self) -> Stamp {
        let mut stamp = Stamp::new(self.backend.kind(), 0, self.part);
        let mut described = stamp.clone();
        self.backend
            .extend_stamp(self.plan, self.part, &mut described);
        stamp.variant.clone_from(&described.variant);
        let words = PodStamp::new(self.plan, self.backend.kind(), self.alike(&described));
        stamp.workload = words.words();
        stamp
    }

    /// What else all pods of the gang must share: its priority, where the gang has only one, and all
    /// that they ask for, where each of them describes the others.
    fn alike(&self, described: &Stamp) -> Vec<(&'static str, String)> {
        let mut alike = Vec::new();
        let Some(role) = self.part.roles().first() else {
            return alike;
        };
        let one_priority = self.backend.abilities().priorities == Priorities::MustBeEqual;
        if let Some(class) = role.priority_class().filter(|_| one_priority) {
            alike.push(("spec.priorityClassName", class.to_owned()));
        }
        if !described.shapes.is_empty() {
            let requests = role.shape.requests.iter();
            let requests = requests.map(|(name, amount)| format!("{name} {amount}"));
            let requests: Vec<String> = requests.collect();
            // Node selector, tolerations and affinity count too, and may be long.
            let text = serde_json::to_vec(&described.shapes).unwrap_or_default();
            let digest = Sha256::digest(&text);
            let hash: String = digest.iter().take(4).map(|b| format!("{b:02x}")).collect();
            alike.push(("spec", format!("{}; placement {hash}", requests.join(", "))));
        }
        alike
    }

    /// The pod as a member of its gang in a round, with all that it must carry.
    fn linked<'c>(
        &self,
        child: &'c Child<'c>,
        namespace: &str,
        name: &str,
        round: Round,
        stamp: &Stamp,
    ) -> Linked<'c> {
        let mut full = stamp.clone();
        let mut common = stamp.clone();
        self.backend.extend_stamp(self.plan, self.part, &mut common);
        full.take_over(&common, pods::ROLE);
        let member = Member::new(pods::identity(namespace, name, round), full);
        let role = self.part.roles().first();
        let shape = || role.map(|role| role.shape.clone()).unwrap_or_default();
        let mut marks = self.backend.link(&member, &shape);
        let template = role.map(|role| self.backend.template_marks(self.plan, role));
        let Marks {
            labels,
            annotations,
            scheduler_name,
            ..
        } = template.unwrap_or_default();
        marks.labels.extend(labels);
        marks.annotations.extend(annotations);
        marks.scheduler_name = scheduler_name;
        marks
            .annotations
            .extend(pods::translated(self.plan, child.meta));
        let scheduler = self.backend.kind().to_string();
        marks.annotations.insert(keys::SCHEDULER, scheduler);
        marks.labels.insert(keys::INDEX, "0".to_owned());
        marks.labels.insert(keys::GANG_NAME, name.to_owned());
        marks.annotations.insert(keys::STAMP, stamp.to_json());
        let written = child.meta.annotation(keys::ROUND).is_some();
        if written || round != Round::default() {
            marks.annotations.insert(keys::ROUND, round.0.to_string());
        }
        Linked {
            child,
            member,
            marks,
            backend: self.backend,
            spoken_by: pods::spoken_by(child.meta),
        }
    }

    /// Whether a pod already carries the link of a round, and Muster's mark that it is one.
    fn is_linked(&self, child: &Child<'_>, namespace: &str, name: &str, round: Round) -> bool {
        child.meta.label(keys::INDEX).is_some()
            && self
                .linked(child, namespace, name, round, &self.stamp())
                .is_ours()
    }
}

/// A pod whose scheduler understands its words needs nothing but that scheduler's name.
fn left(phase: Phase, gang: &Declared<'_>, child: &Child<'_>) -> Decided {
    let mut patch = PatchBuilder::default();
    let role = gang.part.roles().first();
    if let (Some(role), Phase::Mutate) = (role, phase) {
        let marks = gang.backend.template_marks(gang.plan, role);
        let current = child.pods.spec.scheduler_name.as_deref();
        patch.scheduler_name(&[], current, &marks);
    }
    Decision::allow(patch.finish(), Vec::new()).about(String::new())
}

/// Refuses a pod that says something else than those of its gang that are there.
fn disagrees(stands: &Stands, stamp: &Stamp, name: &str) -> Option<FieldError> {
    let (agreed, who) = stands.agreed.as_ref()?;
    let said = PodStamp::of(stamp).terms;
    let (term, theirs, ours) = pods::difference(agreed, &said)?;
    let theirs = theirs.map_or_else(|| "not set".to_owned(), |value| format!("{value:?}"));
    let detail = format!(
        "the gang {name:?} stands with {theirs}, set by the pod {who:?}: all pods of a gang say the \
         same; use it here too, or another {}",
        keys::GANG_NAME
    );
    let at = pods::place(term);
    Some(match ours {
        Some(ours) => FieldError::invalid(at, ours, detail),
        None => FieldError::required(at, detail),
    })
}

/// The answer where nothing is linked: what is wrong with it.
fn answer(phase: Phase, judged: Judged) -> Decided {
    let warnings = match phase {
        Phase::Mutate => Vec::new(),
        Phase::Validate => judged.warnings,
    };
    let errors = judged.errors;
    match errors.is_empty() {
        true => Decision::allow(super::Patch(Vec::new()), warnings),
        false => Decision::Deny { errors, warnings },
    }
    .about(String::new())
}

/// Warnings are said in the second phase, about the final pod.
fn with_warnings(phase: Phase, mut decided: Decided, more: Vec<String>) -> Decided {
    if phase == Phase::Validate {
        match &mut decided.decision {
            Decision::Allow { warnings, .. } | Decision::Deny { warnings, .. } => {
                warnings.extend(more);
            }
        }
    }
    decided
}
