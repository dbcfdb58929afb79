//! Pods that declare their gang, as they are stored once Muster has admitted them: for tests.

use serde_json::{Value, json};

use super::{Pod, PodStamp, Workload as _, keys};
use crate::gang::{SchedulerKind, Stamp};
use crate::workload::{SeenPod, Unasked};

/// The pod `name` of the gang `ring` with that quorum, which asks for some CPUs.
pub(crate) fn stored(name: &str, quorum: u32, cpu: &str) -> Value {
    let mut pod = json!({
        "metadata": {
            "namespace": "ml",
            "name": name,
            "uid": format!("uid-{name}"),
            "creationTimestamp": "2026-11-17T00:00:00Z",
            "labels": {keys::GANG_NAME: "ring", keys::INDEX: "0"},
            "annotations": {keys::GANG_NAME: "ring", keys::MIN_COUNT: quorum.to_string()},
        },
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]},
    });
    let text = pod.to_string();
    let view: Pod<'_> = serde_json::from_str(&text).unwrap();
    let plan = view.read(Unasked::NoGang).plan;
    let scheduler = SchedulerKind::new("example");
    let mut stamp = Stamp::new(scheduler, 0, &plan.parts[0]);
    stamp.workload = PodStamp::new(&plan, scheduler, Vec::new()).words();
    pod["metadata"]["annotations"][keys::STAMP] = json!(stamp.to_json());
    pod
}

/// The same as the reconciler sees it.
pub(crate) fn seen(pod: &Value) -> SeenPod {
    super::seen(&pod.to_string(), "ml").unwrap()
}
