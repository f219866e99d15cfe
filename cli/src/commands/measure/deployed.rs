//! The names of a mesh: a cluster comes in; the hosts of its entries that ask DNS go out, each with who declares it and,
//! where the proxies were asked, how many of them have used it.

use std::collections::BTreeMap;

use policies::Host;
use policies::audit::asked_hosts;
use policies::manifest::Kind;

use crate::args::MeasureArgs;
use crate::cluster::{Cluster, Reach, Scope};
use crate::commands::proxy;
use crate::console::Console;
use crate::report::Problem;

/// Proxies asked at once.
const AT_ONCE: usize = 16;

/// Names out of a cluster.
#[derive(Debug, Default)]
pub(super) struct Declared {
    /// Each name with what is to be said of it.
    pub(super) by_host: BTreeMap<Host, Vec<String>>,
    /// What could not be read.
    pub(super) problems: Vec<Problem>,
}

impl Declared {
    pub(super) async fn read(args: &MeasureArgs, console: &mut Console) -> Result<Self, Problem> {
        let cluster = Cluster::connect(args.context.as_deref()).await?;
        let deployed = cluster.deployed(&[Kind::ServiceEntry], &Scope::All, console).await;
        let mut declared = Self { problems: deployed.problems, ..Self::default() };
        let mut entries: BTreeMap<Host, Vec<String>> = BTreeMap::new();
        for (entry, host) in asked_hosts(&deployed.loaded) {
            entries.entry(host).or_default().push(format!("{}/{}", entry.namespace, entry.name));
        }
        let told = |(host, entries): (Host, Vec<String>)| {
            (host, vec![format!("declared by {}", entries.join(", "))])
        };
        declared.by_host = entries.into_iter().map(told).collect();
        if declared.by_host.is_empty() && declared.problems.is_empty() {
            let hint = "only entries with resolution DNS or DNS_ROUND_ROBIN and no endpoints ask DNS for their hosts";
            declared.problems.push(Problem::new("the mesh", "has no ServiceEntry that asks DNS", hint));
        }
        console.note(&format!("{} names of the mesh", declared.by_host.len()));
        if args.usage {
            declared.ask_proxies(&cluster, console).await?;
        }
        Ok(declared)
    }

    /// Says of each name how many proxies have sent anything to it since they started.
    async fn ask_proxies(&mut self, cluster: &Cluster, console: &mut Console) -> Result<(), Problem> {
        let (found, problems) =
            proxy::ask(cluster, &Scope::All, Reach::Forward, None, AT_ONCE, console).await?;
        self.problems.extend(problems);
        for (host, notes) in &mut self.by_host {
            let users = found.iter().filter(|(_, proxy)| {
                let own = proxy.clusters.iter().filter(|cluster| cluster.host == host.as_str());
                own.flat_map(|cluster| &cluster.members).any(|member| member.picked > 0)
            });
            notes.push(match users.count() {
                0 => format!("none of {} proxies has sent anything to it since it started", found.len()),
                some => format!("used by {some} of {} proxies", found.len()),
            });
        }
        Ok(())
    }
}
