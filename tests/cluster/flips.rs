//! The lab's flip experiments, unchanged, on the cluster that istiod sends instead of the lab's own, before and after
//! DNS_ROUND_ROBIN changed: the same verdicts, and the controls the other way. Passed-through TLS; `lab` has the rest.

use std::time::Duration;

use anyhow::{Context, ensure};
use policies::Resolution;
use policies::Version;
use probes::experiments;
use probes::experiments::bench::mesh::{self, Ground};
use probes::experiments::bench::{Bench, Plan, Publish, Setup, Wanted};
use probes::experiments::evidence::{EgressCell, Evidence, Topology, Verdict};
use probes::lab::envoy::bootstrap::{HttpVersion, Layer};
use tokio::runtime::Runtime;

use crate::Test;
use crate::control_plane::ControlPlane;
use crate::proxies::{ENVOY, Kind, ads, binary};

pub(crate) const TESTS: &[Test] = &[
    ("a response in flight survives a flip on istiod's cluster", in_flight),
    ("a flip is recorded on istiod's cluster as on the lab's", recorded),
];

/// The release before DNS_ROUND_ROBIN changed: Istio 1.30's.
const BEFORE: Version = Version::release(1, 38, 3);
const STREAM: Duration = Duration::from_secs(4);

fn in_flight(plane: &ControlPlane) -> anyhow::Result<()> {
    experiment(plane, "in-flight-flip", &[None, Some("backend-dies")])
}

fn recorded(plane: &ControlPlane) -> anyhow::Result<()> {
    experiment(plane, "flip-record", &[None, Some("no-flip")])
}

/// Both resolutions on both releases; controls once.
fn experiment(plane: &ControlPlane, id: &str, controls: &[Option<&str>]) -> anyhow::Result<()> {
    let runtime = Runtime::new()?;
    for version in [BEFORE, ENVOY] {
        for resolution in [Resolution::Dns, Resolution::DnsRoundRobin] {
            for control in controls {
                if control.is_some() && version == BEFORE {
                    continue;
                }
                let evidence = runtime.block_on(run(plane, id, version, resolution, *control))?;
                let wanted = if control.is_some() { Verdict::Refuted } else { Verdict::Confirmed };
                ensure!(
                    evidence.verdict == wanted,
                    "{id} {version} {resolution:?} {control:?}: {:?}: {}",
                    evidence.verdict,
                    evidence.because
                );
            }
        }
    }
    Ok(())
}

async fn run(
    plane: &ControlPlane,
    id: &str,
    version: Version,
    resolution: Resolution,
    control: Option<&str>,
) -> anyhow::Result<Evidence> {
    let experiment = experiments::find(id).with_context(|| format!("no experiment {id}"))?;
    let cell = EgressCell {
        envoy: version,
        old_dns: false,
        topology: Topology::Sidecar,
        path: Layer::Passthrough,
        http: HttpVersion::H1,
        resolution,
        variant: None,
        control: control.map(ToOwned::to_owned),
    };
    let namespace = format!("{id}-{}-{resolution:?}", version.minor()).to_lowercase();
    let namespace = control.map_or(namespace.clone(), |control| format!("{namespace}-{control}"));
    let plan = (experiment.plan)(&cell, STREAM);
    let setup = Setup {
        experiment: experiment.id,
        question: experiment.question,
        publish: Some(publish(plane, namespace, cell.clone(), plan.clone())),
        plan,
        stream: STREAM,
        keep: None,
        cell,
    };
    Ok(match Bench::start(setup, &binary(version).await?).await {
        Ok(bench) => (experiment.conduct)(bench).await,
        Err(error) => anyhow::bail!("{error} ({})", error.hint()),
    })
}

/// The name in a namespace of its own, whose proxies ask the lab DNS.
fn publish(plane: &ControlPlane, namespace: String, cell: EgressCell, plan: Plan) -> Publish {
    let objects = plane.objects.clone();
    let ads = ads(plane, Kind::Sidecar, "client", &namespace);
    Box::new(move |wanted: Wanted| {
        Box::pin(async move {
            let Wanted { resolver, backend_port } = wanted;
            let ground = Ground { namespace: &namespace, resolver, backend_port };
            let resources = mesh::resources(&cell, &plan, &ground).map(|resource| resource.to_string());
            let home = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}");
            let manifests = [home, resources.join("\n---\n")].join("\n---\n");
            // Its requests block, on a runtime of their own.
            let applied = tokio::task::spawn_blocking(move || objects.apply(&manifests)).await;
            match applied {
                Ok(Ok(())) => Ok(ads),
                Ok(Err(error)) => Err(format!("{error:#}")),
                Err(error) => Err(error.to_string()),
            }
        })
    })
}
