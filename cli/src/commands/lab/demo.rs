//! `lab demo`: serves the demo scenario, classifies its names as `classify` would, and prints the verdicts and the YAML.

use jiff::Timestamp;
use labdns::{LabDns, Options};
use policies::{Host, Limits, Policy, Window};
use probes::names::sample::Sending;
use probes::names::sweep::{Authoritative, Settings};

use super::scenarios;
use crate::commands::advise::Advisor;
use crate::commands::generate::manifests;
use crate::commands::measure::{self, Measured, MeasuredHost};
use crate::console::Console;
use crate::exit::Exit;
use crate::format::Format;
use crate::render;

/// Serves, classifies, prints.
pub(super) async fn run(console: &mut Console) -> anyhow::Result<Exit> {
    let scenario = scenarios::open("demo")?;
    let lab = LabDns::start(&scenario, &Options::default()).await?;
    let hosts =
        scenario.expectations().map(|(name, _)| Host::parse(name.as_str())).collect::<Result<Vec<_>, _>>()?;
    let policy = Policy::default();
    let settings = Settings {
        resolvers: Vec::new(),
        authoritative: Authoritative::Servers(vec![lab.authority_addr()]),
        authority_port: 53,
        ecs: Vec::new(),
        limits: Limits { window: Window::Quick, max_queries: 200 },
        policy: policy.clone().into(),
        sending: Sending::default(),
    };
    let hosts = measure::sweep(hosts, settings, console, MeasuredHost::from).await?;
    lab.shutdown().await;
    let measured = Measured { hosts, window: "quick".to_owned(), ..Measured::default() };
    let report =
        Advisor { policy, platform: policies::Platform::default(), settings: policies::Settings::default() }
            .report("lab demo", measured, Timestamp::now());
    render::report(&report, Format::Table, console)?;
    console.data("\n")?;
    console.data(&manifests(&report, false, policies::manifest::Comments::Full)?)?;
    Ok(Exit::Clean)
}
