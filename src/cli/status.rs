//! `muster status`: the gangs of a namespace or of the cluster, a line each.

use std::io::{IsTerminal as _, Write};
use std::time::Duration;

use serde_json::json;

use super::connect;
use super::explain::{Error, namespace};
use crate::args::{Status, StatusOutput};
use crate::controller::decide::{GangStatus, State};
use crate::controller::inspect::{Inspected, Inspector};

/// Between two looks of `--watch`.
const AGAIN: Duration = Duration::from_secs(5);

const HEADER: [&str; 7] = [
    "WORKLOAD",
    "GANG",
    "SCHEDULER",
    "PLACED",
    "STATE",
    "WAITED",
    "CAUSE",
];

/// Prints how gangs stand, once or again and again.
pub async fn run(args: &Status, out: &mut (dyn Write + Send)) -> Result<(), Error> {
    let client = connect::user(args.target.kubeconfig.as_deref()).await?;
    let namespace = match args.all_namespaces {
        true => None,
        false => Some(namespace(args.namespace.as_deref(), &client)),
    };
    loop {
        let mut inspector = Inspector::new(client.clone()).await?;
        let all = inspector.all(namespace.as_deref()).await;
        match args.output {
            StatusOutput::Text => write!(out, "{}", table(&all))?,
            StatusOutput::Json => {
                serde_json::to_writer_pretty(&mut *out, &to_json(&all))
                    .map_err(std::io::Error::from)?;
                writeln!(out)?;
            }
        }
        for what in &inspector.unseen {
            eprintln!("could not look at {what}");
        }
        out.flush()?;
        if !args.watch {
            return Ok(());
        }
        tokio::time::sleep(AGAIN).await;
        match std::io::stdout().is_terminal() {
            // From the top of a cleared screen.
            true => write!(out, "\x1b[2J\x1b[H")?,
            false => writeln!(out)?,
        }
    }
}

fn state(gang: &GangStatus) -> &'static str {
    match gang.state {
        State::Empty => "no pod yet",
        State::Waiting => "waits",
        State::Scheduled => "placed",
    }
}

/// One line for each gang.
pub fn table(all: &[Inspected]) -> String {
    let mut rows = vec![HEADER.map(str::to_owned)];
    for workload in all {
        let name = format!("{}/{} {}", workload.namespace, workload.name, workload.kind);
        for gang in &workload.gangs {
            let waited = gang.waited.filter(|_| gang.waits());
            rows.push([
                name.clone(),
                gang.name.clone(),
                gang.scheduler.to_string(),
                format!("{}/{}", gang.bound, gang.quorum),
                state(gang).to_owned(),
                waited.map_or("-".to_owned(), |waited| format!("{}s", waited.as_secs())),
                gang.causes
                    .first()
                    .map_or("-".to_owned(), ToString::to_string),
            ]);
        }
        if workload.gangs.is_empty() {
            let (reason, message) = workload.told.clone().unwrap_or_default();
            let why = workload.refused.clone().unwrap_or(message);
            let dash = || "-".to_owned();
            rows.push([name, dash(), dash(), dash(), reason, dash(), why]);
        }
    }
    if rows.len() == 1 {
        return "no gangs\n".to_owned();
    }
    let mut widths = [0; HEADER.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &[String; HEADER.len()]| {
        let cells = row.iter().zip(widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// The same for scripts.
pub fn to_json(all: &[Inspected]) -> serde_json::Value {
    let gang = |gang: &GangStatus| {
        let cause = |cause: &crate::explain::Cause| json!({"reason": cause.reason(), "message": cause.to_string()});
        json!({
            "name": gang.name,
            "scheduler": gang.scheduler.as_str(),
            "state": state(gang),
            "quorum": gang.quorum,
            "size": gang.size,
            "created": gang.live,
            "placed": gang.bound,
            "waitedSeconds": gang.waited.filter(|_| gang.waits()).map(|w| w.as_secs()),
            "causes": gang.causes.iter().map(cause).collect::<Vec<_>>(),
        })
    };
    let workload = |workload: &Inspected| {
        json!({
            "kind": workload.kind,
            "namespace": workload.namespace,
            "name": workload.name,
            "gangs": workload.gangs.iter().map(gang).collect::<Vec<_>>(),
            "refused": workload.refused,
        })
    };
    all.iter().map(workload).collect()
}

#[cfg(test)]
mod tests {
    use super::super::explain::tests::{example, without_names};
    use super::*;

    #[test]
    fn a_gang_is_a_line() {
        let table = |all: &[Inspected]| without_names(&table(all));
        insta::assert_snapshot!(table(&[example()]), @r"
        WORKLOAD         GANG         SCHEDULER  PLACED  STATE  WAITED  CAUSE
        ml/train KIND  train-all-0  SCHEDULER     0/9     waits  42s     6 of 9 pods fit; 3 more nvidia.com/gpu are needed (held by ml/train-b)
        ");
        assert_eq!(table(&[]), "no gangs\n");
    }

    #[test]
    fn scripts_read_the_same() {
        let listed = to_json(&[example()]);
        let gang = &listed[0]["gangs"][0];
        assert_eq!(gang["causes"][0]["reason"], "InsufficientResources");
        assert_eq!((&gang["placed"], &gang["quorum"]), (&json!(0), &json!(9)));
        assert_eq!(gang["waitedSeconds"], 42);
    }
}
