//! `muster explain`: why a workload's gangs wait, with the evidence and what to type next.

use std::io::Write;

use kube::Client;

use super::connect::{self, ConnectError};
use crate::args::Explain;
use crate::controller::decide::{GangStatus, State};
use crate::controller::inspect::{Inspected, Inspector, kinds};
use crate::workload::Life;

/// Why nothing could be explained.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No cluster was found.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The apiserver refused a request.
    #[error("cannot look at the cluster: {0}")]
    Api(Box<kube::Error>),
    /// What was named is not there.
    #[error("{0}")]
    NotFound(String),
    /// The output cannot be written.
    #[error(transparent)]
    Write(#[from] std::io::Error),
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

/// Explains one workload.
pub async fn run(args: &Explain, out: &mut dyn Write) -> Result<(), Error> {
    let client = connect::user(args.target.kubeconfig.as_deref()).await?;
    let namespace = namespace(args.namespace.as_deref(), &client);
    let (kind, name) = args.workload.split_once('/').ok_or_else(|| {
        let word = &args.workload;
        let known = super::one_of(&kinds());
        Error::NotFound(format!(
            "{word:?} names no workload: write KIND/NAME, where KIND is {known}"
        ))
    })?;
    let inspector = Inspector::new(client).await?;
    let found = inspector.one(kind, &namespace, name).await?;
    let found = found.ok_or_else(|| {
        let known = super::one_of(&kinds());
        Error::NotFound(format!(
            "there is no {kind}/{name} with a gang in the namespace {namespace}; kinds that can be \
             explained are {known}"
        ))
    })?;
    print(&found, &inspector.unseen, out)?;
    Ok(())
}

/// The namespace that is named, else the one of the kubeconfig's context.
pub(super) fn namespace(named: Option<&str>, client: &Client) -> String {
    named.unwrap_or(client.default_namespace()).to_owned()
}

/// Prints what was found.
pub fn print(found: &Inspected, unseen: &[String], out: &mut dyn Write) -> std::io::Result<()> {
    let Inspected {
        kind,
        namespace,
        name,
        ..
    } = found;
    writeln!(out, "{kind} {namespace}/{name}: {}", headline(found))?;
    for gang in &found.gangs {
        writeln!(
            out,
            "\ngang {} ({}): {}",
            gang.name,
            gang.scheduler,
            standing(gang)
        )?;
        for (number, cause) in gang.causes.iter().enumerate() {
            writeln!(out, "  {}. {}: {cause}", number + 1, cause.reason())?;
            if let Some(step) = cause.next_step(namespace) {
                writeln!(out, "     next: {step}")?;
            }
        }
        if let Some(words) = gang.evidence.quotation().filter(|_| gang.waits()) {
            writeln!(out, "  the scheduler says: {:?}", words.trim())?;
        }
    }
    writeln!(
        out,
        "\nlooked at: the {kind}, its pods and the objects of its gangs"
    )?;
    if unseen.is_empty() {
        writeln!(
            out,
            "           nodes, the pods on them, events of controllers"
        )?;
    }
    for what in unseen {
        writeln!(out, "could not look at {what}")?;
    }
    writeln!(out, "not looked at: queues, workloads of the same bundle")
}

/// The first cause of the first gang that waits, before those that only wait for it; or how the workload
/// stands.
fn headline(found: &Inspected) -> String {
    let causes = found.gangs.iter().filter_map(|gang| gang.causes.first());
    let cause = causes.min_by_key(|cause| cause.follows_another());
    match (found.life, cause) {
        (Life::Suspended, _) => match &found.kueue {
            Some(queue) => format!("suspended: Kueue has not admitted it from the queue {queue:?}"),
            None => "suspended".to_owned(),
        },
        (Life::Finished, _) => "it has ended".to_owned(),
        (Life::Deleting, _) => "it is being deleted".to_owned(),
        (Life::LeftAlone, _) => match &found.manager {
            Some(manager) => format!(
                "{manager} runs it (spec.managedBy), so Muster leaves it alone: ask there why it waits"
            ),
            None => "another controller runs it: Muster leaves it alone".to_owned(),
        },
        (Life::Live, Some(cause)) => cause.to_string(),
        (Life::Live, None) => match &found.refused {
            Some(why) => why.clone(),
            None if found
                .gangs
                .iter()
                .all(|gang| gang.state == State::Scheduled) =>
            {
                placed(found)
            }
            None => "a gang waits for its pods to be made".to_owned(),
        },
    }
}

/// What may still keep pods from running, which no scheduler can mend.
fn placed(found: &Inspected) -> String {
    let imageless: usize = found.gangs.iter().map(|gang| gang.imageless).sum();
    let mut text = "all gangs are placed".to_owned();
    if imageless > 0 {
        let of = format!("kubectl describe pods -n {}", found.namespace);
        text += &format!(
            "; {imageless} pod(s) cannot pull an image, which is not a matter of scheduling: {of}"
        );
    }
    if let Some(waits) = &found.barrier {
        text += &format!("; at the start barrier {waits}");
    }
    text
}

fn standing(gang: &GangStatus) -> String {
    let GangStatus {
        bound,
        size,
        quorum,
        live,
        ..
    } = gang;
    let waited = gang
        .waited
        .map(|waited| format!(", for {} s", waited.as_secs()));
    let waited = waited.filter(|_| gang.waits()).unwrap_or_default();
    let word = match gang.state {
        State::Empty => "no pod yet",
        State::Waiting => "waits",
        State::Scheduled => "placed",
    };
    format!("{word}{waited}; {live} of {size} pods exist, {bound} are placed, {quorum} are needed")
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::explain::fit::{Fit, How, Lacking, Short};
    use crate::explain::{Cause, Evidence};
    use crate::gang::quantity::Quantity;
    use crate::gang::{Ask, Unscheduled};

    /// Kinds and schedulers are named in their tables only.
    pub(in crate::cli) fn without_names(text: &str) -> String {
        let example = example();
        let text = text.replace(example.kind, "KIND");
        text.replace(example.gangs[0].scheduler.as_str(), "SCHEDULER")
    }

    /// A workload of one gang that waits for room.
    pub(in crate::cli) fn example() -> Inspected {
        let short = Short {
            resource: "nvidia.com/gpu".to_owned(),
            how: How::By(Quantity::from_units(3)),
        };
        let lacking = Lacking {
            ask: Arc::new(Ask::default()),
            short: Some(short),
            holders: vec![("ml/train-b".to_owned(), Quantity::from_units(8))],
            ..Lacking::default()
        };
        let fit = Fit {
            fits: 6,
            needed: 9,
            nodes: 4,
            lacking: Some(lacking),
        };
        let words = Unscheduled {
            reason: "Unschedulable".to_owned(),
            message: "0/4 nodes are available: 4 Insufficient nvidia.com/gpu.".to_owned(),
        };
        let gang = GangStatus {
            state: State::Waiting,
            quorum: 9,
            size: 9,
            live: 9,
            waited: Some(Duration::from_secs(42)),
            evidence: Evidence {
                words: vec![(words, 3)],
                ..Evidence::default()
            },
            causes: vec![Cause::NoRoom(fit)],
            ..GangStatus::example()
        };
        Inspected {
            kind: crate::workload::object::names()[0],
            namespace: "ml".to_owned(),
            name: "train".to_owned(),
            life: Life::Live,
            gangs: vec![gang],
            refused: None,
            kueue: None,
            manager: None,
            barrier: None,
            told: None,
        }
    }

    #[test]
    fn a_gang_that_waits_is_explained_with_evidence_and_the_next_step() {
        let mut out = Vec::new();
        let unseen = ["nodes: forbidden".to_owned()];
        print(&example(), &unseen, &mut out).unwrap();
        insta::assert_snapshot!(without_names(&String::from_utf8(out).unwrap()), @r#"
        KIND ml/train: 6 of 9 pods fit; 3 more nvidia.com/gpu are needed (held by ml/train-b)

        gang train-all-0 (SCHEDULER): waits, for 42 s; 9 of 9 pods exist, 0 are placed, 9 are needed
          1. InsufficientResources: 6 of 9 pods fit; 3 more nvidia.com/gpu are needed (held by ml/train-b)
             next: kubectl describe nodes
          the scheduler says: "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."

        looked at: the KIND, its pods and the objects of its gangs
        could not look at nodes: forbidden
        not looked at: queues, workloads of the same bundle
        "#);
    }

    #[test]
    fn what_does_not_wait_says_how_it_stands() {
        let head = |life: Life, kueue: Option<&str>| {
            headline(&Inspected {
                life,
                kueue: kueue.map(str::to_owned),
                ..example()
            })
        };
        assert_eq!(head(Life::Suspended, None), "suspended");
        assert_eq!(
            head(Life::Suspended, Some("team")),
            "suspended: Kueue has not admitted it from the queue \"team\""
        );
        assert_eq!(head(Life::Finished, None), "it has ended");
        let placed = GangStatus {
            state: State::Scheduled,
            ..GangStatus::example()
        };
        let placed = Inspected {
            gangs: vec![placed],
            ..example()
        };
        assert_eq!(headline(&placed), "all gangs are placed");
        let waits = "main containers wait until all members have started";
        let at_barrier = Inspected {
            gangs: placed.gangs.clone(),
            barrier: Some(waits.to_owned()),
            ..example()
        };
        assert_eq!(
            headline(&at_barrier),
            format!("all gangs are placed; at the start barrier {waits}")
        );
        let imageless = GangStatus {
            imageless: 2,
            ..placed.gangs[0].clone()
        };
        let imageless = Inspected {
            gangs: vec![imageless],
            ..example()
        };
        insta::assert_snapshot!(headline(&imageless), @"all gangs are placed; 2 pod(s) cannot pull an image, which is not a matter of scheduling: kubectl describe pods -n ml");
        let elsewhere = Inspected {
            life: Life::LeftAlone,
            manager: Some("example.com/other".to_owned()),
            ..example()
        };
        insta::assert_snapshot!(headline(&elsewhere), @"example.com/other runs it (spec.managedBy), so Muster leaves it alone: ask there why it waits");
    }
}
