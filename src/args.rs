//! The command line's grammar. What each command does is elsewhere; see `main.rs`.

mod serve;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::barrier::container;
use crate::cli::check::Format;
use crate::cli::render::Output;
use crate::gang::duration;
use crate::gang::name::{is_dns_label, is_dns_subdomain};
use crate::scheduler::{SchedulerArgs, Snapshot};
use crate::workload;
pub use serve::{Serve, WaitContainerArgs};

/// Gang scheduling for any Kubernetes workload on any scheduler: pods that start together or not
/// at all.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of `muster`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the admission webhook over HTTPS
    #[command(after_help = "Examples:
  muster serve
  makes a development certificate under certs/, serves POST /mutate and POST /validate, and prints
  a curl line to try. /livez, /readyz and /metrics are on the admin port.

  muster serve --tls-dir /tls --scheduler volcano --log-format json
  serves with a mounted certificate, as in a cluster.")]
    Serve(Box<Serve>),

    /// Check manifests without a cluster: kinds, fields and their types as an apiserver does, gangs with
    /// the webhook's own rules
    #[command(after_help = "Examples:
  muster check train.yaml
  muster check manifests/ --scheduler volcano
  muster check manifests/ --require-gang -o github
  kubectl kustomize . > built.yaml
  muster check built.yaml -o sarif

Exit status: 0 everything is admitted, 1 something is refused, 2 a file cannot be read, or there is
nothing to check where gangs are required.")]
    Check(Check),

    /// Print what a cluster would get: the stamped workload, a linked child per gang, and the
    /// scheduler's objects
    #[command(after_help = "Examples:
  muster render train.yaml --scheduler volcano
  muster render train.yaml --scheduler native --kubernetes 1.36 -o json

Names end in a hash of the object's uid, which only a cluster knows; a fixed stand-in is used here.
Exit status: 0 everything is rendered, 1 something is refused, 2 a file cannot be read.")]
    Render(Render),

    /// Print what each scheduler can do, as a Markdown table
    #[command(after_help = "Example:
  muster schedulers")]
    Schedulers,

    /// Say why a gang waits or who is missing at a start barrier, and what to do about it
    #[command(after_help = explain_help())]
    Explain(Explain),

    /// List gangs: how many pods are created, placed, running and done, and what a gang waits for
    #[command(after_help = "Examples:
  muster status
  muster status -A --watch
  muster status -n ml -o wide

CREATED and PLACED count pods that are DONE too. On a terminal each gang has a bar of its quorum: how
much of it is placed, and how much exists; not with NO_COLOR, nor where the terminal cannot show it.
Exit status: 0 it is listed, 2 the cluster cannot be asked.")]
    Status(Status),

    /// Check that a cluster's apiserver asks Muster: one workload of each kind must be refused and one
    /// stamped, by dry run
    #[command(after_help = "Examples:
  muster verify -n default
  muster verify -n default --timeout 1m
  goes on until it works, for a minute at most.

You must be allowed to create the kinds in the namespace. Nothing is stored.
Exit status: 0 it works, 1 it does not, 2 the cluster cannot be asked.")]
    Verify(Verify),

    /// Add gangConfig and groupSchedulingConfig to the installed JobSet CRD, or take them away
    #[command(subcommand)]
    Crd(Crd),

    /// Wait until all members of a start barrier have started: the init container that Muster injects
    #[command(after_help = "Example:
  muster wait --timeout 5m
  in a container that Muster has injected: which barrier it waits at stands in its variables.

Exit status: 0 all have started, 1 not all did in time, 2 it cannot wait.")]
    Wait(Wait),

    /// Write a development CA and a server certificate
    #[command(after_help = "Example:
  muster certs --dir certs --name muster.example.internal
  writes ca.crt, ca.key, tls.crt and tls.key. A CA that is still valid is kept.")]
    Certs(Certs),
}

/// The two directions of `muster crd`.
#[derive(Debug, Subcommand)]
pub enum Crd {
    /// Add the fields; does nothing when they are there
    #[command(after_help = "Examples:
  muster crd extend --dry-run
  muster crd extend --watch
  goes on after a JobSet upgrade, which replaces the CRD and drops the fields.")]
    Extend {
        /// Print what would change, and write nothing
        #[arg(long, conflicts_with = "watch")]
        dry_run: bool,
        /// Add the fields again whenever they are gone
        #[arg(long)]
        watch: bool,
        /// The cluster whose CRD is changed.
        #[command(flatten)]
        target: Target,
    },
    /// Remove the fields that extend added, and nothing else. Refused while a JobSet uses them
    #[command(after_help = "Example:
  muster crd revert --dry-run")]
    Revert {
        /// Print what would change, and write nothing
        #[arg(long)]
        dry_run: bool,
        /// Also while JobSets use them: their gangs are lost
        #[arg(long)]
        force: bool,
        /// The cluster whose CRD is changed.
        #[command(flatten)]
        target: Target,
    },
}

/// The options of `muster explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// What to explain; as KIND NAME too
    #[arg(value_name = "KIND/NAME")]
    pub workload: String,
    /// Its name, where the first word is only its kind
    #[arg(hide = true)]
    pub name: Option<String>,
    /// Its namespace; without it, the one that kubectl would use
    #[arg(short, long, value_parser = parse_namespace)]
    pub namespace: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: ExplainOutput,
    /// The cluster.
    #[command(flatten)]
    pub target: Target,
}

/// The options of `muster status`.
#[derive(Debug, Args)]
pub struct Status {
    /// The namespace; without it, the one that kubectl would use
    #[arg(short, long, value_parser = parse_namespace)]
    pub namespace: Option<String>,
    /// Of all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// List them again every five seconds, until it is interrupted
    #[arg(short, long)]
    pub watch: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: StatusOutput,
    /// The cluster.
    #[command(flatten)]
    pub target: Target,
}

/// It becomes a part of a path.
fn parse_namespace(name: &str) -> Result<String, String> {
    match is_dns_label(name) {
        true => Ok(name.to_owned()),
        false => Err("must be a DNS label".to_owned()),
    }
}

/// The options of `muster verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// The namespace of what is tried; without it, the one that kubectl would use
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// The scheduler of what is tried, where the cluster serves several
    #[arg(long, value_name = "NAME")]
    pub scheduler: Option<String>,
    /// How long to try again while it does not work; without it, it is tried once
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// The cluster.
    #[command(flatten)]
    pub target: Target,
}

/// With the names of kinds from their table.
fn explain_help() -> String {
    let (first, kinds) = crate::cli::target::help();
    format!(
        "Examples:
  muster explain {first}/train
  muster explain sts/ring -n ml
  muster explain pod/ring-0 -o json
  muster explain gang/ring

KIND, in the singular or plural, or shortened as kubectl does:
{kinds}

What makes pods is explained by the gangs of its pods, and a pod by its gang. Looks with your own
rights, also where Muster does not run.
Exit status: 0 it is explained, 1 it has no gang, 2 it is not found or the cluster cannot be asked."
    )
}

/// How `muster explain` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum ExplainOutput {
    /// Sentences
    #[default]
    Text,
    /// One object for scripts
    Json,
    /// The same as YAML
    Yaml,
}

/// How `muster status` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum StatusOutput {
    /// A table
    #[default]
    Text,
    /// A table with sentences
    Wide,
    /// One array for scripts
    Json,
    /// The same as YAML
    Yaml,
}

/// Which cluster a command is for.
#[derive(Debug, Args)]
pub struct Target {
    /// Kubeconfig of the cluster; without it, the one that kubectl would use
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig; without it, the current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// The options of `muster wait`.
#[derive(Debug, Args)]
pub struct Wait {
    /// How long to wait, counted from the first start of this container in its pod
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub timeout: Duration,

    /// Where the ConfigMap that opens the barrier is mounted
    #[arg(long, value_name = "DIR", default_value = container::MOUNT)]
    pub mount: PathBuf,

    /// Where to remember since when this pod waits
    #[arg(long, value_name = "DIR", default_value = container::CLOCK_MOUNT)]
    pub clock: PathBuf,

    /// Where to say why the wait has failed
    #[arg(long, value_name = "FILE", default_value = "/dev/termination-log")]
    pub termination_log: PathBuf,
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

/// The options of `muster check`.
#[derive(Debug, Args)]
pub struct Check {
    /// The files.
    #[command(flatten)]
    pub files: Files,

    /// How to print the result
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,

    /// Refuse objects that have no gang
    #[arg(long)]
    pub require_gang: bool,

    /// The cluster that the manifests are checked for.
    #[command(flatten)]
    pub cluster: Cluster,
}

/// The options of `muster render`.
#[derive(Debug, Args)]
pub struct Render {
    /// The files.
    #[command(flatten)]
    pub files: Files,

    /// How to print the result
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,

    /// The cluster that the manifests are rendered for.
    #[command(flatten)]
    pub cluster: Cluster,
}

/// What `check` and `render` read.
#[derive(Debug, Args)]
pub struct Files {
    /// Manifest files, directories to walk, or - for standard input
    #[arg(required = true, value_name = "FILE|DIR|-")]
    pub paths: Vec<PathBuf>,

    /// File name to show for standard input instead of `-`; `-o github` and `-o sarif` need one to point
    /// at a file. Lines are those of the input: name a file only if the input is its text
    #[arg(long, value_name = "FILE")]
    pub stdin_name: Option<String>,
}

/// What is taken for granted about a cluster that nobody has looked at.
#[derive(Debug, Args)]
pub struct Cluster {
    #[command(flatten)]
    pub(crate) schedulers: SchedulerArgs,

    #[command(flatten)]
    pub(crate) workloads: workload::WorkloadArgs,

    #[command(flatten)]
    pub(crate) wait: WaitContainerArgs,
}

impl Cluster {
    /// The assumed cluster, as a decision sees it.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            ganged_unasked: self.workloads.ganged_unasked(),
            wait: Arc::new(self.wait.container()),
            ..self.schedulers.snapshot()
        }
    }
}

/// A name that a certificate can carry.
fn parse_name(name: &str) -> Result<String, String> {
    let plain = name.strip_prefix("*.").unwrap_or(name);
    if plain.parse::<IpAddr>().is_ok() || is_dns_subdomain(&plain.to_ascii_lowercase()) {
        Ok(name.to_owned())
    } else {
        Err("must be a DNS name or an IP address".to_owned())
    }
}

/// The options of `muster certs`.
#[derive(Debug, Args)]
pub struct Certs {
    /// Directory to write to
    #[arg(long, default_value = "certs")]
    pub dir: PathBuf,

    /// Further DNS name or IP address of the server; may be repeated
    #[arg(long = "name", value_name = "NAME", value_parser = parse_name)]
    pub names: Vec<String>,
}
