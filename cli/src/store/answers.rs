//! Answers of the last days: for each name and record type, chunks of runs. A chunk is written again as it grows, under
//! the time of its first answer, until it is full or a day old. The keeper of `watch` fills them; `--from-store` reads.

use std::collections::HashMap;

use policies::watch::{Run, Runs};
use policies::{DnsSample, Host, ObservationWindow, RecordType, Source};
use redb::{ReadableDatabase, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::{ANSWERS, Store, StoreError, from_json, json};

/// Runs of a chunk.
const FULL: usize = 64;
/// Longest time that a chunk spans, milliseconds.
const DAY_MS: i64 = 86_400_000;
/// Samples of a window that is made of what is stored, at most: a pool that rotates fills many chunks.
const WINDOW: u32 = 2000;

/// Some answers of one name and record type.
#[derive(Debug, Clone, PartialEq)]
pub struct Chunk {
    host: Host,
    record_type: RecordType,
    kept: Kept,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Kept {
    sources: Vec<Source>,
    runs: Vec<Run>,
}

/// Answers that grow: the chunk that each name is filling.
#[derive(Debug, Default)]
pub struct Growing {
    names: HashMap<(Host, RecordType), (Vec<Source>, Runs, bool)>,
}

impl Growing {
    /// Adds an answer.
    pub fn push(&mut self, host: &Host, record_type: RecordType, sources: &[Source], sample: &DnsSample) {
        let key = (host.clone(), record_type);
        let (known, runs, dirty) =
            self.names.entry(key).or_insert_with(|| (sources.to_vec(), Runs::default(), false));
        let old = runs.iter().next().is_some_and(|run| sample.at.as_millisecond() - run.from_ms > DAY_MS);
        if known != sources || runs.len() >= FULL || old {
            // What was not written yet of the last minutes is given up with the chunk; `take` comes often.
            *runs = Runs::default();
            known.clear();
            known.extend_from_slice(sources);
        }
        runs.push(sample);
        *dirty = true;
    }

    /// The chunk of a name, if it has grown since it was taken last.
    pub fn take(&mut self, host: &Host, record_type: RecordType) -> Option<Chunk> {
        let (sources, runs, dirty) = self.names.get_mut(&(host.clone(), record_type))?;
        if !std::mem::take(dirty) {
            return None;
        }
        let kept = Kept { sources: sources.clone(), runs: runs.iter().cloned().collect() };
        Some(Chunk { host: host.clone(), record_type, kept })
    }

    /// Whether the chunk of a name is to be written before it takes more.
    #[must_use]
    pub fn is_full(&self, host: &Host, record_type: RecordType) -> bool {
        self.names.get(&(host.clone(), record_type)).is_some_and(|(_, runs, _)| runs.len() >= FULL)
    }

    /// A name is not watched any more.
    pub fn forget(&mut self, host: &Host) {
        for record_type in RecordType::BOTH {
            self.names.remove(&(host.clone(), record_type));
        }
    }
}

impl Chunk {
    pub(super) fn write(&self, transaction: &WriteTransaction) -> Result<(), StoreError> {
        let Some(first) = self.kept.runs.first() else { return Ok(()) };
        let family = self.record_type.to_string();
        let key = (self.host.as_str(), family.as_str(), first.from_ms);
        transaction.open_table(ANSWERS)?.insert(key, json(&self.kept).as_slice())?;
        Ok(())
    }
}

/// Drops chunks whose first answer came before a time.
pub(super) fn prune(transaction: &WriteTransaction, before_ms: i64) -> Result<(), StoreError> {
    // The last day may still grow.
    transaction.open_table(ANSWERS)?.retain(|(_, _, from_ms), _| from_ms >= before_ms)?;
    Ok(())
}

impl Store {
    /// What is stored of the answers for one name, as a window for each record type.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn windows(&self, host: &Host) -> Result<Vec<ObservationWindow>, StoreError> {
        RecordType::BOTH
            .into_iter()
            .filter_map(|record_type| self.window(host, record_type).transpose())
            .collect()
    }

    fn window(&self, host: &Host, record_type: RecordType) -> Result<Option<ObservationWindow>, StoreError> {
        self.with(|database| {
            let table = database.begin_read()?.open_table(ANSWERS)?;
            let family = record_type.to_string();
            let (from, to) = ((host.as_str(), &*family, i64::MIN), (host.as_str(), &*family, i64::MAX));
            let (mut sources, mut runs): (Vec<Source>, Vec<Run>) = (Vec::new(), Vec::new());
            for row in table.range(from..to)? {
                let kept: Kept = from_json(row?.1.value()).map_err(StoreError::Foreign)?;
                let places: Vec<usize> = kept.sources.iter().map(|s| place(&mut sources, s)).collect();
                runs.extend(kept.runs.into_iter().filter_map(|run| {
                    let source = *places.get(run.source)?;
                    Some(Run { source, ..run })
                }));
            }
            Ok((!runs.is_empty()).then(|| Runs::of(runs).window(host, record_type, &sources, WINDOW)))
        })
    }

    /// The names with stored answers, after a name, in order.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn answered(&self, after: &str, limit: usize) -> Result<Vec<Host>, StoreError> {
        self.with(|database| {
            let table = database.begin_read()?.open_table(ANSWERS)?;
            let mut found: Vec<Host> = Vec::new();
            let mut last = after.to_owned();
            while found.len() < limit {
                let Some(row) = table.range((last.as_str(), "~", i64::MAX)..)?.next() else { break };
                let host = row?.0.value().0.to_owned();
                found.extend(Host::parse(&host));
                last = host;
            }
            Ok(found)
        })
    }
}

fn place(sources: &mut Vec<Source>, source: &Source) -> usize {
    sources.iter().position(|known| known == source).unwrap_or_else(|| {
        sources.push(source.clone());
        sources.len() - 1
    })
}
