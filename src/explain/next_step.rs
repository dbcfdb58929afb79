//! What to type next, by the cause for which a gang waits.

use super::cause::Cause;
use super::nodes::Exclusion;
use super::refusal::Refuser;
use super::words::Obstacle;
use crate::scheduler::queue::{QueueTrouble, Wrong};

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
        let Place { namespace, pods } = place;
        let pods =
            format!("kubectl get pods -n {namespace} -l {pods} --field-selector spec.nodeName=");
        Some(match self {
            Self::PodsRefused { refusal, .. } => match refusal.by {
                Refuser::Quota => format!("kubectl describe resourcequota -n {namespace}"),
                Refuser::LimitRange => format!("kubectl describe limitrange -n {namespace}"),
                Refuser::PodSecurity => format!("kubectl get namespace {namespace} --show-labels"),
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
                Exclusion::Selector => "kubectl get nodes --show-labels",
                Exclusion::Taint(_) => {
                    "kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints"
                }
                Exclusion::Cordoned => "kubectl get nodes",
            }
            .to_owned(),
            Self::NoNodes => "kubectl get nodes".to_owned(),
            Self::Obstacle { obstacle, .. } => match obstacle {
                Obstacle::ClaimMissing(_) | Obstacle::VolumeUnbound | Obstacle::VolumeElsewhere => {
                    format!("kubectl get persistentvolumeclaims,persistentvolumes -n {namespace}")
                }
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
            Self::Stranded(_)
            | Self::Partner(_)
            | Self::Queue(_)
            | Self::NotBegun(_)
            | Self::SchedulerSays(_)
            | Self::Unknown => return None,
        })
    }
}
