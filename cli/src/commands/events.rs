//! `events`: what happened to the names of a store, also while its `watch` runs.

use crate::args::{EventsArgs, EventsFormat};
use crate::console::Console;
use crate::exit::Exit;
use crate::render;
use crate::store::Filter;
use crate::store::read::Reader;

/// Reads and prints.
///
/// # Errors
/// The store cannot be read, or the output cannot be written.
pub async fn run(args: &EventsArgs, console: &Console) -> anyhow::Result<Exit> {
    let filter =
        Filter { since: args.since, host: args.host.clone(), kinds: args.kind.clone(), limit: args.limit };
    let events = Reader::open(&args.store)?.events(&filter).await?;
    match args.output {
        EventsFormat::Text => {
            if events.is_empty() {
                console.note("no events");
            }
            console.data(&render::events::text(&events, console))?;
        }
        EventsFormat::Jsonl => {
            for stored in &events {
                console.json_line(&stored.event)?;
            }
        }
        EventsFormat::Html => console.data(&render::events::html(&events))?,
    }
    Ok(Exit::Clean)
}
