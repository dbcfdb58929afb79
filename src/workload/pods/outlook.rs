//! The gangs of pods that declare them: one for each round that lives, from what its pods say.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::facts::KIND;
use super::own::{Need, Own};
use super::read::ROLE;
use super::stamp::{PodStamp, difference, place};
use crate::gang::{
    BundleName, FieldPath, Level, Located, Part, PartDraft, PartName, PartnerRef, Plan, Policy,
    Role, Round, Shape, WorkloadRef, keys,
};
use crate::workload::seen::{LinkState, PodPhase};
use crate::workload::{Origin, Outlook, SeenPod, Start, declaration};

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
    let itself = PartnerRef::new(KIND.name, WorkloadRef::new(of.namespace, of.name));
    let plan = Plan {
        parts: vec![Part::of_quorum(part)],
        policy: Policy {
            queue: said(keys::QUEUE),
            strictness: said(keys::STRICTNESS).and_then(parse),
            bundle_with: said(keys::BUNDLE_WITH).map(|with| {
                let circle = declaration::circle(&with.value, &itself);
                Located::new(circle, with.at)
            }),
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
    use serde_json::{Value, json};

    use super::super::example;
    use super::*;
    use crate::gang::Gang;

    fn pod(name: &str, quorum: u32, cpu: &str) -> Value {
        example::stored(name, quorum, cpu)
    }

    fn of_round(mut pod: Value, round: u32) -> Value {
        pod["metadata"]["annotations"][keys::ROUND] = json!(round.to_string());
        pod
    }

    fn later(mut pod: Value) -> Value {
        pod["metadata"]["creationTimestamp"] = json!("2026-11-17T00:00:05Z");
        pod
    }

    fn of(pods: &[SeenPod]) -> Outlook<'static> {
        let origin = Origin {
            namespace: "ml",
            name: "ring",
            uid: "",
        };
        outlook(&origin, pods)
    }

    fn seen(pods: &[Value]) -> Vec<SeenPod> {
        pods.iter().map(example::seen).collect()
    }

    /// The rounds that are gangs, and their quorums.
    fn rounds(outlook: &Outlook<'_>) -> Vec<(u32, u32)> {
        let round = |start: &Start<'_>| {
            let (part, identity) = &start.gangs[0];
            assert_eq!((start.gangs.len(), identity.workload.as_str()), (1, "ring"));
            (identity.round.0, start.plan.parts[*part].quorum())
        };
        outlook.starts.iter().map(round).collect()
    }

    /// What the quorum of the only gang needs.
    fn needs(pods: &[Value]) -> String {
        let outlook = of(&seen(pods));
        assert_eq!(outlook.starts.len(), 1);
        let resources = outlook.starts[0].plan.parts[0].min_resources();
        let mut all = resources
            .iter()
            .map(|(name, amount)| format!("{name} {amount}"));
        all.next().unwrap_or_default()
    }

    #[test]
    fn each_round_with_a_pod_that_counts_is_one_gang() {
        let both = [
            pod("a", 2, "1"),
            pod("b", 2, "1"),
            of_round(pod("c", 2, "1"), 1),
        ];
        let mut pods = seen(&both);
        pods[0].going = true;
        pods[1].phase = PodPhase::Failed;
        assert_eq!(rounds(&of(&pods)), [(1, 2)]);
        assert_eq!(of(&pods).broken, None);
        pods[2].phase = PodPhase::Succeeded;
        assert!(of(&pods).starts.is_empty(), "none counts");
        assert!(of(&[]).starts.is_empty());
        // One of the pods before it was not going after all.
        let pods = seen(&both);
        assert_eq!(rounds(&of(&pods)), [(0, 2), (1, 2)]);
        let broken = of(&pods).broken.unwrap();
        assert!(broken.ends_with("a is still there; delete a"), "{broken}");
    }

    #[test]
    fn pods_that_are_not_there_yet_are_taken_to_be_like_the_first() {
        assert_eq!(needs(&[pod("a", 3, "1")]), "cpu 3");
        assert_eq!(needs(&[pod("a", 3, "1"), pod("b", 3, "4")]), "cpu 3");
        let all = [pod("a", 3, "1"), pod("b", 3, "4"), pod("c", 3, "2")];
        assert_eq!(needs(&all), "cpu 7");
    }

    #[test]
    fn beyond_the_quorum_the_least_that_makes_one_is_needed() {
        let pods = [pod("a", 2, "4"), pod("b", 2, "1"), pod("c", 2, "2")];
        assert_eq!(needs(&pods), "cpu 3");
        let outlook = of(&seen(&pods));
        assert_eq!(
            outlook.starts[0].plan.parts[0].size(),
            2,
            "the quorum alone is known"
        );
    }

    #[test]
    fn of_pods_that_disagree_the_first_counts_and_both_are_told() {
        let pods = seen(&[later(pod("a", 3, "1")), pod("b", 2, "1")]);
        let outlook = of(&pods);
        assert_eq!(rounds(&outlook), [(0, 2)]);
        assert_eq!(
            outlook.broken.unwrap(),
            "the pods disagree: metadata.annotations[muster.dev/min-count] is 2 on b, which counts \
             because it came first, and 3 on a; delete a"
        );
        // In the same second the name decides, and not who is listed first.
        let pods = seen(&[pod("b", 2, "1"), pod("a", 3, "1")]);
        assert_eq!(rounds(&of(&pods)), [(0, 3)]);
        let agree = seen(&[pod("a", 2, "1"), later(pod("b", 2, "4"))]);
        assert_eq!(of(&agree).broken, None, "they may ask for different things");
    }

    #[test]
    fn a_member_that_has_ended_is_not_waited_for_and_a_new_life_waits_for_all() {
        let ended = |name: &str, round| {
            let pod = of_round(pod(name, 4, "1"), round);
            let phase = PodPhase::Succeeded;
            SeenPod {
                phase,
                ..example::seen(&pod)
            }
        };
        let here = |name: &str, round| example::seen(&of_round(pod(name, 4, "1"), round));
        // The quorum of each gang, once finished members are taken off.
        let quorums = |pods: &[SeenPod]| {
            let finished = pods.iter().filter(|pod| pod.phase == PodPhase::Succeeded);
            let finished = finished.count() as u64;
            let quorum = |start: &Start<'_>| {
                let (part, identity) = &start.gangs[0];
                let mut gang = Gang::new(&start.plan.parts[*part], identity.clone());
                gang.shrink(finished);
                (identity.round.0, gang.quorum())
            };
            of(pods).starts.iter().map(quorum).collect::<Vec<_>>()
        };
        let names = ["a", "b", "c", "d"];
        assert_eq!(quorums(&names.map(|name| here(name, 0))), [(0, 4)]);
        let some = [ended("a", 0), ended("b", 0), ended("c", 0), here("d", 0)];
        assert_eq!(quorums(&some), [(0, 1)]);
        let again = names.map(|name| ended(name, 0)).into_iter();
        let again: Vec<_> = again.chain(["e", "f"].map(|name| here(name, 1))).collect();
        assert_eq!(
            quorums(&again),
            [(1, 4)],
            "those of the last life do not count"
        );
    }
}
