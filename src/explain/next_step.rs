//! What to type next, by the cause for which a gang waits.

use super::cause::Cause;
use super::nodes::Exclusion;
use super::refusal::Refuser;
use super::words::Obstacle;
use crate::scheduler::queue::{QueueTrouble, Wrong};

const NODES: &str = "kubectl get nodes";
const LABELS: &str = "kubectl get nodes --show-labels";
const TAINTS: &str = "kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints";

/// Where the pods of a gang are.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Their namespace.
    pub namespace: &'a str,
    /// The label selector that finds them, and no others.
    pub pods: &'a str,
}

impl Cause {
    /// What to type next, where a command helps.
    pub fn next_step(&self, place: Place<'_>) -> Option<String> {
        let Place {
            namespace,
            pods: all,
        } = place;
        let pods =
            format!("kubectl get pods -n {namespace} -l {all} --field-selector spec.nodeName=");
        Some(match self {
            Self::PodsRefused { refusal, .. } => match refusal.by {
                Refuser::Quota => format!("kubectl describe resourcequota -n {namespace}"),
                Refuser::LimitRange => format!("kubectl describe limitrange -n {namespace}"),
                Refuser::PodSecurity => format!("kubectl get namespace {namespace} --show-labels"),
                Refuser::Terminating => format!("kubectl get namespace {namespace} -o yaml"),
                Refuser::Rights => "kubectl get clusterrolebindings -o wide".to_owned(),
                Refuser::ServiceAccount => format!("kubectl get serviceaccounts -n {namespace}"),
                Refuser::PriorityClass => "kubectl get priorityclasses".to_owned(),
                Refuser::WebhookDown | Refuser::Policy => {
                    "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"
                        .to_owned()
                }
                Refuser::NameTaken | Refuser::Invalid | Refuser::Other => {
                    format!(
                        "kubectl get events -n {namespace} --field-selector reason=FailedCreate"
                    )
                }
            },
            Self::PodsMissing { .. } | Self::Unlinked { .. } | Self::Gated { .. } => pods,
            Self::ClaimMissing(_) => format!("kubectl get persistentvolumeclaims -n {namespace}"),
            Self::NoRoom(_) => "kubectl describe nodes".to_owned(),
            Self::Apart(fit) => {
                let apart = fit.lacking.as_ref()?.apart.as_ref();
                format!("kubectl get nodes -L {}", apart?.key)
            }
            Self::Excluded { by, .. } => match by {
                Exclusion::Selector => LABELS,
                Exclusion::Taint(_) => TAINTS,
                Exclusion::Cordoned => NODES,
            }
            .to_owned(),
            Self::NoNodes => NODES.to_owned(),
            Self::Obstacle { obstacle, .. } => match obstacle {
                _ if obstacle.is_of_a_volume() => {
                    format!("kubectl get persistentvolumeclaims,persistentvolumes -n {namespace}")
                }
                Obstacle::Selector => LABELS.to_owned(),
                Obstacle::Taint(_) => TAINTS.to_owned(),
                Obstacle::Cordoned | Obstacle::NoNodes => NODES.to_owned(),
                Obstacle::Insufficient(_) | Obstacle::TooManyPods | Obstacle::FeatureMissing => {
                    "kubectl describe nodes".to_owned()
                }
                Obstacle::TooManyVolumes | Obstacle::DriverMissing => {
                    "kubectl describe csinodes".to_owned()
                }
                Obstacle::Devices => format!("kubectl get resourceclaims -n {namespace}"),
                _ => pods,
            },
            Self::Unheard { .. } => "kubectl get pods -A | grep scheduler".to_owned(),
            Self::Queue(QueueTrouble {
                queue,
                resource: Some(resource),
                wrong,
            }) => match wrong {
                Wrong::Absent => format!("kubectl get {resource}"),
                Wrong::NotOpen(_) | Wrong::Full(_) => {
                    format!("kubectl get {resource} {queue} -o yaml")
                }
            },
            // Another gang of the namespace, as a rule, or of another workload there.
            Self::Partner(_) => format!("muster status -n {namespace}"),
            Self::NotBegun(_) => format!("kubectl get jobs -n {namespace} -l {all}"),
            Self::Stranded(_) => format!("kubectl get pods -n {namespace} -l {all}"),
            Self::SchedulerSays(_) | Self::Unknown => {
                format!("kubectl describe pods -n {namespace} -l {all}")
            }
            // One that is no object.
            Self::Queue(_) => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_for_others_is_told_how_to_look_at_them() {
        let place = Place {
            namespace: "ml",
            pods: "app=train",
        };
        let why = || "x".to_owned();
        let obstacle = |obstacle| Cause::Obstacle {
            obstacle,
            nodes: None,
        };
        for (cause, step) in [
            (Cause::Partner(why()), "muster status -n ml"),
            (
                Cause::NotBegun(why()),
                "kubectl get jobs -n ml -l app=train",
            ),
            (
                Cause::Stranded(why()),
                "kubectl get pods -n ml -l app=train",
            ),
            (
                Cause::SchedulerSays(why()),
                "kubectl describe pods -n ml -l app=train",
            ),
            (Cause::Unknown, "kubectl describe pods -n ml -l app=train"),
            (obstacle(Obstacle::Taint(None)), TAINTS),
            (
                obstacle(Obstacle::Devices),
                "kubectl get resourceclaims -n ml",
            ),
        ] {
            assert_eq!(cause.next_step(place).as_deref(), Some(step), "{cause:?}");
        }
    }
}
