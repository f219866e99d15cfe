//! Arguments of the commands that speak to a cluster.

use std::net::SocketAddr;

use clap::{Args, Subcommand, ValueEnum};

use super::values::{admin_port, external_host, proxy_pod, resource_name};
use crate::format::{Format, FormatOf, Kind};

/// What is deployed, instead of files.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// Read what is deployed, instead of files; Istio's version and dnsRefreshRate come from there too.
    #[arg(long)]
    pub cluster: bool,
    /// Context of the kubeconfig; the current one without it.
    #[arg(long, requires = "cluster")]
    pub context: Option<String>,
    /// With `--cluster`, this namespace, else the context's own; with files, the namespace of resources that name none.
    #[arg(short, long, value_parser = resource_name)]
    pub namespace: Option<String>,
    /// All namespaces.
    #[arg(short = 'A', long, requires = "cluster", conflicts_with = "namespace")]
    pub all_namespaces: bool,
}

/// Whether and how manifests are applied.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ApplyArgs {
    /// Apply the manifests (server-side, field manager `egress-audit`) and print what that changes.
    #[arg(long)]
    pub apply: bool,
    /// Ask the API server and Istio's validation, print the change, and make none.
    #[arg(long, requires = "apply")]
    pub dry_run: bool,
    /// Take fields over that another manager owns.
    #[arg(long, requires = "apply")]
    pub force_conflicts: bool,
}

/// What running proxies do.
#[derive(Debug, Subcommand)]
pub enum ProxyCommand {
    /// What proxies do with external names: type, members, pinned sockets, refresh, and what that means.
    Status(StatusArgs),
}

/// Arguments of `proxy status`.
#[derive(Debug, Args)]
#[command(override_usage = "egress-audit proxy status [OPTIONS] <POD.NAMESPACE>
       egress-audit proxy status [OPTIONS] --admin <ADDR>
       egress-audit proxy status [OPTIONS] <-A|-n <NS>> --host <NAME>")]
#[command(after_help = "Examples:
  egress-audit proxy status api-6d4f.shop --host api.partner.example
  egress-audit proxy status -A --host api.partner.example     who still holds the old address
  egress-audit proxy status --admin 127.0.0.1:15000           an admin port that is reached already")]
pub struct StatusArgs {
    /// The pod of one proxy, as POD.NAMESPACE.
    #[arg(required_unless_present_any = ["admin", "all_namespaces", "namespace"], value_parser = proxy_pod)]
    #[arg(conflicts_with_all = ["admin", "all_namespaces", "namespace"])]
    pub pod: Option<(String, String)>,
    /// Read this admin port directly, without a cluster.
    #[arg(long, value_name = "ADDR", value_parser = admin_port, conflicts_with_all = ["all_namespaces", "namespace"])]
    pub admin: Option<SocketAddr>,
    /// Only this external name.
    #[arg(long, value_name = "NAME", value_parser = external_host)]
    pub host: Option<policies::Host>,
    /// Every proxy of this namespace.
    #[arg(short, long, value_parser = resource_name)]
    pub namespace: Option<String>,
    /// Every proxy of the mesh.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Context of the kubeconfig; the current one without it.
    #[arg(long)]
    pub context: Option<String>,
    /// How an admin port is reached through the API server.
    #[arg(long, value_enum, default_value_t = ReachWord::Forward)]
    pub reach: ReachWord,
    /// Proxies asked at once.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: u16,
    /// Form of the output.
    #[arg(short, long, default_value = "text", value_parser = FormatOf(Kind::Proxies))]
    pub output: Format,
}

/// How an admin port is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReachWord {
    /// A port-forward.
    Forward,
    /// `pilot-agent request` by exec.
    Exec,
}
