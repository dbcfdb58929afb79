//! The flags about LeaderWorkerSets.

use clap::{Args, ValueEnum};

use super::KIND;

/// Flags of `serve`, `check` and `render`.
#[derive(Debug, Args)]
pub(crate) struct LwsArgs {
    /// Which LeaderWorkerSets are gangs, replica by replica: those that say so in the annotation
    /// muster.dev/gang-mode, or all but those that say Off. A cluster needs the overlay
    /// manifests/all-leaderworkersets for all
    #[arg(
        long = "leaderworkersets",
        env = "MUSTER_LEADERWORKERSETS",
        value_name = "WHICH",
        value_enum,
        default_value_t
    )]
    which: Which,
}

impl LwsArgs {
    /// The kind, where its workloads are gangs unasked.
    pub(crate) fn ganged_unasked(&self) -> Option<&'static str> {
        (self.which == Which::All).then_some(KIND.name)
    }
}

/// Which sets are gangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Which {
    /// Only sets that ask for it are ganged.
    #[default]
    Annotated,
    /// All sets are ganged, but those that say Off.
    All,
}
