//! The store of `watch`, the only place that names redb: the state of each name, events by time and by name, answers
//! of the last days, and how far each webhook is. State and events of one commit are one transaction. One process at a
//! time may open the file; the others read through the running `watch` ([`read`]).

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use policies::Host;
use policies::watch::{Event, Watcher};
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition,
    WriteTransaction,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::report::Problem;

pub mod answers;
pub mod read;

/// Version of what is in the file; a newer one is refused.
const SCHEMA: u64 = 1;
/// The file in the store's folder.
const FILE: &str = "watch.redb";
/// What redb may hold of it in memory, bytes.
const CACHE: usize = 16 << 20;

const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// Host: its watchers.
const NAMES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("names");
/// Sequence number: event.
const EVENTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("events");
/// Time and id: sequence number.
const BY_TIME: TableDefinition<'_, (i64, &str), u64> = TableDefinition::new("events_by_time");
/// Host, time and id: sequence number.
const BY_HOST: TableDefinition<'_, (&str, i64, &str), u64> = TableDefinition::new("events_by_host");
/// Host, record type and time of the first answer: a chunk of answers.
const ANSWERS: TableDefinition<'_, (&str, &str, i64), &[u8]> = TableDefinition::new("answers");

/// Why the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the file open.
    #[error("is in use by another process")]
    InUse,
    /// A newer release wrote it.
    #[error("was written by a newer release (schema {0})")]
    Newer(u64),
    /// Something in it cannot be read.
    #[error("holds something that is not its own: {0}")]
    Foreign(serde_json::Error),
    /// The folder cannot be made.
    #[error("cannot be made: {0}")]
    Folder(std::io::Error),
    /// The disk is full, or the file is damaged.
    #[error("{0}")]
    Database(Box<redb::Error>),
}

impl StoreError {
    /// What would help.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::InUse => "stop the other `egress-audit watch`, or give this one another `--store`",
            Self::Newer(_) => "use that release, or another folder",
            Self::Foreign(_) => "name a folder that `egress-audit watch --store` wrote",
            Self::Folder(_) => "name a folder with `--store` that can be written",
            Self::Database(_) => "make room on the disk; if the file is damaged, move it away",
        }
    }

    /// As a problem of the folder.
    #[must_use]
    pub fn at(&self, folder: &Path) -> Problem {
        Problem::new(folder.display(), self, self.hint())
    }
}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> Self {
        match error.into() {
            redb::Error::DatabaseAlreadyOpen => Self::InUse,
            other => Self::Database(Box::new(other)),
        }
    }
}

/// An event and its place in the order in which events were stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// Grows with each event.
    pub seq: u64,
    /// The event.
    pub event: Event,
}

/// Which events to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Not before this time.
    pub since: Option<Timestamp>,
    /// Of this name only.
    pub host: Option<Host>,
    /// Of these kinds only; empty: all.
    pub kinds: Vec<String>,
    /// At most this many, the newest ones.
    pub limit: usize,
}

/// What one commit writes.
#[derive(Debug, Default)]
pub struct Batch {
    /// What happened.
    pub events: Vec<Event>,
    /// The state of names, as (host, JSON of its watchers).
    pub states: Vec<(Host, Vec<u8>)>,
    /// Names that are not watched any more.
    pub removed: Vec<Host>,
    /// Answers.
    pub chunks: Vec<answers::Chunk>,
}

impl Batch {
    /// Nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.states.is_empty() && self.removed.is_empty() && self.chunks.is_empty()
    }
}

/// An open store. An error of the disk closes the file; the next use opens it again.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    database: Mutex<Option<Database>>,
}

impl Store {
    /// Opens the store of a folder, which is made where it is missing.
    ///
    /// # Errors
    /// It is in use, newer than this release, or cannot be written.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(folder).map_err(StoreError::Folder)?;
        let store = Self { folder: folder.to_owned(), database: Mutex::new(None) };
        store.with(|_| Ok(()))?;
        Ok(store)
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes of the file.
    #[must_use]
    pub fn size(&self) -> u64 {
        std::fs::metadata(self.folder.join(FILE)).map_or(0, |found| found.len())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Database>> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut database = self.lock();
        let open = match &mut *database {
            Some(open) => open,
            closed => closed.insert(open(&self.folder.join(FILE))?),
        };
        let done = work(open);
        if let Err(StoreError::Database(_)) = done {
            // After an error of the disk, redb asks for the file to be opened anew.
            *database = None;
        }
        done
    }

    /// Writes a batch; the events that were not stored before go out, in order. Nothing is written on an error.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn commit(&self, batch: &Batch) -> Result<Vec<Stored>, StoreError> {
        self.with(|database| {
            let transaction = database.begin_write()?;
            let stored = write(&transaction, batch)?;
            transaction.commit()?;
            Ok(stored)
        })
    }

    /// The watchers of all names.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn watchers(&self) -> Result<Vec<(Host, Vec<Watcher>)>, StoreError> {
        self.with(|database| {
            let table = database.begin_read()?.open_table(NAMES)?;
            let mut all = Vec::new();
            for row in table.iter()? {
                let (host, state) = row?;
                // The state of an earlier release that this one cannot read is learnt anew.
                if let (Ok(host), Ok(watchers)) = (Host::parse(host.value()), from_json(state.value())) {
                    all.push((host, watchers));
                }
            }
            Ok(all)
        })
    }

    /// Events, the oldest first.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn events(&self, filter: &Filter) -> Result<Vec<Stored>, StoreError> {
        self.with(|database| {
            let transaction = database.begin_read()?;
            let events = transaction.open_table(EVENTS)?;
            let since = filter.since.map_or(i64::MIN, Timestamp::as_millisecond);
            let mut found = Vec::new();
            let mut take = |seq: u64| -> Result<bool, StoreError> {
                if let Some(row) = events.get(seq)? {
                    let event: Event = from_json(row.value()).map_err(StoreError::Foreign)?;
                    if filter.kinds.is_empty() || filter.kinds.iter().any(|kind| kind == event.what.kind()) {
                        found.push(Stored { seq, event });
                    }
                }
                Ok(found.len() < filter.limit)
            };
            if let Some(host) = &filter.host {
                let index = transaction.open_table(BY_HOST)?;
                let (from, to) = ((host.as_str(), since, ""), (host.as_str(), i64::MAX, "~"));
                for row in index.range(from..to)?.rev() {
                    if !take(row?.1.value())? {
                        break;
                    }
                }
            } else {
                let index = transaction.open_table(BY_TIME)?;
                for row in index.range((since, "")..)?.rev() {
                    if !take(row?.1.value())? {
                        break;
                    }
                }
            }
            found.reverse();
            Ok(found)
        })
    }

    /// Events after a sequence number, in the order in which they were stored.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn after(&self, seq: u64, limit: usize) -> Result<Vec<Stored>, StoreError> {
        self.with(|database| {
            let events = database.begin_read()?.open_table(EVENTS)?;
            let mut found = Vec::new();
            for row in events.range(seq.saturating_add(1)..)?.take(limit) {
                let (seq, event) = row?;
                let event = from_json(event.value()).map_err(StoreError::Foreign)?;
                found.push(Stored { seq: seq.value(), event });
            }
            Ok(found)
        })
    }

    /// A number that was kept under a name, such as how far a webhook is.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn mark(&self, name: &str) -> Result<Option<u64>, StoreError> {
        self.with(|database| Ok(database.begin_read()?.open_table(META)?.get(name)?.map(|row| row.value())))
    }

    /// Keeps a number under a name.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn set_mark(&self, name: &str, value: u64) -> Result<(), StoreError> {
        self.with(|database| {
            let transaction = database.begin_write()?;
            transaction.open_table(META)?.insert(name, value)?;
            transaction.commit()?;
            Ok(())
        })
    }

    /// The sequence number of the newest event; 0 without any.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn newest(&self) -> Result<u64, StoreError> {
        self.with(|database| {
            let events = database.begin_read()?.open_table(EVENTS)?;
            Ok(events.last()?.map_or(0, |(seq, _)| seq.value()))
        })
    }

    /// Drops events from before `events`, and answers from before `answers`, or as many of the oldest as it takes to
    /// bring what is stored below `largest` bytes.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn prune(&self, events: Timestamp, answers: Timestamp, largest: u64) -> Result<(), StoreError> {
        self.with(|database| {
            let transaction = database.begin_write()?;
            prune_events(&transaction, events.as_millisecond())?;
            let mut before = answers.as_millisecond();
            let now = Timestamp::now().as_millisecond();
            answers::prune(&transaction, before)?;
            // Each time half of the time that is left.
            for _ in 0..8 {
                let stored = transaction.open_table(ANSWERS)?.stats()?.stored_bytes()
                    + transaction.open_table(EVENTS)?.stats()?.stored_bytes()
                    + transaction.open_table(NAMES)?.stats()?.stored_bytes();
                if stored <= largest {
                    break;
                }
                before = before.midpoint(now);
                answers::prune(&transaction, before)?;
            }
            transaction.commit()?;
            Ok(())
        })
    }
}

fn write(transaction: &WriteTransaction, batch: &Batch) -> Result<Vec<Stored>, StoreError> {
    let mut stored = Vec::new();
    {
        let mut events = transaction.open_table(EVENTS)?;
        let (mut by_time, mut by_host) = (transaction.open_table(BY_TIME)?, transaction.open_table(BY_HOST)?);
        let mut seq = events.last()?.map_or(0, |(seq, _)| seq.value());
        for event in &batch.events {
            let (at, id) = (event.at.as_millisecond(), event.id.as_str());
            if by_time.get((at, id))?.is_some() {
                continue;
            }
            seq += 1;
            by_time.insert((at, id), seq)?;
            by_host.insert((event.host.as_str(), at, id), seq)?;
            events.insert(seq, json(event).as_slice())?;
            stored.push(Stored { seq, event: event.clone() });
        }
        let mut names = transaction.open_table(NAMES)?;
        for (host, state) in &batch.states {
            names.insert(host.as_str(), state.as_slice())?;
        }
        for host in &batch.removed {
            names.remove(host.as_str())?;
        }
    }
    for chunk in &batch.chunks {
        chunk.write(transaction)?;
    }
    Ok(stored)
}

fn prune_events(transaction: &WriteTransaction, before: i64) -> Result<(), StoreError> {
    let mut old = Vec::new();
    {
        let by_time = transaction.open_table(BY_TIME)?;
        // The newest stays: sequence numbers go on from it.
        let newest = transaction.open_table(EVENTS)?.last()?.map_or(0, |(seq, _)| seq.value());
        for row in by_time.range(..(before, ""))? {
            let (key, seq) = row?;
            if seq.value() != newest {
                old.push((key.value().0, key.value().1.to_owned(), seq.value()));
            }
        }
    }
    let (mut by_time, mut by_host, mut events) =
        (transaction.open_table(BY_TIME)?, transaction.open_table(BY_HOST)?, transaction.open_table(EVENTS)?);
    for (at, id, seq) in old {
        if let Some(row) = events.remove(seq)?
            && let Ok(event) = from_json::<Event>(row.value())
        {
            by_host.remove((event.host.as_str(), at, id.as_str()))?;
        }
        by_time.remove((at, id.as_str()))?;
    }
    Ok(())
}

fn open(file: &Path) -> Result<Database, StoreError> {
    let database = match Database::builder().set_cache_size(CACHE).create(file) {
        Err(DatabaseError::DatabaseAlreadyOpen) => return Err(StoreError::InUse),
        other => other?,
    };
    let transaction = database.begin_write()?;
    {
        let mut meta = transaction.open_table(META)?;
        let found = meta.get("schema")?.map(|row| row.value());
        match found {
            Some(schema) if schema > SCHEMA => return Err(StoreError::Newer(schema)),
            _ => meta.insert("schema", SCHEMA)?,
        };
        transaction.open_table(NAMES)?;
        transaction.open_table(EVENTS)?;
        transaction.open_table(BY_TIME)?;
        transaction.open_table(BY_HOST)?;
        transaction.open_table(ANSWERS)?;
    }
    transaction.commit()?;
    Ok(database)
}

/// What is kept serialises: strings, numbers and lists of them.
pub(crate) fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(bytes)
}
