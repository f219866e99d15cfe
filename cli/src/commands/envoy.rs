//! `envoy install` and `envoy list`: the releases that the lab can run.

use policies::Version;
use probes::lab::envoy::install::{self, default_cache};
use probes::lab::envoy::{Binary, Source};

use crate::args::EnvoyCommand;
use crate::console::Console;
use crate::exit::Exit;
use crate::render::table::columns;
use crate::report::Problem;

/// Installs or lists.
///
/// # Errors
/// When a release cannot be installed, with the remedy.
pub async fn run(command: EnvoyCommand, console: &mut Console) -> anyhow::Result<Exit> {
    let cache = default_cache();
    match command {
        EnvoyCommand::Install { release } => {
            let what = release.map_or_else(|| "the newest release".to_owned(), |version| version.to_string());
            console.note(&format!("installing {what} into {}", cache.display()));
            let binary = match release {
                Some(version) => install::obtain(&cache, version).await,
                None => install::install(&cache, None).await,
            };
            let binary = binary.map_err(Problem::from)?;
            console.data(&format!("{} {}\n", binary.version, binary.path.display()))?;
        }
        EnvoyCommand::List => {
            let default = install::present(&cache).await.map_err(Problem::from)?;
            let mut all = install::list(&cache).await;
            if let Some(default) = default.clone().filter(|default| !all.contains(default)) {
                all.push(default);
            }
            if all.is_empty() {
                console.note("no Envoy here; `egress-audit envoy install` fetches one");
                return Ok(Exit::Clean);
            }
            let rows = all.iter().map(|binary| {
                let taken = if default.as_ref() == Some(binary) { "default" } else { "" };
                [
                    binary.version.to_string(),
                    origin(binary).to_owned(),
                    binary.path.display().to_string(),
                    taken.to_owned(),
                ]
            });
            console.data(&columns(["VERSION", "FROM", "PATH", ""], rows))?;
        }
    }
    Ok(Exit::Clean)
}

/// The Envoys of a run: those asked for, else the one that is found.
pub(super) async fn chosen(wanted: &[Version], console: &Console) -> anyhow::Result<Vec<Binary>> {
    let cache = default_cache();
    if wanted.is_empty() {
        if let Some(found) = install::present(&cache).await.map_err(Problem::from)? {
            console.note(&format!("Envoy {} from {}", found.version, origin(&found)));
            return Ok(vec![found]);
        }
        console.note("no Envoy here: installing the newest release");
        let installed = install::install(&cache, None).await.map_err(Problem::from)?;
        console.note(&format!("Envoy {} installed in {}", installed.version, installed.path.display()));
        return Ok(vec![installed]);
    }
    let mut binaries = Vec::with_capacity(wanted.len());
    for version in wanted {
        let binary = install::obtain(&cache, *version).await.map_err(Problem::from)?;
        if binary.source == Source::Installed {
            console.note(&format!("Envoy {version} installed in {}", binary.path.display()));
        }
        if !binaries.contains(&binary) {
            binaries.push(binary);
        }
    }
    Ok(binaries)
}

fn origin(binary: &Binary) -> &'static str {
    match binary.source {
        Source::Environment => "ENVOY_BIN",
        Source::Path => "PATH",
        Source::Cache => "cache",
        Source::Installed => "installed now",
    }
}
