//! `proxy status`: what running proxies do with external names. One proxy by its pod or its admin port, or all of a
//! namespace or mesh; a proxy that cannot be asked is a problem, and the others are asked all the same.

use futures_util::StreamExt as _;
use jiff::Timestamp;
use policies::proxy::{self, Inspection};
use policies::{Host, Version};
use probes::lab::envoy::admin::Admin;

use crate::args::{ProxyCommand, ReachWord, StatusArgs};
use crate::cluster::{Cluster, ProxyPod, Reach, Scope};
use crate::console::Console;
use crate::exit::Exit;
use crate::render;
use crate::report::{Body, FleetReport, Inputs, Problem, ProxyReport, Report};

/// Asks and prints.
///
/// # Errors
/// When no proxy can be asked at all, or the output cannot be written.
pub async fn run(command: ProxyCommand, console: &mut Console) -> anyhow::Result<Exit> {
    let ProxyCommand::Status(args) = command;
    let (found, problems) = match args.admin {
        Some(admin) => {
            let inspection = Admin::new(admin).inspect(args.host.as_ref().map(Host::as_str)).await;
            let hint = "is Envoy's admin port there? `--admin` takes ADDR:PORT";
            let inspection = inspection.map_err(|error| Problem::new(admin, error, hint))?;
            (vec![(admin.to_string(), inspection)], Vec::new())
        }
        None => through_the_cluster(&args, console).await?,
    };
    let inputs = Inputs {
        command: "proxy status".to_owned(),
        names: usize::from(args.host.is_some()),
        resolvers: Vec::new(),
        window: "now".to_owned(),
        platform: versions(&found),
    };
    let mut problems = problems;
    if found.iter().all(|(_, inspection)| inspection.clusters.is_empty()) && !found.is_empty() {
        problems.push(nothing(args.host.as_ref()));
    }
    let proxies: Vec<ProxyReport> =
        found.into_iter().map(|(proxy, inspection)| described(proxy, inspection)).collect();
    let addresses = proxy::addresses(proxies.iter().map(|proxy| &proxy.inspection));
    let body = Body::Fleet(FleetReport { proxies, addresses });
    let report = Report { problems, ..Report::new(inputs, body, Timestamp::now()) };
    render::report(&report, args.output, console)?;
    Ok(report.exit())
}

/// The pod that is named, or every proxy of the scope.
async fn through_the_cluster(
    args: &StatusArgs,
    console: &mut Console,
) -> Result<(Vec<(String, Inspection)>, Vec<Problem>), Problem> {
    let cluster = Cluster::connect(args.context.as_deref()).await?;
    let (reach, host) = (args.reach.into(), args.host.as_ref().map(Host::as_str));
    if let Some((name, namespace)) = &args.pod {
        let pod = ProxyPod { namespace: namespace.clone(), name: name.clone() };
        let inspection = cluster.inspect(&pod, reach, host).await?;
        return Ok((vec![(pod.to_string(), inspection)], Vec::new()));
    }
    let scope = match &args.namespace {
        Some(namespace) => Scope::Namespace(namespace.clone()),
        None => Scope::All,
    };
    ask(&cluster, &scope, reach, host, args.jobs.into(), console).await
}

/// Every proxy of the scope, `at_once` at a time; those that cannot be asked become problems.
///
/// # Errors
/// Proxies may not be listed, or there are none.
pub(super) async fn ask(
    cluster: &Cluster,
    scope: &Scope,
    reach: Reach,
    host: Option<&str>,
    at_once: usize,
    console: &mut Console,
) -> Result<(Vec<(String, Inspection)>, Vec<Problem>), Problem> {
    let proxies = cluster.proxies(scope).await?;
    if proxies.pods.is_empty() {
        let hint = "proxies are the pods with a container named istio-proxy; `-A` looks in all namespaces";
        return Err(Problem::new("proxies", "none runs there", hint));
    }
    if proxies.idle > 0 {
        console.note(&format!("{} pods with a proxy do not run and are not asked", proxies.idle));
    }
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    console.start_progress(proxies.pods.len() as u64);
    let asked = proxies.pods.iter().map(|pod| async move { (pod, cluster.inspect(pod, reach, host).await) });
    let mut asked = futures_util::stream::iter(asked).buffer_unordered(at_once);
    while let Some((pod, result)) = asked.next().await {
        match result {
            Ok(inspection) => found.push((pod.to_string(), inspection)),
            Err(problem) => problems.push(problem),
        }
        console.progress((found.len() + problems.len()) as u64, &pod.to_string());
    }
    drop(asked);
    console.end_progress();
    found.sort_by(|(one, _), (two, _)| one.cmp(two));
    Ok((found, problems))
}

fn described(proxy: String, inspection: Inspection) -> ProxyReport {
    let meanings = inspection.clusters.iter().map(|cluster| proxy::meanings(cluster, &inspection)).collect();
    ProxyReport { proxy, inspection, meanings }
}

/// Envoy's versions, each once.
fn versions(found: &[(String, Inspection)]) -> String {
    let mut versions: Vec<_> = found.iter().map(|(_, inspection)| inspection.envoy).collect();
    versions.sort_unstable();
    versions.dedup();
    let versions: Vec<String> = versions.iter().map(Version::to_string).collect();
    format!("Envoy {}", versions.join(", "))
}

fn nothing(host: Option<&Host>) -> Problem {
    match host {
        Some(host) => Problem::new(
            host,
            "no proxy that was asked has a cluster that looks it up",
            "its ServiceEntry may be missing, not exported there, rejected, or of another resolution; \
             `egress-audit audit --cluster -A` reads it",
        ),
        None => Problem::new(
            "proxies",
            "none that was asked has a cluster that looks names up",
            "ServiceEntries with resolution DNS or DNS_ROUND_ROBIN make them",
        ),
    }
}

impl From<ReachWord> for Reach {
    fn from(word: ReachWord) -> Self {
        match word {
            ReachWord::Forward => Self::Forward,
            ReachWord::Exec => Self::Exec,
        }
    }
}
