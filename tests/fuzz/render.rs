//! What `muster render` prints of edited workloads, on each backend: the objects of a scheduler and
//! linked children. Kubernetes could store each of them, and the YAML says what was meant.

use muster::cli::{admit, render, yaml};
use muster::scheduler::Snapshot;
use muster::workload::{job, pods};
use serde_json::Value;

use crate::bounds;
use crate::choices::Choices;
use crate::engine::Target;
use crate::script::{Of, Script, Sent};

pub struct Render;

impl Target for Render {
    type Case = Script;
    const NAME: &'static str = "render";
    const EXECUTIONS: usize = 1_000;

    fn read(&self, file: &[u8]) -> Script {
        Script::read(file)
    }

    fn make(&self, choices: &mut Choices<'_>) -> Script {
        Script::make(choices, Of::Workloads)
    }

    fn write(&self, case: &Script) -> Vec<u8> {
        case.write()
    }

    fn check(&self, case: &Script) {
        for backend in case.backends() {
            if let Some(sent) = case.sent(backend) {
                check(&sent, &backend.cluster);
            }
        }
    }
}

fn check(sent: &Sent, cluster: &Snapshot) {
    // A file that is nested deeper is refused when it is read.
    if depth(&sent.object) > 100 {
        return;
    }
    // No cluster stores more, and what it takes to print follows the size.
    if sent.object.to_string().len() > bounds::LONGEST {
        return;
    }
    let Ok(admitted) = admit::create(sent.kind, &sent.object, cluster) else {
        return;
    };
    if !admitted.errors.is_empty() {
        return;
    }
    let rendered = bounds::hold(bounds::LARGE, || render::documents(&admitted, cluster));
    let (documents, _) = rendered.expect("what is admitted is rendered");
    let named = is_name(&sent.object["metadata"]["name"]);
    for document in &documents {
        let written = yaml::to_string(document);
        let read = yaml::documents(&written);
        let [Ok(read)] = &read[..] else {
            panic!("not one document: {written}");
        };
        assert!(same(&read.value, document), "another value: {written}");
    }
    // A workload that no cluster would store has objects that none would store. Children have names
    // that their controller makes, of what its own webhook lets pass.
    let children = [&Value::from(job::KIND.name), &Value::from(pods::KIND.name)];
    let made = documents.iter().skip(1).filter(|_| named);
    for made in made.filter(|made| !children.contains(&&made["kind"])) {
        let name = &made["metadata"]["name"];
        assert!(is_name(name), "{} {name}", made["kind"]);
    }
}

fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Object(map) => map.values().map(depth).max(),
        Value::Array(items) => items.iter().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or(0)
}

/// A DNS subdomain.
fn is_name(name: &Value) -> bool {
    let Some(name) = name.as_str() else {
        return false;
    };
    let label = |label: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !label.is_empty()
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// Equal, where a float that is a whole number may have become that number, as with kubectl.
pub fn same(read: &Value, written: &Value) -> bool {
    match (read, written) {
        (Value::Object(a), Value::Object(b)) => {
            let member =
                |(key, value): (&String, &Value)| b.get(key).is_some_and(|b| same(value, b));
            a.len() == b.len() && a.iter().all(member)
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}
