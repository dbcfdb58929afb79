//! What differs between the Kubernetes releases whose native gangs are tested.

/// A Kubernetes release that the harness can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    V1_35,
    V1_36,
    V1_37,
    /// With the alpha API that bundles gangs; off in a cluster of a careful administrator.
    V1_37WithComposites,
    /// With its scheduler's gate off: it binds gangs pod by pod, and says that they are scheduled.
    V1_36HalfOn,
    /// The same of the newest.
    V1_37HalfOn,
    /// As it comes: no release serves gangs by default.
    V1_37WithoutGangs,
}

/// What Jobs, StatefulSets, Deployments, JobSets, LeaderWorkerSets and PodGroups need; without
/// the node controllers nothing but KWOK speaks for nodes.
const CONTROLLERS: &str = "job-controller,statefulset-controller,deployment-controller,\
    replicaset-controller,garbage-collector-controller,namespace-controller,\
    serviceaccount-controller,pod-garbage-collector-controller,ttl-after-finished-controller,\
    clusterrole-aggregation-controller";

impl Release {
    /// The component's name among the built programs: the newest release has the plain one.
    pub fn program(self, component: &str) -> String {
        match self {
            Self::V1_35 => format!("{component}-1.35"),
            Self::V1_36 | Self::V1_36HalfOn => format!("{component}-1.36"),
            _ => component.to_owned(),
        }
    }

    /// Native gangs on the apiserver. `CompositePodGroup` depends on topology-aware scheduling.
    pub fn apiserver_gates(self) -> Option<&'static str> {
        Some(match self {
            Self::V1_37WithoutGangs => return None,
            Self::V1_35 | Self::V1_36 | Self::V1_36HalfOn | Self::V1_37 | Self::V1_37HalfOn => {
                "GenericWorkload=true"
            }
            Self::V1_37WithComposites => {
                "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"
            }
        })
    }

    /// Without `GangScheduling` (until 1.36) the scheduler would bind gangs pod by pod.
    pub fn scheduler_gates(self) -> Option<&'static str> {
        match self {
            Self::V1_35 | Self::V1_36 => Some("GenericWorkload=true,GangScheduling=true"),
            Self::V1_37HalfOn => None,
            _ => self.apiserver_gates(),
        }
    }

    /// The controller-manager has its gate since there are PodGroups to protect.
    pub fn controller_gates(self) -> Option<&'static str> {
        match self {
            Self::V1_35 | Self::V1_37WithoutGangs => None,
            _ => Some("GenericWorkload=true"),
        }
    }

    /// Without `podgroup-protection-controller` PodGroups and their namespaces would stay
    /// Terminating; 1.35 does not know it, and would not start with it.
    pub fn controllers(self) -> String {
        match self {
            Self::V1_35 => CONTROLLERS.to_owned(),
            _ => {
                format!("{CONTROLLERS},podgroup-protection-controller")
            }
        }
    }

    /// The versions of the API that are off by default.
    pub fn runtime_config(self) -> Option<&'static str> {
        Some(match self {
            Self::V1_37WithoutGangs => return None,
            Self::V1_35 => "scheduling.k8s.io/v1alpha1=true",
            Self::V1_36 | Self::V1_36HalfOn => "scheduling.k8s.io/v1alpha2=true",
            Self::V1_37 | Self::V1_37HalfOn => "scheduling.k8s.io/v1beta1=true",
            Self::V1_37WithComposites => {
                "scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"
            }
        })
    }
}
