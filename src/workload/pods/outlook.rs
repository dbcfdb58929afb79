//! The gangs of pods that declare them: one for each round that lives, from what its pods say.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::own::{Need, Own};
use super::read::ROLE;
use super::stamp::{PodStamp, difference, place};
use crate::gang::{
    BundleName, FieldPath, Level, Located, Part, PartDraft, PartName, Plan, Policy, Role, Round,
    Shape, keys,
};
use crate::workload::seen::{LinkState, PodPhase};
use crate::workload::{Origin, Outlook, SeenPod, Start};

/// What can be said of the pods of one name.
pub(super) fn outlook<'p>(of: &Origin<'_>, pods: &[SeenPod]) -> Outlook<'p> {
    let mut rounds: BTreeMap<Round, Vec<&SeenPod>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pod.phase.is_live() && !pod.going) {
        rounds.entry(pod.gang.round).or_default().push(pod);
    }
    for pods in rounds.values_mut() {
        // What the first one says counts.
        pods.sort_by_key(|pod| (pod.created, own(pod).map(|own| own.pod.clone())));
    }
    Outlook {
        broken: broken(&rounds),
        starts: rounds
            .iter()
            .filter_map(|(round, live)| start(of, live, Finished::count(pods, *round)))
            .collect(),
        ..Outlook::default()
    }
}

fn own(pod: &SeenPod) -> Option<&Own> {
    pod.own.as_deref()
}

/// How many pods have ended well.
#[derive(Clone, Copy)]
struct Finished {
    /// Of the round.
    round: u64,
    /// Of all rounds: pods that have ended often stay.
    all: u64,
}

impl Finished {
    fn count(pods: &[SeenPod], round: Round) -> Self {
        let done = || pods.iter().filter(|pod| pod.phase == PodPhase::Succeeded);
        let linked = || done().filter(|pod| pod.link == LinkState::Linked);
        Self {
            round: linked().filter(|pod| pod.gang.round == round).count() as u64,
            all: linked().count() as u64,
        }
    }

    /// Pods that must end well before the gang is done, those that have among them. Nobody says how
    /// many there will be: of the quorum, those that have ended are no longer needed.
    fn completions(self, quorum: u64) -> u64 {
        let left = quorum.saturating_sub(self.round).max(1);
        left + self.all
    }
}

/// The gang of one round.
fn start<'p>(of: &Origin<'_>, pods: &[&SeenPod], finished: Finished) -> Option<Start<'p>> {
    let first = pods.first()?;
    let stamp = first.stamp.clone()?;
    let (quorum, words) = (u64::from(stamp.quorum), PodStamp::of(&stamp));
    let said = |key: &str| {
        let value = words.terms.get(key)?.clone();
        Some(Located::new(value, place(key)))
    };
    let bundle = stamp.bundle.as_deref().and_then(BundleName::new);
    let at = FieldPath::new("metadata")
        .child("annotations")
        .key(keys::GANG_NAME);
    let draft = PartDraft {
        name: PartName::whole(),
        level: Level::Whole,
        replicas: 1,
        roles: roles(pods, quorum, finished.completions(quorum)),
        later: Vec::new(),
        min_count: Some(Located::new(i64::from(stamp.quorum), at.clone())),
        bundle: bundle.map(|bundle| Located::new(bundle, at.clone())),
        at,
    };
    let part = draft.build().ok().flatten()?;
    let parse = |located: Located<String>| {
        let value = located.value.parse().ok()?;
        Some(Located::new(value, located.at))
    };
    let plan = Plan {
        parts: vec![Part::of_quorum(part)],
        policy: Policy {
            queue: said(keys::QUEUE),
            strictness: said(keys::STRICTNESS).and_then(parse),
            ..Policy::default()
        },
        barrier: None,
    };
    let mut identity = (*first.gang).clone();
    of.name.clone_into(&mut identity.workload);
    Some(Start {
        plan: Cow::Owned(plan),
        stamp: Some(stamp),
        gangs: vec![(0, identity)],
    })
}

/// The pods by what they ask for. Until there are enough of them, all others are taken to be like the
/// first: most often they are, and then what was written once holds.
fn roles(pods: &[&SeenPod], quorum: u64, completions: u64) -> Vec<Role> {
    let mut needs = pods.iter().filter_map(|pod| own(pod)).map(|own| &own.need);
    let mut alike: BTreeMap<&Need, u64> = BTreeMap::new();
    match needs.next() {
        Some(first) if (pods.len() as u64) < quorum => {
            alike.insert(first, quorum);
        }
        first => {
            for need in first.into_iter().chain(needs) {
                *alike.entry(need).or_default() += 1;
            }
        }
    }
    let several = alike.len() > 1;
    let role = |(number, (need, pods)): (usize, (&Need, u64))| Role {
        name: match several {
            true => format!("{ROLE}-{number}"),
            false => ROLE.to_owned(),
        },
        pods,
        completions: match number {
            0 => completions,
            _ => 0,
        },
        shape: Shape {
            requests: need.requests.clone(),
            priority_class: need.priority_class.clone(),
            ..Shape::default()
        },
        at: FieldPath::default(),
    };
    alike.into_iter().enumerate().map(role).collect()
}

/// What keeps pods of one name from starting together: they came at the same time, and nobody could know
/// of the others.
fn broken(rounds: &BTreeMap<Round, Vec<&SeenPod>>) -> Option<String> {
    if rounds.len() > 1 {
        let mut names = rounds.values().filter_map(|pods| own(pods.first()?));
        let name = |own: Option<&Own>| own.map_or_else(String::new, |own| own.pod.clone());
        let (before, after) = (name(names.next()), name(names.next_back()));
        return Some(format!(
            "the pods are in two gangs: {after} came while the pods before it were going, and \
             {before} is still there; delete {before}"
        ));
    }
    let pods = rounds.values().next()?;
    let (first, others) = pods.split_first()?;
    let terms = PodStamp::of(first.stamp.as_deref()?).terms;
    others.iter().find_map(|pod| {
        let other = PodStamp::of(pod.stamp.as_deref()?).terms;
        let (term, one, two) = difference(&terms, &other)?;
        let field = place(term);
        let (first, pod) = (own(first)?, own(pod)?);
        let say = |value: Option<&str>| value.map_or_else(|| "not set".to_owned(), str::to_owned);
        Some(format!(
            "the pods disagree: {field} is {} on {}, which counts because it came first, and {} on \
             {}; delete {}",
            say(one),
            first.pod,
            say(two),
            pod.pod,
            pod.pod
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::gang::{Gang, Stamp};
    use crate::workload::pods::identity;

    /// A pod of a gang of four in a round.
    fn pod(name: &str, round: u32, phase: PodPhase) -> SeenPod {
        let stamp = r#"{"scheduler":"x","level":"Whole","size":4,"quorum":4}"#;
        SeenPod {
            uid: name.to_owned(),
            gang: Arc::new(identity("ml", "ring", Round(round))),
            stamp: Stamp::parse(stamp).ok().map(Arc::new),
            phase,
            own: Some(Arc::new(Own {
                pod: name.to_owned(),
                controller: None,
                need: Arc::default(),
            })),
            ..SeenPod::example()
        }
    }

    /// The quorum of each gang, once finished members are taken off.
    fn quorums(pods: &[SeenPod]) -> Vec<(u32, u32)> {
        let of = Origin {
            namespace: "ml",
            name: "ring",
            uid: "4d1c",
        };
        let finished = pods.iter().filter(|pod| pod.phase == PodPhase::Succeeded);
        let finished = finished.count() as u64;
        let starts = outlook(&of, pods).starts;
        let quorum = |start: &Start<'_>| {
            let (part, identity) = &start.gangs[0];
            let mut gang = Gang::new(&start.plan.parts[*part], identity.clone());
            gang.shrink(finished);
            (identity.round.0, gang.quorum())
        };
        starts.iter().map(quorum).collect()
    }

    #[test]
    fn a_member_that_has_ended_is_not_waited_for_and_a_new_life_waits_for_all() {
        let many = |round, phase, names: std::ops::Range<u32>| {
            names.map(move |n| pod(&format!("{round}-{n}"), round, phase))
        };
        let four: Vec<SeenPod> = many(0, PodPhase::Bound, 0..4).collect();
        assert_eq!(quorums(&four), [(0, 4)]);
        let mut some: Vec<SeenPod> = many(0, PodPhase::Succeeded, 0..3).collect();
        some.extend(many(0, PodPhase::Pending, 3..4));
        assert_eq!(quorums(&some), [(0, 1)]);
        let mut again: Vec<SeenPod> = many(0, PodPhase::Succeeded, 0..4).collect();
        again.extend(many(1, PodPhase::Pending, 0..4));
        assert_eq!(
            quorums(&again),
            [(1, 4)],
            "those of the last life do not count"
        );
    }
}
