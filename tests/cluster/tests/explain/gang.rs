//! A gang as a user would write it, and what differs from seed to seed.

use std::time::Instant;

use anyhow::Result;
use serde_json::{Value, json};

use super::Scheduler;
use crate::sandbox::Sandbox;

/// A JobSet that is one gang.
#[derive(Debug, Clone)]
pub struct Gang {
    name: String,
    scheduler: Scheduler,
    annotations: String,
    labels: Value,
    pods: u32,
    requests: Value,
    spec: Value,
    /// Of the host, as its containers use them.
    ports: Value,
    pod_labels: Value,
    pod_annotations: Value,
    suspend: bool,
    deadline: Option<u32>,
    backoff: u32,
    /// Fields of the JobSet beside those.
    jobset: Value,
    /// Fields of its ReplicatedJob beside those.
    group: Value,
    /// A ReplicatedJob before it: its name, and fields of it and of its pods.
    first: Option<(String, Value, Value)>,
    /// Each ReplicatedJob is a gang.
    apart: bool,
}

impl Gang {
    pub fn on(scheduler: Scheduler) -> Self {
        Self {
            name: "train".to_owned(),
            scheduler,
            annotations: String::new(),
            labels: json!({}),
            pods: 3,
            requests: json!({"cpu": "1"}),
            spec: json!({}),
            ports: json!([]),
            pod_labels: json!({}),
            pod_annotations: json!({}),
            suspend: false,
            deadline: None,
            backoff: 0,
            jobset: json!({}),
            group: json!({}),
            first: None,
            apart: false,
        }
    }

    pub fn named(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }

    pub fn pods(mut self, pods: u32) -> Self {
        self.pods = pods;
        self
    }

    pub fn cpu(self, cpu: &str) -> Self {
        self.requests(json!({"cpu": cpu}))
    }

    pub fn requests(mut self, requests: Value) -> Self {
        self.requests = requests;
        self
    }

    pub fn spec(mut self, field: &str, value: Value) -> Self {
        self.spec[field] = value;
        self
    }

    pub fn host_port(mut self, port: u32) -> Self {
        self.ports = json!([{"containerPort": port, "hostPort": port}]);
        self
    }

    pub fn labels(mut self, labels: Value) -> Self {
        self.pod_labels = labels;
        self
    }

    pub fn annotated(mut self, annotations: &str) -> Self {
        self.annotations = format!(", {annotations}");
        self
    }

    pub fn suspended(mut self) -> Self {
        self.suspend = true;
        self
    }

    pub fn queued(mut self, queue: &str) -> Self {
        self.labels = json!({"kueue.x-k8s.io/queue-name": queue});
        self
    }

    pub fn deadline(mut self, seconds: u32) -> Self {
        self.deadline = Some(seconds);
        self
    }

    pub fn backoff(mut self, backoff: u32) -> Self {
        self.backoff = backoff;
        self
    }

    pub fn managed_by(mut self, manager: &str) -> Self {
        self.jobset["managedBy"] = json!(manager);
        self
    }

    /// Its pods come to nodes, and do not run.
    pub fn held(mut self) -> Self {
        self.pod_annotations = json!({"fake/hold": "true"});
        self
    }

    /// Its pods have that priority.
    pub fn class(self, class: &str) -> Self {
        self.spec("priorityClassName", json!(class))
    }

    /// After another ReplicatedJob, of one pod.
    pub fn after(mut self, name: &str, group: Value, pods: Value) -> Self {
        self.first = Some((name.to_owned(), group, pods));
        self
    }

    pub fn group(mut self, field: &str, value: Value) -> Self {
        self.group[field] = value;
        self
    }

    /// Each ReplicatedJob is a gang.
    pub fn apart(mut self) -> Self {
        self.apart = true;
        self
    }

    /// The other ReplicatedJob, as a gang where each is one.
    fn other(&self) -> Option<Value> {
        let (name, group, pods) = self.first.as_ref()?;
        let container = json!({"name": "main", "image": "train",
            "resources": {"requests": {"cpu": "1"}}});
        let spec = json!({"restartPolicy": "Never", "containers": [container]});
        let mut pod = json!({"metadata": {}, "spec": spec});
        merge(&mut pod, pods);
        let job = json!({"parallelism": 1, "completions": 1, "backoffLimit": 0, "template": pod});
        let mut other = json!({"name": name, "replicas": 1, "template": {"spec": job}});
        merge(&mut other, group);
        Some(other)
    }

    pub async fn apply(&self, sandbox: &Sandbox) -> Result<Instant> {
        let mut spec = self.spec.clone();
        spec["restartPolicy"] = json!("Never");
        let mut resources = json!({"requests": self.requests});
        if self.requests.get("example.com/gpu").is_some() {
            resources["limits"] = json!({"example.com/gpu": "1"});
        }
        spec["containers"] = json!([{"name": "main", "image": "train", "resources": resources,
            "ports": self.ports}]);
        let mut job = json!({
            "parallelism": self.pods, "completions": self.pods, "backoffLimit": self.backoff,
            "template": {
                "metadata": {"labels": self.pod_labels, "annotations": self.pod_annotations},
                "spec": spec,
            },
        });
        if let Some(seconds) = self.deadline {
            job["activeDeadlineSeconds"] = json!(seconds);
        }
        let mut group = json!({"name": "workers", "replicas": 1, "template": {"spec": job}});
        merge(&mut group, &self.group);
        let mut groups: Vec<Value> = self.other().into_iter().chain([group]).collect();
        let mode = match self.apart {
            true => "",
            false => "muster.dev/gang-mode: Gang, ",
        };
        for group in groups.iter_mut().filter(|_| self.apart) {
            let mode = &mut group["template"]["metadata"]["annotations"]["muster.dev/gang-mode"];
            if mode.is_null() {
                *mode = json!("Gang");
            }
        }
        let mut spec = json!({"suspend": self.suspend, "replicatedJobs": groups});
        merge(&mut spec, &self.jobset);
        let jobset = format!(
            "
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: {}
  labels: {}
  annotations: {{{mode}muster.dev/scheduler: {}{}}}
spec: {}
",
            self.name,
            self.labels,
            self.scheduler.name(),
            self.annotations,
            spec,
        );
        sandbox.apply(&jobset).await?;
        Ok(Instant::now())
    }
}

/// Adds fields to an object, also within objects that it has.
fn merge(into: &mut Value, fields: &Value) {
    match fields.as_object() {
        Some(fields) => {
            for (name, value) in fields {
                merge(&mut into[name], value);
            }
        }
        None => *into = fields.clone(),
    }
}
