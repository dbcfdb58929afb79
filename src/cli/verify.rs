//! `muster verify`: whether the apiserver really asks Muster. Of each kind it sends a workload that must
//! be refused and one that must be stamped, by dry run, so that nothing is stored.
//!
//! Knows neither kinds nor schedulers: it takes the examples of the table of kinds.

use std::io::Write;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::connect::{self, ConnectError, Failed};
use super::explain::namespace;
use super::terminal::Lines;
use crate::args::Verify;
use crate::workload::facts::Watched;
use crate::workload::object::workloads;
use crate::workload::{Facts, keys};

/// Between two tries while there is time left.
const AGAIN: Duration = Duration::from_secs(1);

/// The name of what is sent, and a gang mode that no kind knows.
const NAME: &str = "muster-verify";
const NO_MODE: &str = "Verify";

/// Why nothing could be tried.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No cluster was found.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// It does not say what it serves.
    #[error("cannot ask the cluster: {0}")]
    Ask(#[from] Failed),
    /// The output cannot be written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Whether admission is as it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// For every kind that is served.
    Works = 0,
    /// Not for one of them.
    Fails = 1,
}

/// What came of one kind.
#[derive(Debug, PartialEq, Eq)]
enum Finding {
    /// Refused and stamped as it must be, for that scheduler.
    Works(String),
    NotServed,
    Fails(Fault),
}

/// What is wrong with the admission of a kind.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error(
        "a gang mode that does not exist was admitted: the apiserver does not ask Muster. Its webhook \
         configurations are missing, or they spare this namespace, as they do its own and kube-system"
    )]
    Unasked,
    #[error("not Muster refused a gang mode that does not exist, but: {0}")]
    Elsewhere(String),
    #[error("a workload that asks for a gang was refused: {0}")]
    Refused(String),
    #[error("a workload that asks for a gang was admitted without a stamp")]
    Unstamped,
}

/// What the apiserver answered: the object as it would be stored, or its words.
type Answer = Result<Value, String>;

/// Tries, once or until it works or the time is over, and prints the last findings.
pub async fn run(args: &Verify, out: &mut (dyn Write + Send)) -> Result<Verdict, Error> {
    let cluster = connect::user(&args.target).await?;
    let client = cluster.client.clone();
    let namespace = namespace(args.namespace.as_deref(), &client);
    let end = Instant::now() + args.timeout.unwrap_or_default();
    loop {
        let findings = look(&client, &namespace, args.scheduler.as_deref()).await;
        let works = findings.as_ref().is_ok_and(|all| all.iter().all(good));
        if !works && Instant::now() + AGAIN <= end {
            tokio::time::sleep(AGAIN).await;
            continue;
        }
        let findings = findings.map_err(|error| cluster.failed(&error))?;
        write!(out, "{}", text(&findings))?;
        return Ok(if works {
            Verdict::Works
        } else {
            Verdict::Fails
        });
    }
}

fn good((_, finding): &(&str, Finding)) -> bool {
    !matches!(finding, Finding::Fails(_))
}

async fn look(
    client: &Client,
    namespace: &str,
    scheduler: Option<&str>,
) -> Result<Vec<(&'static str, Finding)>, kube::Error> {
    let mut findings = Vec::new();
    for facts in workloads().filter(|facts| facts.watched != Watched::ByMembers) {
        let kind = facts.kind;
        let finding = if serves(client, facts).await? {
            let gvk = GroupVersionKind::gvk(kind.group, kind.version, kind.name);
            let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural);
            let api: Api<DynamicObject> =
                Api::namespaced_with(client.clone(), namespace, &resource);
            let bad = send(&api, example(facts, Some(NO_MODE), scheduler)).await?;
            let good = send(&api, example(facts, None, scheduler)).await?;
            judge(bad, good)
        } else {
            Finding::NotServed
        };
        findings.push((kind.name, finding));
    }
    Ok(findings)
}

/// Whether the cluster has this kind at all.
async fn serves(client: &Client, facts: &Facts) -> Result<bool, kube::Error> {
    match client
        .list_api_group_resources(&facts.kind.api_version())
        .await
    {
        Ok(list) => Ok(list.resources.iter().any(|r| r.name == facts.kind.plural)),
        // The answer to a group that is not served has no reason, as it is no Status.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

/// The example of a kind, complete; with that gang mode instead of its own.
fn example(facts: &Facts, mode: Option<&str>, scheduler: Option<&str>) -> Value {
    let mut object: Value = serde_json::from_str(facts.example).unwrap_or_default();
    object["apiVersion"] = json!(facts.kind.api_version());
    object["kind"] = json!(facts.kind.name);
    let metadata = &mut object["metadata"];
    metadata["name"] = json!(NAME);
    if let Some(mode) = mode {
        metadata["annotations"][keys::GANG_MODE] = json!(mode);
    }
    if let Some(scheduler) = scheduler {
        metadata["annotations"][keys::SCHEDULER] = json!(scheduler);
    }
    object
}

/// Creates it by dry run.
async fn send(api: &Api<DynamicObject>, object: Value) -> Result<Answer, kube::Error> {
    let object: DynamicObject = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    match api.create(&params, &object).await {
        Ok(stored) => serde_json::to_value(stored)
            .map(Ok)
            .map_err(kube::Error::SerdeError),
        Err(kube::Error::Api(status)) => Ok(Err(status.message.clone())),
        Err(error) => Err(error),
    }
}

/// Holds the answers to the workload that must be refused and to the one that must be stamped against
/// what they must be.
fn judge(bad: Answer, good: Answer) -> Finding {
    let fault = match (bad, good) {
        (Ok(_), _) => Fault::Unasked,
        (Err(words), _) if !is_musters(&words) => Fault::Elsewhere(words),
        (_, Err(words)) => Fault::Refused(words),
        (_, Ok(stored)) => {
            let annotations = &stored["metadata"]["annotations"];
            let scheduler = annotations[keys::SCHEDULER].as_str();
            // The stamp stands on the templates, wherever a kind has them.
            let stamp = format!("\"{}\"", keys::STAMP);
            match scheduler.filter(|_| stored.to_string().contains(&stamp)) {
                Some(scheduler) => return Finding::Works(scheduler.to_owned()),
                None => Fault::Unstamped,
            }
        }
    };
    Finding::Fails(fault)
}

/// Whether the apiserver quotes a refusal of Muster's webhooks.
fn is_musters(words: &str) -> bool {
    let denied = words.split_once("\" denied the request");
    denied.is_some_and(|(webhook, _)| webhook.ends_with(".muster.dev"))
}

/// A line for each kind.
fn text(findings: &[(&str, Finding)]) -> String {
    let mut lines = Lines::default();
    for (kind, finding) in findings {
        lines.add(match finding {
            Finding::Works(scheduler) => format!("{kind}: works (scheduler {scheduler})"),
            Finding::NotServed => format!("{kind}: not served by this cluster"),
            Finding::Fails(fault) => format!("{kind}: fails: {fault}"),
        });
    }
    lines.into_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENIED: &str = "admission webhook \"kinds.muster.dev\" denied the request: unsupported";

    fn stamped() -> Value {
        json!({
            "metadata": {"annotations": {keys::SCHEDULER: "SCHEDULER"}},
            "spec": {"template": {"metadata": {"annotations": {keys::STAMP: "{}"}}}},
        })
    }

    fn fails(bad: Answer, good: Answer) -> String {
        match judge(bad, good) {
            Finding::Fails(fault) => fault.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_refusal_and_a_stamp_are_what_must_come() {
        let works = judge(Err(DENIED.to_owned()), Ok(stamped()));
        assert_eq!(works, Finding::Works("SCHEDULER".to_owned()));
    }

    #[test]
    fn whatever_else_comes_is_told() {
        let denied = || Err(DENIED.to_owned());
        assert!(fails(Ok(stamped()), Ok(stamped())).contains("does not ask Muster"));
        for words in [
            "failed calling webhook \"kinds.muster.dev\": connection refused",
            "admission webhook \"policy.example.com\" denied the request: no",
            "forbidden: User cannot create resource",
        ] {
            let said = fails(Err(words.to_owned()), Ok(stamped()));
            assert!(said.contains(words), "{said}");
        }
        let said = fails(denied(), Err("several schedulers".to_owned()));
        assert!(said.contains("refused: several schedulers"), "{said}");
        let mut unstamped = stamped();
        unstamped["spec"] = json!({});
        assert!(fails(denied(), Ok(unstamped)).contains("without a stamp"));
        let mut unchosen = stamped();
        unchosen["metadata"] = json!({});
        assert!(fails(denied(), Ok(unchosen)).contains("without a stamp"));
    }

    #[test]
    fn each_kind_has_its_line() {
        let findings = [
            ("A", Finding::Works("SCHEDULER".to_owned())),
            ("B", Finding::NotServed),
            ("C", Finding::Fails(Fault::Unstamped)),
        ];
        insta::assert_snapshot!(text(&findings), @r"
        A: works (scheduler SCHEDULER)
        B: not served by this cluster
        C: fails: a workload that asks for a gang was admitted without a stamp
        ");
        assert!(findings[..2].iter().all(good) && !good(&findings[2]));
    }
}
