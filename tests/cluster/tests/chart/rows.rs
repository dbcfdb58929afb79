//! The table of the chart's values: what a value is set to, and all that is different then.

/// A value, and what it does.
pub struct Row {
    /// Its path in `values.yaml`.
    pub value: &'static str,
    /// What must be set before it has a meaning.
    pub given: &'static [&'static str],
    pub set: &'static str,
    pub changes: &'static [&'static str],
}

const fn row(value: &'static str, set: &'static str, changes: &'static [&'static str]) -> Row {
    let given = &[];
    Row {
        value,
        given,
        set,
        changes,
    }
}

const fn given(
    given: &'static [&'static str],
    value: &'static str,
    set: &'static str,
    changes: &'static [&'static str],
) -> Row {
    Row {
        value,
        given,
        set,
        changes,
    }
}

pub const ROWS: &[Row] = &[
    row(
        "image.registry",
        r#"image.registry="mirror.test:5000""#,
        &[
            r#"Deployment muster /spec/template/spec/containers/0/image: "mirror.test:5000/muster:dev""#,
            r#"Pod muster-verify /spec/containers/0/image: "mirror.test:5000/muster:dev""#,
        ],
    ),
    row(
        "image.repository",
        r#"image.repository="team/muster""#,
        &[
            r#"Deployment muster /spec/template/spec/containers/0/image: "team/muster:dev""#,
            r#"Pod muster-verify /spec/containers/0/image: "team/muster:dev""#,
        ],
    ),
    row(
        "image.tag",
        r#"image.tag="0.1.0""#,
        &[
            r#"Deployment muster /spec/template/spec/containers/0/image: "muster:0.1.0""#,
            r#"Pod muster-verify /spec/containers/0/image: "muster:0.1.0""#,
        ],
    ),
    row(
        "image.digest",
        r#"image.digest="sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef""#,
        &[
            r#"Deployment muster /spec/template/spec/containers/0/image: "muster@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef""#,
            r#"Pod muster-verify /spec/containers/0/image: "muster@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef""#,
        ],
    ),
    row(
        "image.pullPolicy",
        r#"image.pullPolicy="Always""#,
        &[
            r#"Deployment muster /spec/template/spec/containers/0/imagePullPolicy: "Always""#,
            r#"Pod muster-verify /spec/containers/0/imagePullPolicy: "Always""#,
        ],
    ),
    row(
        "imagePullSecrets",
        r#"imagePullSecrets=[{"name": "pull"}]"#,
        &[
            r#"Deployment muster /spec/template/spec/imagePullSecrets: [{"name":"pull"}]"#,
            r#"Pod muster-verify /spec/imagePullSecrets: [{"name":"pull"}]"#,
        ],
    ),
    row(
        "replicas",
        "replicas=3",
        &["Deployment muster /spec/replicas: 3"],
    ),
    row(
        "podDisruptionBudget.enabled",
        "podDisruptionBudget.enabled=false",
        &["PodDisruptionBudget muster is gone"],
    ),
    given(
        &["replicas=3"],
        "podDisruptionBudget.minAvailable",
        "podDisruptionBudget.minAvailable=2",
        &["PodDisruptionBudget muster /spec/minAvailable: 2"],
    ),
    row(
        "priorityClassName",
        r#"priorityClassName="""#,
        &[
            "Deployment muster /spec/template/spec/priorityClassName is gone",
            "ResourceQuota muster-critical-pods is gone",
        ],
    ),
    row(
        "resources.requests.cpu",
        r#"resources.requests.cpu="1""#,
        &[r#"Deployment muster /spec/template/spec/containers/0/resources/requests/cpu: "1""#],
    ),
    row(
        "resources.requests.memory",
        r#"resources.requests.memory="1Gi""#,
        &[r#"Deployment muster /spec/template/spec/containers/0/resources/requests/memory: "1Gi""#],
    ),
    row(
        "resources.limits.memory",
        r#"resources.limits.memory="1Gi""#,
        &[r#"Deployment muster /spec/template/spec/containers/0/resources/limits/memory: "1Gi""#],
    ),
    row(
        "nodeSelector",
        r#"nodeSelector={"pool": "system"}"#,
        &[
            r#"Deployment muster /spec/template/spec/nodeSelector: {"pool":"system"}"#,
            r#"Pod muster-verify /spec/nodeSelector: {"pool":"system"}"#,
        ],
    ),
    row(
        "tolerations",
        r#"tolerations=[{"key": "system", "operator": "Exists"}]"#,
        &[
            r#"Deployment muster /spec/template/spec/tolerations: [{"key":"system","operator":"Exists"}]"#,
            r#"Pod muster-verify /spec/tolerations: [{"key":"system","operator":"Exists"}]"#,
        ],
    ),
    row(
        "affinity",
        r#"affinity={"nodeAffinity": {}}"#,
        &[r#"Deployment muster /spec/template/spec/affinity: {"nodeAffinity":{}}"#],
    ),
    row(
        "podAnnotations",
        r#"podAnnotations={"a.test/b": "c"}"#,
        &[r#"Deployment muster /spec/template/metadata/annotations: {"a.test/b":"c"}"#],
    ),
    row(
        "scheduler",
        r#"scheduler="volcano""#,
        &[r#"Deployment muster /spec/template/spec/containers/0/args/2: "--scheduler=volcano""#],
    ),
    row(
        "leaderWorkerSets",
        r#"leaderWorkerSets="all""#,
        &[
            r#"Deployment muster /spec/template/spec/containers/0/args/2: "--leaderworkersets=all""#,
            r#"MutatingWebhookConfiguration muster-mutating /webhooks/*/matchConditions/0/expression: "!has(object.metadata.deletionTimestamp)""#,
            r#"MutatingWebhookConfiguration muster-mutating /webhooks/*/matchConditions/0/name: "alive""#,
            "MutatingWebhookConfiguration muster-mutating /webhooks/*/matchConditions/1 is gone",
            r#"ValidatingWebhookConfiguration muster-validating /webhooks/*/matchConditions/0/expression: "!has(object.metadata.deletionTimestamp)""#,
            r#"ValidatingWebhookConfiguration muster-validating /webhooks/*/matchConditions/0/name: "alive""#,
            "ValidatingWebhookConfiguration muster-validating /webhooks/*/matchConditions/1 is gone",
        ],
    ),
    row(
        "startBarrier.image",
        r#"startBarrier.image="mirror.test/muster:1""#,
        &[
            r#"Deployment muster /spec/template/spec/containers/0/args/2: "--wait-image=mirror.test/muster:1""#,
        ],
    ),
    row(
        "startBarrier.pullPolicy",
        r#"startBarrier.pullPolicy="Always""#,
        &[
            r#"Deployment muster /spec/template/spec/containers/0/args/2: "--wait-pull-policy=Always""#,
        ],
    ),
    row(
        "startBarrier.cpu",
        r#"startBarrier.cpu="10m""#,
        &[r#"Deployment muster /spec/template/spec/containers/0/args/2: "--wait-cpu=10m""#],
    ),
    row(
        "startBarrier.memory",
        r#"startBarrier.memory="16Mi""#,
        &[r#"Deployment muster /spec/template/spec/containers/0/args/2: "--wait-memory=16Mi""#],
    ),
    row(
        "startBarrier.user",
        r#"startBarrier.user="none""#,
        &[r#"Deployment muster /spec/template/spec/containers/0/args/2: "--wait-user=none""#],
    ),
    row(
        "logFormat",
        r#"logFormat="text""#,
        &[r#"Deployment muster /spec/template/spec/containers/0/args/1: "--log-format=text""#],
    ),
    row(
        "lameDuckSeconds",
        "lameDuckSeconds=20",
        &[
            r#"Deployment muster /spec/template/spec/containers/0/args/2: "--lame-duck-seconds=20""#,
            "Deployment muster /spec/template/spec/terminationGracePeriodSeconds: 55",
        ],
    ),
    row(
        "extraArgs",
        r#"extraArgs=["--max-in-flight=128"]"#,
        &[r#"Deployment muster /spec/template/spec/containers/0/args/2: "--max-in-flight=128""#],
    ),
    row(
        "webhooks.sparedNamespaces",
        r#"webhooks.sparedNamespaces=["infra"]"#,
        &[
            r#"MutatingWebhookConfiguration muster-mutating /webhooks/*/namespaceSelector/matchExpressions/0/values/2: "infra""#,
            r#"MutatingWebhookConfiguration group-keys.muster.dev /webhooks/*/namespaceSelector/matchExpressions/0/values/2: "infra""#,
            r#"ValidatingWebhookConfiguration muster-validating /webhooks/*/namespaceSelector/matchExpressions/0/values/2: "infra""#,
        ],
    ),
    row(
        "clientCA.configMap",
        r#"clientCA.configMap="callers""#,
        &[
            r#"Deployment muster /spec/template/spec/containers/0/args/2: "--client-ca=/client-ca/ca.crt""#,
            r#"Deployment muster /spec/template/spec/containers/0/volumeMounts: [{"mountPath":"/client-ca","name":"client-ca","readOnly":true}]"#,
            r#"Deployment muster /spec/template/spec/volumes: [{"configMap":{"name":"callers"},"name":"client-ca"}]"#,
        ],
    ),
    given(
        &[r#"clientCA.configMap="callers""#],
        "clientCA.names",
        r#"clientCA.names=["kube-apiserver"]"#,
        &[
            r#"Deployment muster /spec/template/spec/containers/0/args/3: "--client-name=kube-apiserver""#,
        ],
    ),
    row(
        "hostNetwork",
        "hostNetwork=true",
        &[
            "Deployment muster /spec/strategy/rollingUpdate/maxSurge: 0",
            "Deployment muster /spec/strategy/rollingUpdate/maxUnavailable: 1",
            "Deployment muster /spec/template/spec/hostNetwork: true",
            r#"Deployment muster /spec/template/spec/dnsPolicy: "ClusterFirstWithHostNet""#,
            r#"Deployment muster /spec/template/spec/containers/0/args/2: "--listen=[::]:18443""#,
            r#"Deployment muster /spec/template/spec/containers/0/args/3: "--barrier-listen=[::]:18444""#,
            r#"Deployment muster /spec/template/spec/containers/0/args/4: "--admin-listen=[::]:18080""#,
            "Deployment muster /spec/template/spec/containers/0/ports/0/containerPort: 18443",
            "Deployment muster /spec/template/spec/containers/0/ports/1/containerPort: 18444",
            "Deployment muster /spec/template/spec/containers/0/ports/2/containerPort: 18080",
        ],
    ),
    row(
        "ports.webhook",
        "ports.webhook=10250",
        &[
            r#"Deployment muster /spec/template/spec/containers/0/args/2: "--listen=[::]:10250""#,
            "Deployment muster /spec/template/spec/containers/0/ports/0/containerPort: 10250",
        ],
    ),
    row(
        "ports.barrier",
        "ports.barrier=9444",
        &[
            r#"Deployment muster /spec/template/spec/containers/0/args/2: "--barrier-listen=[::]:9444""#,
            "Deployment muster /spec/template/spec/containers/0/ports/1/containerPort: 9444",
        ],
    ),
    row(
        "ports.admin",
        "ports.admin=9080",
        &[
            r#"Deployment muster /spec/template/spec/containers/0/args/2: "--admin-listen=[::]:9080""#,
            "Deployment muster /spec/template/spec/containers/0/ports/2/containerPort: 9080",
        ],
    ),
    row(
        "certManager.enabled",
        "certManager.enabled=true",
        &[
            "Issuer muster is new",
            "Certificate muster is new",
            "Role muster-own-ca is gone",
            "RoleBinding muster-own-ca is gone",
            "ClusterRole muster-own-ca is gone",
            "ClusterRoleBinding muster-own-ca is gone",
            "Secret muster-ca is gone",
            r#"MutatingWebhookConfiguration muster-mutating /metadata/annotations: {"cert-manager.io/inject-ca-from":"muster-system/muster"}"#,
            r#"MutatingWebhookConfiguration group-keys.muster.dev /metadata/annotations: {"cert-manager.io/inject-ca-from":"muster-system/muster"}"#,
            r#"ValidatingWebhookConfiguration muster-validating /metadata/annotations: {"cert-manager.io/inject-ca-from":"muster-system/muster"}"#,
            r#"Deployment muster /spec/template/spec/containers/0/args/2: "--tls-dir=/tls""#,
            r#"Deployment muster /spec/template/spec/containers/0/volumeMounts: [{"mountPath":"/tls","name":"tls","readOnly":true}]"#,
            r#"Deployment muster /spec/template/spec/volumes: [{"name":"tls","secret":{"secretName":"muster-tls"}}]"#,
        ],
    ),
    given(
        &["certManager.enabled=true"],
        "certManager.issuerRef",
        r#"certManager.issuerRef={"kind": "ClusterIssuer", "name": "house"}"#,
        &[
            "Issuer muster is gone",
            "Certificate muster /spec/commonName is gone",
            r#"Certificate muster /spec/issuerRef/kind: "ClusterIssuer""#,
            r#"Certificate muster /spec/issuerRef/name: "house""#,
        ],
    ),
    given(
        &[r#"networkPolicy.controlPlane=["192.0.2.0/24"]"#],
        "networkPolicy.enabled",
        "networkPolicy.enabled=true",
        &["NetworkPolicy muster is new"],
    ),
    given(
        &[
            "networkPolicy.enabled=true",
            r#"networkPolicy.controlPlane=["192.0.2.0/24"]"#,
        ],
        "networkPolicy.controlPlane",
        r#"networkPolicy.controlPlane=["198.51.100.7/32", "2001:db8::/64"]"#,
        &[
            r#"NetworkPolicy muster /spec/ingress/0/from/0/ipBlock/cidr: "198.51.100.7/32""#,
            r#"NetworkPolicy muster /spec/ingress/0/from/1: {"ipBlock":{"cidr":"2001:db8::/64"}}"#,
        ],
    ),
    row(
        "policies.enabled",
        "policies.enabled=true",
        &[
            "ValidatingAdmissionPolicy muster-jobsets is new",
            "ValidatingAdmissionPolicyBinding muster-jobsets is new",
            "ValidatingAdmissionPolicy muster-leaderworkersets is new",
            "ValidatingAdmissionPolicyBinding muster-leaderworkersets is new",
            "ValidatingAdmissionPolicy muster-jobs is new",
            "ValidatingAdmissionPolicyBinding muster-jobs is new",
            "ValidatingAdmissionPolicy muster-controllers is new",
            "ValidatingAdmissionPolicyBinding muster-controllers is new",
        ],
    ),
    row(
        "monitoring.enabled",
        "monitoring.enabled=true",
        &[
            "ServiceMonitor muster is new",
            "PrometheusRule muster is new",
            "ConfigMap muster-dashboard is new",
        ],
    ),
    given(
        &["monitoring.enabled=true"],
        "monitoring.labels",
        r#"monitoring.labels={"release": "prometheus"}"#,
        &[
            r#"ServiceMonitor muster /metadata/labels/release: "prometheus""#,
            r#"PrometheusRule muster /metadata/labels/release: "prometheus""#,
        ],
    ),
    given(
        &["monitoring.enabled=true"],
        "monitoring.interval",
        r#"monitoring.interval="10s""#,
        &[r#"ServiceMonitor muster /spec/endpoints/0/interval: "10s""#],
    ),
    row(
        "test.namespace",
        r#"test.namespace="trials""#,
        &[
            r#"Pod muster-verify /spec/containers/0/args/1: "--namespace=trials""#,
            "Role muster-verify is gone",
            "RoleBinding muster-verify is gone",
            "Role muster-verify is new",
            "RoleBinding muster-verify is new",
        ],
    ),
    row(
        "test.timeout",
        r#"test.timeout="5m""#,
        &[r#"Pod muster-verify /spec/containers/0/args/2: "--timeout=5m""#],
    ),
    row(
        "test.scheduler",
        r#"test.scheduler="kai""#,
        &[r#"Pod muster-verify /spec/containers/0/args/3: "--scheduler=kai""#],
    ),
];
