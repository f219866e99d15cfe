//! Arguments of `audit`.

use std::path::PathBuf;

use clap::Args;

use super::{AskArgs, ClusterArgs, PlatformArgs};
use crate::format::{Format, FormatOf, Kind};
use crate::report::FailOn;

/// Arguments of `audit`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  egress-audit audit manifests/                          DNS is asked about the hosts found
  egress-audit audit manifests/ --offline -o sarif > audit.sarif
  kustomize build . | egress-audit audit - --observations windows/ --fail-on warning
  egress-audit audit manifests/ --fix | git apply
  egress-audit audit --cluster -A
  egress-audit audit --explain EA201")]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line are independent")]
pub struct AuditArgs {
    /// Files and folders of manifests (`-`: standard input).
    #[arg(required_unless_present_any = ["explain", "cluster"], conflicts_with = "cluster")]
    pub paths: Vec<PathBuf>,
    /// What is deployed.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Ask no DNS: only what the files alone show.
    #[arg(long, help_heading = "Measuring", conflicts_with_all = ["observations", "resolver", "authority", "ecs", "window", "quick", "save"])]
    pub offline: bool,
    /// Take DNS evidence from windows that `classify --save` wrote, instead of asking.
    #[arg(long, help_heading = "Measuring", value_name = "DIR", conflicts_with_all = ["resolver", "authority", "ecs", "window", "quick", "save"])]
    pub observations: Option<PathBuf>,
    /// Take DNS evidence from the answers that `watch` has stored in this folder, instead of asking.
    #[arg(long, help_heading = "Measuring", value_name = "DIR", conflicts_with_all = ["offline", "observations", "resolver", "authority", "ecs", "window", "quick", "save"])]
    pub from_store: Option<PathBuf>,
    /// How to ask, without `--offline` or `--observations`.
    #[command(flatten)]
    pub ask: AskArgs,
    /// What the manifests are for.
    #[command(flatten)]
    pub platform: PlatformArgs,
    /// Proxies in the mesh, for the load on DNS.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub proxies: u32,
    /// The mesh's root namespace.
    #[arg(long, value_name = "NS", default_value = "istio-system")]
    pub root_namespace: String,
    /// Form of the output.
    #[arg(short, long, default_value = "text", value_parser = FormatOf(Kind::Audit))]
    pub output: Format,
    /// Exit with 1 from this severity on.
    #[arg(long, value_enum, default_value_t = FailOn::Error)]
    pub fail_on: FailOn,
    /// Leave out a rule (EA301) or a family (EA3*); may be repeated.
    #[arg(long, value_name = "CODE")]
    pub ignore: Vec<String>,
    /// Findings that were there before, which are not reported again.
    #[arg(long, value_name = "FILE", conflicts_with = "write_baseline")]
    pub baseline: Option<PathBuf>,
    /// Write all findings of now as the baseline.
    #[arg(long, value_name = "FILE")]
    pub write_baseline: Option<PathBuf>,
    /// Print a patch with what a machine can mend, instead of the findings.
    #[arg(long)]
    pub fix: bool,
    /// Write what `--fix` prints into the files; comments and formatting stay.
    #[arg(long, requires = "fix", conflicts_with = "cluster")]
    pub write: bool,
    /// With `--write`, also mend files that a link reaches outside of the folder given.
    #[arg(long, requires = "write")]
    pub follow_links: bool,
    /// Explain a rule: what, why, examples, evidence, remedy; `all` lists the rules.
    #[arg(long, value_name = "CODE", exclusive = true)]
    pub explain: Option<String>,
}
