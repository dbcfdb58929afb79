//! Every level of gang on every scheduler: nothing is bound while it does not fit, everything is
//! when it does, a restart is a gang again, and a deletion leaves nothing.

pub mod cell;
mod job;
mod kinds;
mod live_pods;
mod pods;
mod replica;
mod table;

pub use cell::CHANCE;

use crate::fleet::Home;
use crate::runner::{Test, named};

/// What is ganged. Each row has six pods of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// The whole JobSet.
    Whole,
    /// A ReplicatedJob.
    Group,
    /// Each Job replica by itself.
    Replica,
    /// Two ReplicatedJobs, each a gang, that start together.
    Bundle,
    /// A Job by itself.
    Job,
    /// Each replica of a LeaderWorkerSet.
    LeaderWorkerSet,
    /// The same, whose workers come once the leader is ready.
    LeaderReady,
    /// Pods that nobody made but a user.
    Pods,
    /// The same, in Koordinator's words and in a namespace that says who schedules.
    Dialect,
    /// The pods of a StatefulSet.
    StatefulSet,
    /// The pods of a Deployment, which a rollout replaces one by one.
    Deployment,
    /// The same, each revision by itself.
    Revisions,
    /// A JobSet and a Job that start together.
    Kinds,
}

impl Row {
    const ALL: [Row; 13] = [
        Row::Whole,
        Row::Group,
        Row::Replica,
        Row::Bundle,
        Row::Job,
        Row::LeaderWorkerSet,
        Row::LeaderReady,
        Row::Pods,
        Row::Dialect,
        Row::StatefulSet,
        Row::Deployment,
        Row::Revisions,
        Row::Kinds,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::Whole => "JobSet",
            Self::Group => "ReplicatedJob",
            Self::Replica => "Job replica",
            Self::Bundle => "bundle",
            Self::Job => "Job",
            Self::LeaderWorkerSet => "LWS replica",
            Self::LeaderReady => "LWS, LeaderReady",
            Self::Pods => "pods",
            Self::Dialect => "Koordinator's words",
            Self::StatefulSet => "StatefulSet",
            Self::Deployment => "Deployment",
            Self::Revisions => "Deployment, by revision",
            Self::Kinds => "bundle of two kinds",
        }
    }

    /// The number of its last Job.
    fn last_job(self) -> &'static str {
        match self {
            Self::Whole => "2",
            _ => "1",
        }
    }
}

/// Who schedules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    Native1_37,
    Native1_36,
    Native1_35,
    Volcano,
    Coscheduling,
    KoordinatorPodGroups,
    KoordinatorAnnotations,
    Yunikorn,
    Kai,
}

impl Column {
    const ALL: [Column; 9] = [
        Column::Native1_37,
        Column::Native1_36,
        Column::Native1_35,
        Column::Volcano,
        Column::Coscheduling,
        Column::KoordinatorPodGroups,
        Column::KoordinatorAnnotations,
        Column::Yunikorn,
        Column::Kai,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::Native1_37 => "native 1.37",
            Self::Native1_36 => "native 1.36",
            Self::Native1_35 => "native 1.35",
            Self::Volcano => "Volcano",
            Self::Coscheduling => "coscheduling",
            Self::KoordinatorPodGroups => "Koordinator, PodGroups",
            Self::KoordinatorAnnotations => "Koordinator, annotations",
            Self::Yunikorn => "YuniKorn",
            Self::Kai => "KAI",
        }
    }

    fn home(self) -> Home {
        match self {
            Self::Native1_36 => Home::Kubernetes1_36,
            Self::Native1_35 => Home::Kubernetes1_35,
            Self::KoordinatorAnnotations => Home::KoordinatorAnnotations,
            _ => Home::Schedulers,
        }
    }

    /// The value of `muster.dev/scheduler`.
    fn scheduler(self) -> &'static str {
        match self {
            Self::Native1_37 | Self::Native1_36 | Self::Native1_35 => "native",
            Self::Volcano => "volcano",
            Self::Coscheduling => "coscheduling",
            Self::KoordinatorPodGroups | Self::KoordinatorAnnotations => "koordinator",
            Self::Yunikorn => "yunikorn",
            Self::Kai => "kai",
        }
    }

    /// Why `kubectl apply` refuses the row, if the scheduler cannot do it.
    fn refusal(self, row: Row) -> Option<&'static str> {
        match (self, row) {
            (Self::Native1_36 | Self::Native1_35, Row::Bundle) => Some("native cannot do bundles"),
            (Self::Coscheduling, Row::Bundle) => Some("coscheduling cannot do bundles"),
            (Self::KoordinatorPodGroups | Self::Volcano, Row::Kinds) => None,
            (_, Row::Kinds) => Some("annotations[muster.dev/bundle-with]: Forbidden"),
            _ => None,
        }
    }

    /// Whether its scheduler understands the words of the row by itself, and Muster leaves its pods as
    /// they are.
    fn speaks(self, row: Row) -> bool {
        row == Row::Dialect && self.scheduler() == "koordinator"
    }

    fn slug(self) -> String {
        self.title()
            .to_lowercase()
            .replace(", ", "-")
            .replace([' ', '.'], "_")
    }
}

pub fn all() -> Vec<Test> {
    let cells = Column::ALL
        .into_iter()
        .flat_map(|column| Row::ALL.map(|row| (column, row)));
    cells
        .map(|(column, row)| {
            let row_name = row.title().to_lowercase().replace([' ', ','], "_");
            let row_name = row_name.replace('\'', "");
            let name = format!("matrix::{}::{row_name}", column.slug());
            let run = move |sandbox| async move {
                match row {
                    Row::Job => job::run(sandbox, column).await,
                    Row::LeaderWorkerSet => replica::run(sandbox, column).await,
                    Row::LeaderReady => replica::run_in_order(sandbox, column).await,
                    Row::Kinds => kinds::run(sandbox, column).await,
                    Row::Pods
                    | Row::Dialect
                    | Row::StatefulSet
                    | Row::Deployment
                    | Row::Revisions => pods::run(sandbox, column, row).await,
                    _ => cell::run(sandbox, column, row).await,
                }
            };
            named(name, column.home(), run)
        })
        .collect()
}
