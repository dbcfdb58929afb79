//! What a controller was told when it could not create a pod, read from its `FailedCreate` event.
//!
//! The words are Kubernetes' own (1.37: `plugin/pkg/admission/...`) and the same for every controller;
//! each puts its own words before them.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// Whoever is still refused says so again by then: a Job is tried again within a minute, and of events
/// that repeat themselves one comes through in five minutes (client-go 0.37: `EventSourceObjectSpamFilter`).
pub const REPEATED: Duration = Duration::from_secs(330);

/// Of so many events it is known when they were told.
const MOST_TIMES: usize = 32;

/// Creations of one controller that were refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Who refuses.
    pub by: Refuser,
    /// In the words of whoever refuses, without those of the controller.
    pub words: String,
    /// When, of each event: first, and last. A message that names the pod is another event each time.
    times: BTreeMap<Timestamp, Timestamp>,
}

/// Who refuses a pod, in the order in which they are asked: a pod that one of them lets pass may be
/// refused by the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refuser {
    /// The controller has no right to create pods.
    Rights,
    /// The namespace is being deleted.
    Terminating,
    /// The pod's PriorityClass does not exist.
    PriorityClass,
    /// The pod's ServiceAccount does not exist.
    ServiceAccount,
    /// A LimitRange.
    LimitRange,
    /// An admission webhook that cannot be called.
    WebhookDown,
    /// The API says what is wrong with the pod.
    Invalid,
    /// The Pod Security level of the namespace.
    PodSecurity,
    /// An admission webhook or policy.
    Policy,
    /// A ResourceQuota.
    Quota,
    /// Something else has the name.
    NameTaken,
    /// Somebody else.
    Other,
}

/// What an event begins with that stands for many of the same (client-go 0.37: `EventAggregator`).
const COMBINED: &str = "(combined from similar events): ";

/// By what each is known, in this order. Webhooks first: what they say is theirs to choose.
const KNOWN: [(&str, Refuser); 17] = [
    ("denied the request", Refuser::Policy),
    ("denied request", Refuser::Policy),
    ("because it is being terminated", Refuser::Terminating),
    ("\" cannot create resource \"", Refuser::Rights),
    ("cannot set blockOwnerDeletion", Refuser::Rights),
    ("exceeded quota", Refuser::Quota),
    ("failed quota", Refuser::Quota),
    ("violates PodSecurity", Refuser::PodSecurity),
    ("error looking up service account", Refuser::ServiceAccount),
    ("no PriorityClass with name", Refuser::PriorityClass),
    ("failed calling webhook", Refuser::WebhookDown),
    (" usage per ", Refuser::LimitRange),
    ("limit to request ratio", Refuser::LimitRange),
    ("already exists", Refuser::NameTaken),
    ("is invalid:", Refuser::Invalid),
    ("is forbidden: ", Refuser::Policy),
    ("unable to validate against", Refuser::Policy),
];

impl Refusal {
    /// Reads the message of an event, that was told first and last at these times.
    pub fn read(message: &str, since: Option<Timestamp>, at: Option<Timestamp>) -> Self {
        let message = message.strip_prefix(COMBINED).unwrap_or(message);
        let mut known = KNOWN.iter();
        let by = known.find(|(words, _)| message.contains(words));
        Self {
            by: by.map_or(Refuser::Other, |(_, by)| *by),
            words: without_controller(message).to_owned(),
            times: since.or(at).zip(at.or(since)).into_iter().collect(),
        }
    }

    /// The name of whoever refuses, or of what is missing, where the words have it.
    pub fn name(&self) -> Option<&str> {
        let before = match self.by {
            Refuser::Quota => &["exceeded quota: ", "failed quota: "][..],
            Refuser::Policy => &["admission webhook \"", "ValidatingAdmissionPolicy '"][..],
            Refuser::WebhookDown => &["failed calling webhook \""][..],
            Refuser::ServiceAccount => &["looking up service account "][..],
            Refuser::PriorityClass => &["PriorityClass with name "][..],
            _ => &[][..],
        };
        let named = |before: &&str| Some(self.words.split_once(*before)?.1);
        let rest = before.iter().find_map(named)?;
        let end = rest.find(['"', '\'', ',', ':', ' ']);
        Some(&rest[..end.unwrap_or(rest.len())]).filter(|name| !name.is_empty())
    }

    /// When it was refused last.
    pub fn at(&self) -> Option<Timestamp> {
        self.times.values().max().copied()
    }

    /// When it was refused first, not counting what was before `start`.
    pub fn since(&self, start: Timestamp) -> Option<Timestamp> {
        let mut times = self.times.iter();
        let first = times.find(|(_, last)| **last >= start);
        first.map(|(first, _)| (*first).max(start))
    }

    /// Adds what the same controller was told at another time; the later words are kept.
    pub fn join(&mut self, other: Self) {
        if other.at() >= self.at() {
            (self.by, self.words) = (other.by, other.words);
        }
        for (first, last) in other.times {
            let known = self.times.entry(first).or_insert(last);
            *known = last.max(*known);
        }
        // Of many, the oldest two become one.
        while self.times.len() > MOST_TIMES
            && let (Some((first, one)), Some((_, next))) =
                (self.times.pop_first(), self.times.pop_first())
        {
            self.times.insert(first, one.max(next));
        }
    }
}

/// Without "Error creating: pods "x-" is forbidden: " and the like, which say nothing.
fn without_controller(message: &str) -> &str {
    let message = match message.split_once(" is forbidden: ") {
        Some((_, rest)) => rest,
        None => message
            .strip_prefix("Error creating: ")
            .or_else(|| message.split_once(" failed error: ").map(|(_, rest)| rest))
            .unwrap_or(message),
    };
    message.trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else a timeout would begin again with each pod of another name that is refused.
    #[test]
    fn pods_are_refused_since_the_first_of_them_was_and_not_since_before_a_start() {
        let second = |second: i64| Timestamp::from_second(1_000 + second).unwrap();
        let event = |pod: &str, first, last| {
            let words = format!("exceeded quota: {pod}");
            Refusal::read(&words, Some(second(first)), Some(second(last)))
        };
        for order in [[0, 1, 2], [2, 0, 1], [2, 1, 0]] {
            let events = [event("a", 0, 0), event("b", 10, 30), event("c", 31, 31)];
            let mut joined = events[order[0]].clone();
            order[1..]
                .iter()
                .for_each(|index| joined.join(events[*index].clone()));
            assert_eq!(joined.words, "exceeded quota: c");
            assert_eq!(joined.at(), Some(second(31)));
            let since = |start| joined.since(second(start));
            assert_eq!(since(-9), Some(second(0)));
            assert_eq!(since(1), Some(second(10)));
            assert_eq!(since(20), Some(second(20)), "it went on then");
            assert_eq!(since(31), Some(second(31)));
            assert_eq!(since(32), None);
        }
        // One that is told again is the same event.
        let mut again = event("a", 0, 0);
        again.join(event("a", 0, 40));
        assert_eq!(again.since(second(20)), Some(second(20)));
        let mut many = event("x", 0, 0);
        (1..500).for_each(|at| many.join(event("x", at, at)));
        assert_eq!(many.times.len(), MOST_TIMES);
        assert_eq!(many.since(second(-1)), Some(second(0)));
    }

    #[test]
    fn whoever_refuses_is_known_by_name_where_it_is_said() {
        for (words, name) in [
            ("exceeded quota: small, requested: pods=1", Some("small")),
            (
                "failed quota: small: must specify limits.cpu",
                Some("small"),
            ),
            (
                "admission webhook \"a.b\" denied the request: x",
                Some("a.b"),
            ),
            (
                "ValidatingAdmissionPolicy 'tags' with binding 'all' denied request: x",
                Some("tags"),
            ),
            ("failed calling webhook \"a.b\": refused", Some("a.b")),
            (
                "error looking up service account ml/nobody: serviceaccount \"nobody\" not found",
                Some("ml/nobody"),
            ),
            ("no PriorityClass with name high was found", Some("high")),
            ("pods \"train-0-x7k2m\" already exists", None),
        ] {
            assert_eq!(Refusal::read(words, None, None).name(), name, "{words}");
        }
    }

    #[test]
    fn who_refuses_a_pod_is_read_from_the_words_of_kubernetes() {
        let read = |message: &str| {
            let refusal = Refusal::read(message, None, None);
            (refusal.by, refusal.words)
        };
        let quota = "exceeded quota: small, requested: pods=1, used: pods=8, limited: pods=8";
        for message in [
            format!("Error creating: pods \"train-workers-0-8-x7k2m\" is forbidden: {quota}"),
            format!(
                "create Pod serve-0 in StatefulSet serve failed error: pods \"serve-0\" is \
                 forbidden: {quota}"
            ),
        ] {
            assert_eq!(read(&message), (Refuser::Quota, quota.to_owned()));
        }
        for (words, by) in [
            (
                "violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false",
                Refuser::PodSecurity,
            ),
            (
                "error looking up service account ml/nobody: serviceaccount \"nobody\" not found",
                Refuser::ServiceAccount,
            ),
            (
                "maximum cpu usage per Container is 500m, but limit is 1",
                Refuser::LimitRange,
            ),
            (
                "no PriorityClass with name high was found",
                Refuser::PriorityClass,
            ),
            (
                "unable to create new content in namespace ml because it is being terminated",
                Refuser::Terminating,
            ),
            (
                "User \"system:serviceaccount:kube-system:job-controller\" cannot create resource \
                 \"pods\" in API group \"\" in the namespace \"ml\"",
                Refuser::Rights,
            ),
            (
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't \
                 set finalizers on: , <nil>",
                Refuser::Rights,
            ),
            ("pod node label selector conflicts", Refuser::Policy),
        ] {
            let message = format!("Error creating: pods \"x\" is forbidden: {words}");
            assert_eq!(read(&message), (by, words.to_owned()));
            let combined = format!("{COMBINED}{message}");
            assert_eq!(read(&combined), (by, words.to_owned()));
        }
        let combined = format!("{COMBINED}Error creating: etcd is full");
        assert_eq!(read(&combined).1, "etcd is full");
        let borrowed = "Error creating: admission webhook \"x\" denied the request: exceeded quota";
        assert_eq!(read(borrowed).0, Refuser::Policy);
        let (by, words) = read(
            "Error creating: admission webhook \"policy.example\" denied the request: no image tag",
        );
        assert_eq!(by, Refuser::Policy);
        assert!(words.starts_with("admission webhook"), "{words}");
        let down = "Error creating: Internal error occurred: failed calling webhook \"x\": refused";
        assert_eq!(read(down).0, Refuser::WebhookDown);
        assert_eq!(read("Error creating: etcd is full").0, Refuser::Other);
    }
}
