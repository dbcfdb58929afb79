//! A workload of one gang that waits, for the tests of what is printed of it.

use std::sync::Arc;
use std::time::Duration;

use super::progress::Progress;
use super::{Inspected, Sight};
use crate::controller::decide::{GangStatus, State};
use crate::explain::fit::{Fit, How, Lacking, Short};
use crate::explain::{Cause, Evidence};
use crate::gang::quantity::Quantity;
use crate::gang::{Ask, SchedulerKind, Unscheduled};
use crate::workload::Life;

/// A workload of one gang that waits for room.
pub(crate) fn example() -> Inspected {
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
        scheduler: SchedulerKind::new("example"),
        state: State::Waiting,
        quorum: 9,
        size: 9,
        live: 9,
        age: Some(Duration::from_secs(130)),
        waited: Some(Duration::from_secs(42)),
        evidence: Evidence {
            words: vec![(words, 3)],
            ..Evidence::default()
        },
        causes: vec![Cause::NoRoom(fit)],
        ..GangStatus::example()
    };
    let created = Progress {
        created: 9,
        ..Progress::default()
    };
    Inspected {
        kind: "Example".to_owned(),
        namespace: "ml".to_owned(),
        name: "train".to_owned(),
        declared: None,
        pods: "example.com/name=train".to_owned(),
        life: Life::Live,
        gangs: vec![gang],
        progress: vec![created],
        refused: None,
        broken: None,
        kueue: None,
        resume: None,
        manager: None,
        barrier: None,
        missing: Vec::new(),
        foreign: Vec::new(),
        told: None,
        sight: Sight::Whole,
        failed: None,
        looked: vec!["its pods".to_owned(), "nodes".to_owned()],
        unknown: vec!["what preemption could free".to_owned()],
    }
}
