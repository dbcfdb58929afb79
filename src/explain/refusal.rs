//! What a controller was told when it could not create a pod, read from its `FailedCreate` event.
//!
//! The words are Kubernetes' own (1.37: `plugin/pkg/admission/...`) and the same for every controller;
//! each puts its own words before them.

use k8s_openapi::jiff::Timestamp;

/// A creation that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Who refuses.
    pub by: Refuser,
    /// In the words of whoever refuses, without those of the controller.
    pub words: String,
    /// When it was refused first.
    pub since: Option<Timestamp>,
    /// When it was refused last.
    pub at: Option<Timestamp>,
}

/// Who refuses a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refuser {
    /// A ResourceQuota.
    Quota,
    /// A LimitRange.
    LimitRange,
    /// The Pod Security level of the namespace.
    PodSecurity,
    /// The pod's ServiceAccount does not exist.
    ServiceAccount,
    /// The pod's PriorityClass does not exist.
    PriorityClass,
    /// An admission webhook or policy.
    Policy,
    /// An admission webhook that cannot be called.
    WebhookDown,
    /// Something else has the name.
    NameTaken,
    /// The API says what is wrong with the pod.
    Invalid,
    /// Somebody else.
    Other,
}

/// By what each is known, in this order.
const KNOWN: [(&str, Refuser); 14] = [
    ("exceeded quota", Refuser::Quota),
    ("failed quota", Refuser::Quota),
    ("violates PodSecurity", Refuser::PodSecurity),
    ("error looking up service account", Refuser::ServiceAccount),
    ("no PriorityClass with name", Refuser::PriorityClass),
    ("failed calling webhook", Refuser::WebhookDown),
    ("denied the request", Refuser::Policy),
    ("denied request", Refuser::Policy),
    (" usage per ", Refuser::LimitRange),
    ("limit to request ratio", Refuser::LimitRange),
    ("already exists", Refuser::NameTaken),
    ("is invalid:", Refuser::Invalid),
    ("is forbidden: ", Refuser::Policy),
    ("unable to validate against", Refuser::Policy),
];

impl Refusal {
    /// Reads the message of an event.
    pub fn read(message: &str, since: Option<Timestamp>, at: Option<Timestamp>) -> Self {
        let mut known = KNOWN.iter();
        let by = known.find(|(words, _)| message.contains(words));
        Self {
            by: by.map_or(Refuser::Other, |(_, by)| *by),
            words: without_controller(message).to_owned(),
            since,
            at,
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
        ] {
            let message = format!("Error creating: pods \"x\" is forbidden: {words}");
            assert_eq!(read(&message), (by, words.to_owned()));
        }
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
