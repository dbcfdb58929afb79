//! What the command line says of the schedulers: which one is the default, and each backend's own
//! options.

use crate::gang::SchedulerKind;

use super::koordinator::KoordinatorArgs;
use super::native::NativeArgs;
use super::{Snapshot, names, parse};

/// The options of the schedulers.
#[derive(Debug, clap::Args)]
pub(crate) struct SchedulerArgs {
    #[arg(
        long,
        env = "MUSTER_SCHEDULER",
        value_name = "NAME",
        value_parser = parse_scheduler,
        help = format!(
            "Scheduler of workloads that name none: {}. Without it: what the cluster serves, or \
             {ASSUMED} where there is no cluster",
            names().join(", ")
        )
    )]
    scheduler: Option<SchedulerKind>,

    #[command(flatten)]
    native: NativeArgs,

    #[command(flatten)]
    koordinator: KoordinatorArgs,
}

/// The default where there is no cluster to ask.
const ASSUMED: SchedulerKind = SchedulerKind::NATIVE;

impl SchedulerArgs {
    /// The scheduler of workloads that name none, where it is configured.
    pub(crate) fn scheduler(&self) -> Option<SchedulerKind> {
        self.scheduler
    }

    /// What is taken for granted about a cluster that nobody has looked at.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let default = self.scheduler.unwrap_or(ASSUMED);
        let mut cluster = Snapshot::assumed(default, self.native.kubernetes);
        cluster.variants.extend(self.koordinator.variant());
        cluster
    }
}

fn parse_scheduler(word: &str) -> Result<SchedulerKind, String> {
    parse(word).ok_or_else(|| format!("must be one of {}", names().join(", ")))
}
