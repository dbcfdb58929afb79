//! What is injected into the templates of a barrier's targets, and what each pod is told. Pure.
//!
//! Everything that restricted Pod Security asks for is on the container itself: what a user sets for
//! the pod may not be enough, and a pod that is refused for the sake of the barrier helps nobody.

use serde_json::{Value, json};

use crate::gang::barrier::{CLOCK_VOLUME, CONTAINER, VOLUME, WaitUser};
use crate::gang::{Barrier, BarrierStart, Seals, WaitContainer};

/// Where the ConfigMap is mounted. The proposal's own path, so that a container of its kind works too.
pub(crate) const MOUNT: &str = "/mnt/group-scheduling";
/// Where a pod remembers since when it has waited.
pub(crate) const CLOCK_MOUNT: &str = "/mnt/group-scheduling-clock";

/// The key of the ConfigMap whose file says that the barrier is open; the proposal's own.
pub(crate) const OPEN: &str = "started";
/// The key of the ConfigMap that says who is missing when the time is over.
pub(crate) const MISSING: &str = "missing";

/// Stands in templates for the ConfigMap's name, which each pod is told: there is none of this name.
const UNNAMED: &str = "muster-start-barrier";

pub(crate) mod env {
    pub(crate) const BARRIER: &str = "MUSTER_BARRIER";
    pub(crate) const TOKEN: &str = "MUSTER_BARRIER_TOKEN";
    pub(crate) const SERVER: &str = "MUSTER_BARRIER_SERVER";
    pub(crate) const CA: &str = "MUSTER_BARRIER_CA";
}

/// The init container, as it stands in templates.
pub(crate) fn container(barrier: &Barrier, settings: &WaitContainer) -> Value {
    let resources = json!({"cpu": settings.cpu, "memory": settings.memory});
    let mut container = json!({
        "name": CONTAINER,
        "image": settings.image,
        "command": ["/muster", "wait", "--timeout", format!("{}s", barrier.timeout.as_secs_f64())],
        "resources": {"requests": resources, "limits": resources},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "privileged": false,
            "readOnlyRootFilesystem": true,
            "runAsNonRoot": true,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [
            {"name": VOLUME, "mountPath": MOUNT, "readOnly": true},
            {"name": CLOCK_VOLUME, "mountPath": CLOCK_MOUNT},
        ],
    });
    if let WaitUser::Id(id) = settings.user {
        let context = &mut container["securityContext"];
        context["runAsUser"] = id.get().into();
        context["runAsGroup"] = id.get().into();
    }
    if let Some(policy) = &settings.pull_policy {
        container["imagePullPolicy"] = policy.as_str().into();
    }
    container
}

/// Its volumes.
pub(crate) fn volumes() -> [Value; 2] {
    let shown = json!({"configMap": {"name": UNNAMED, "optional": true}});
    [
        // Projected: KAI 0.12 places no pod whose volume is a ConfigMap that does not exist, optional or not
        // (KAI-Scheduler#988).
        json!({"name": VOLUME, "projected": {"sources": [shown]}}),
        json!({"name": CLOCK_VOLUME, "emptyDir": {"sizeLimit": "1Mi"}}),
    ]
}

/// What the container of one pod is told.
pub(crate) fn told(start: &BarrierStart, settings: &WaitContainer, seals: &Seals) -> Vec<Value> {
    let name = start.name();
    let token = seals.token(&start.namespace, &name);
    let mut told = vec![
        (env::BARRIER, format!("{}/{name}", start.namespace)),
        (env::TOKEN, token),
    ];
    // Without a CA nothing would tell a replica from anybody else.
    if let (Some(server), Some(ca)) = (&settings.server, &settings.ca) {
        told.push((env::SERVER, server.clone()));
        told.push((env::CA, ca.to_string()));
    }
    let entry = |(name, value): (&str, String)| json!({"name": name, "value": value});
    told.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Of OpenShift's `restricted-v2`, which has users of its own for each namespace.
    #[test]
    fn the_platform_may_choose_the_user() {
        let barrier = Barrier {
            timeout: Duration::from_secs(1),
            targets: Vec::new(),
        };
        let as_user = |user: &str| {
            let settings = WaitContainer {
                user: user.parse().unwrap(),
                ..WaitContainer::default()
            };
            let context = container(&barrier, &settings)["securityContext"].take();
            assert_eq!(context["runAsNonRoot"], true);
            [
                context["runAsUser"].as_u64(),
                context["runAsGroup"].as_u64(),
            ]
        };
        assert_eq!(as_user("none"), [None, None]);
        assert_eq!(as_user("1000"), [Some(1000), Some(1000)]);
        assert!("0".parse::<WaitUser>().is_err(), "root");
        assert_eq!(WaitUser::default().to_string(), "65532");
    }

    #[test]
    fn the_container_asks_for_nothing_that_restricted_pod_security_refuses() {
        let barrier = Barrier {
            timeout: Duration::from_millis(1500),
            targets: Vec::new(),
        };
        let settings = WaitContainer {
            pull_policy: Some("IfNotPresent".to_owned()),
            ..WaitContainer::default()
        };
        insta::assert_yaml_snapshot!(container(&barrier, &settings), @r#"
        command:
          - /muster
          - wait
          - "--timeout"
          - 1.5s
        image: "muster:dev"
        imagePullPolicy: IfNotPresent
        name: group-scheduling-init
        resources:
          limits:
            cpu: 50m
            memory: 32Mi
          requests:
            cpu: 50m
            memory: 32Mi
        securityContext:
          allowPrivilegeEscalation: false
          capabilities:
            drop:
              - ALL
          privileged: false
          readOnlyRootFilesystem: true
          runAsGroup: 65532
          runAsNonRoot: true
          runAsUser: 65532
          seccompProfile:
            type: RuntimeDefault
        volumeMounts:
          - mountPath: /mnt/group-scheduling
            name: group-scheduling
            readOnly: true
          - mountPath: /mnt/group-scheduling-clock
            name: group-scheduling-clock
        "#);
    }
}
