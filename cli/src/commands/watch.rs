//! `watch`: names are watched until the command is stopped; what happens is stored, printed, counted and told. One loop
//! owns everything: answers come in, batches go to the store, and only what is stored is printed and told.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use policies::watch::{Event, Pace, Watcher, What};
use policies::{Host, RecordType, Resolution, ResolutionClass};
use probes::names::resolvers::{RESOLV_CONF, System};
use probes::names::sample::{Rate, Sending};
use probes::names::sweep::Authoritative;
use probes::names::watching::{Settings, Step, Watching};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch as signal};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::args::{self, WatchArgs, WatchAskArgs};
use crate::commands::advise::policy;
use crate::console::Console;
use crate::exit::Exit;
use crate::report::Problem;
use crate::serve::{self, Ask, NameStatus, Shared};
use crate::store::answers::Growing;
use crate::store::read::ADDRESS;
use crate::store::{Batch, Store, StoreError, Stored};

mod metrics;
mod names;
mod notify;
mod replay;

use metrics::{Metrics, Now};
use names::{Names, Wanted};

/// Queries that one server gets at once before it is paced.
const BURST: u32 = 14;
/// What happened is written after this time at the latest, together with what else did.
const TOGETHER: Duration = Duration::from_millis(100);
/// How often the input is looked at again.
const REREAD: Duration = Duration::from_secs(5);
/// The state of each name is written once in this time, in seconds, even where nothing happened.
const ROUND_S: usize = 300;
/// How often old things are dropped.
const PRUNE: Duration = Duration::from_secs(3600);
/// Events that wait for a full disk; beyond that, states are kept and events are lost, which is said.
const MOST_PENDING: usize = 100_000;

/// Watches until it is stopped.
///
/// # Errors
/// The store is in use or cannot be written, the port is taken, or there is nothing to watch.
pub async fn run(args: &WatchArgs, console: &Console) -> anyhow::Result<Exit> {
    let policy = policy(args.ask.policy.as_deref())?;
    if let Some(windows) = &args.replay {
        return replay::run(windows, &policy, &pace(&args.ask), console);
    }
    let folder = args.store.as_deref().context("`--store` is missing")?;
    let store = Arc::new(Store::open(folder).map_err(|error| error.at(folder))?);
    let mut names = Names::new(args);
    let wanted = names.read();
    for problem in &wanted.problems {
        console.error(&problem.to_string());
        console.hint(&problem.hint);
    }
    if wanted.hosts.is_empty() {
        return Err(Problem::new("watch", "has no name to watch", "name hosts, a file or manifests").into());
    }
    let listener = TcpListener::bind(args.tell.listen).await.map_err(|error| {
        let hint = "another `watch` may listen there: give this one another port with `--listen`";
        Problem::new(args.tell.listen, format!("cannot be listened on: {error}"), hint)
    })?;
    let watching = Watching::new(settings(&args.ask, policy)?);
    let (asks, to_answer) = mpsc::channel(64);
    let (newest_sender, newest) = signal::channel(store.newest().map_err(|error| error.at(folder))?);
    let ready = Arc::new(AtomicBool::new(false));
    let shared = Shared {
        store: Arc::clone(&store),
        asks,
        newest: newest.clone(),
        ready: Arc::clone(&ready),
        allowed: Arc::new(args.tell.allow_host.clone()),
        streams: Shared::streams(),
    };
    let address = listener.local_addr()?;
    say_address(folder, address)?;
    console.note(&format!("{} names; http://{address}/", wanted.hosts.len()));
    let server = tokio::spawn(serve::serve(listener, shared));
    let metrics = Metrics::new(args.tell.metrics_max_hosts);
    let notifier = match &args.tell.webhook {
        Some(url) => {
            let webhook = notify::Webhook::new(url, args.tell.webhook_form, metrics.deliveries())?;
            Some(tokio::spawn(webhook.run(Arc::clone(&store), newest)))
        }
        None => None,
    };
    let mut keeper = Keeper {
        watching,
        store,
        metrics,
        newest: newest_sender,
        ready,
        growing: Growing::default(),
        batch: Batch::default(),
        writing: None,
        changed: HashSet::new(),
        round: VecDeque::new(),
        declared: HashMap::new(),
        lag: Duration::ZERO,
        full: false,
        console,
    };
    keeper.begin(wanted).map_err(|error| error.at(folder))?;
    let done = keeper.keep(&mut names, args, to_answer).await;
    server.abort();
    if let Some(notifier) = notifier {
        notifier.abort();
    }
    // A stale address would send readers nowhere.
    let _ = std::fs::remove_file(folder.join(ADDRESS));
    done
}

fn pace(args: &WatchAskArgs) -> Pace {
    Pace { every: args.every, longest: Pace::default().longest.max(args.every) }
}

fn settings(args: &WatchAskArgs, policy: policies::Policy) -> Result<Settings, Problem> {
    let resolvers = if args.resolver.is_empty() {
        let system = System::read(Path::new(RESOLV_CONF));
        system.map_err(|error| Problem::new(RESOLV_CONF, &error, error.hint()))?.servers
    } else {
        args.resolver.clone()
    };
    let authoritative = match args.authoritative {
        _ if !args.authority.is_empty() => Authoritative::Servers(args.authority.clone()),
        args::Authoritative::Auto => Authoritative::Auto,
        args::Authoritative::Never => Authoritative::Never,
    };
    Ok(Settings {
        resolvers,
        authoritative,
        authority_port: args.authority_port,
        ecs: args.ecs.clone(),
        policy: Arc::new(policy),
        sending: Sending { rate: Some(Rate { per_second: args.rate, burst: BURST }), ..Sending::default() },
        pace: pace(args),
    })
}

/// Where readers of the store find this process.
fn say_address(folder: &Path, mut address: SocketAddr) -> Result<(), Problem> {
    if address.ip().is_unspecified() {
        address.set_ip(args::LOOPBACK);
    }
    let file = folder.join(ADDRESS);
    std::fs::write(&file, format!("{address}\n")).map_err(|error| {
        let hint = "name a folder with `--store` that can be written and has room";
        Problem::new(file.display(), format!("cannot be written: {error}"), hint)
    })
}

type Written = (Batch, Result<Vec<Stored>, StoreError>);

/// The loop's state.
struct Keeper<'a> {
    watching: Watching,
    store: Arc<Store>,
    metrics: Metrics,
    newest: signal::Sender<u64>,
    ready: Arc<AtomicBool>,
    growing: Growing,
    /// What is to be written next.
    batch: Batch,
    /// What is being written.
    writing: Option<JoinHandle<Written>>,
    /// Names to whom something happened since their state was written.
    changed: HashSet<Host>,
    /// Whose state is written next, of all names.
    round: VecDeque<Host>,
    declared: HashMap<Host, Vec<Resolution>>,
    lag: Duration,
    /// The last write failed.
    full: bool,
    console: &'a Console,
}

impl Keeper<'_> {
    /// Takes up what the store remembers.
    fn begin(&mut self, wanted: Wanted) -> Result<(), StoreError> {
        let mut remembered: HashMap<Host, Vec<Watcher>> = self.store.watchers()?.into_iter().collect();
        for host in remembered.keys().filter(|host| !wanted.declared.contains_key(*host)) {
            self.batch.events.push(whole(host, What::EntryRemoved));
            self.batch.removed.push(host.clone());
        }
        for host in &wanted.hosts {
            self.add(host, remembered.remove(host));
        }
        self.declared = wanted.declared;
        Ok(())
    }

    fn add(&mut self, host: &Host, remembered: Option<Vec<Watcher>>) {
        if remembered.is_none() {
            self.batch.events.push(whole(host, What::EntryAdded));
        }
        self.batch.removed.retain(|gone| gone != host);
        self.watching.add(host, &remembered.unwrap_or_default());
        self.metrics.watch(std::iter::once(host));
        self.changed.insert(host.clone());
        self.round.push_back(host.clone());
    }

    /// Names come and go.
    fn reread(&mut self, wanted: Wanted) {
        for problem in &wanted.problems {
            self.console.warn(&problem.to_string());
        }
        let gone: Vec<Host> =
            self.declared.keys().filter(|host| !wanted.declared.contains_key(*host)).cloned().collect();
        for host in gone {
            self.watching.remove(&host);
            self.growing.forget(&host);
            self.changed.remove(&host);
            self.batch.events.push(whole(&host, What::EntryRemoved));
            self.batch.removed.push(host);
        }
        let new: Vec<Host> =
            wanted.hosts.iter().filter(|host| !self.declared.contains_key(*host)).cloned().collect();
        for host in &new {
            self.add(host, None);
        }
        self.declared = wanted.declared;
    }

    async fn keep(
        &mut self,
        names: &mut Names,
        args: &WatchArgs,
        mut asks: mpsc::Receiver<Ask>,
    ) -> anyhow::Result<Exit> {
        let mut interrupted = pin!(super::interrupted());
        let [mut soon, mut second, mut reread, mut prune] = [TOGETHER, Duration::from_secs(1), REREAD, PRUNE]
            .map(|every| {
                let mut ticks = interval(every);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                ticks
            });
        loop {
            tokio::select! {
                biased;
                () = &mut interrupted => break,
                written = async { match self.writing.as_mut() {
                    Some(writing) => writing.await,
                    None => std::future::pending().await,
                } } => {
                    self.writing = None;
                    self.written(written?)?;
                }
                _ = soon.tick() => if !self.full { self.write() },
                _ = second.tick() => { self.rounds(); self.write(); }
                _ = reread.tick() => if let Some(wanted) = names.changed() { self.reread(wanted) },
                _ = prune.tick() => self.prune(args),
                Some(ask) = asks.recv() => self.answer(ask),
                step = self.watching.step() => self.step(&step),
            }
        }
        self.end().await
    }

    fn step(&mut self, step: &Step) {
        self.lag = (self.lag * 15 + step.lag) / 16;
        self.metrics.lookup(&step.sample);
        let (host, record_type) = &step.key;
        let Some(watcher) = self.watching.get(&step.key) else { return };
        if self.growing.is_full(host, *record_type) {
            self.batch.chunks.extend(self.growing.take(host, *record_type));
        }
        self.growing.push(host, *record_type, watcher.sources(), &step.sample);
        if !step.events.is_empty() {
            self.batch.events.extend(step.events.iter().cloned());
            self.changed.insert(host.clone());
        }
    }

    /// Takes some names whose turn it is to be written.
    fn rounds(&mut self) {
        for _ in 0..self.round.len().div_ceil(ROUND_S) {
            let Some(host) = self.round.pop_front() else { break };
            if self.declared.contains_key(&host) {
                self.changed.insert(host.clone());
                self.round.push_back(host);
            }
        }
        if !self.ready.load(Ordering::Relaxed) && self.watching.iter().all(Watcher::first_round_done) {
            self.ready.store(true, Ordering::Relaxed);
        }
    }

    /// Hands a batch to the store, unless one is being written.
    fn write(&mut self) {
        if self.writing.is_some() || (self.batch.events.is_empty() && self.changed.is_empty()) {
            return;
        }
        let mut batch = std::mem::take(&mut self.batch);
        for host in self.changed.drain() {
            let of = |record_type| self.watching.get(&(host.clone(), record_type));
            let watchers: Vec<&Watcher> = RecordType::BOTH.into_iter().filter_map(of).collect();
            if watchers.is_empty() {
                continue;
            }
            batch.states.retain(|(known, _)| *known != host);
            batch.states.push((host.clone(), crate::store::json(&watchers)));
            for record_type in RecordType::BOTH {
                batch.chunks.extend(self.growing.take(&host, record_type));
            }
        }
        let store = Arc::clone(&self.store);
        self.writing = Some(tokio::task::spawn_blocking(move || {
            let stored = store.commit(&batch);
            (batch, stored)
        }));
    }

    /// What is stored is printed, counted and told; what could not be stored is kept for the next attempt.
    fn written(&mut self, (batch, stored): Written) -> anyhow::Result<()> {
        match stored {
            Ok(stored) => {
                if std::mem::take(&mut self.full) {
                    self.console.note("the store can be written again");
                }
                for Stored { event, .. } in &stored {
                    self.console.json_line(event)?;
                }
                for Stored { event, .. } in &stored {
                    self.metrics.event(event);
                    if event.what == What::EntryRemoved {
                        self.metrics.forget(&event.host);
                    }
                }
                if let Some(last) = stored.last() {
                    self.newest.send_replace(last.seq);
                }
            }
            Err(error) => {
                self.metrics.store_error();
                if !std::mem::replace(&mut self.full, true) {
                    let problem = error.at(self.store.folder());
                    self.console.error(&problem.to_string());
                    self.console.hint(&problem.hint);
                    self.console
                        .warn("measuring goes on; what happens is kept in memory until it can be stored");
                }
                self.keep_back(batch);
            }
        }
        Ok(())
    }

    fn keep_back(&mut self, mut batch: Batch) {
        std::mem::swap(&mut batch, &mut self.batch);
        // The older first.
        self.batch.events.append(&mut batch.events);
        self.batch.removed.append(&mut batch.removed);
        let lost = self.batch.events.len().saturating_sub(MOST_PENDING);
        if lost > 0 {
            self.batch.events.drain(..lost);
            self.console.warn(&format!("{lost} events are lost: too many wait for the store"));
        }
        // States are taken anew; of the answers, the newest will do.
        self.changed.extend(self.batch.states.drain(..).map(|(host, _)| host));
        self.batch.chunks.clear();
    }

    fn prune(&self, args: &WatchArgs) {
        let now = Timestamp::now();
        let before = |span: Duration| now.checked_sub(span).unwrap_or(Timestamp::MIN);
        let (events, answers) = (before(args.keep.keep_events), before(args.keep.keep_answers));
        let (store, largest) = (Arc::clone(&self.store), args.keep.max_store << 20);
        tokio::task::spawn_blocking(move || store.prune(events, answers, largest));
    }

    /// Answers the server. A reader that has gone away is no error.
    fn answer(&self, ask: Ask) {
        match ask {
            Ask::Names(reply) => {
                let _ = reply.send(self.names());
            }
            Ask::Name(host, reply) => {
                let windows = RecordType::BOTH.into_iter().filter_map(|record_type| {
                    let window = self.watching.get(&(host.clone(), record_type))?.window();
                    (!window.samples.is_empty()).then_some(window)
                });
                let _ = reply.send(self.name(&host).map(|name| (name, windows.collect())));
            }
            Ask::Metrics(reply) => {
                let now = Now {
                    store_bytes: self.store.size(),
                    pending: self.batch.events.len(),
                    lag_s: self.lag.as_secs_f64(),
                };
                let _ = reply.send(self.metrics.text(&self.names(), now));
            }
        }
    }

    fn names(&self) -> Vec<NameStatus> {
        let mut hosts: Vec<&Host> = self.declared.keys().collect();
        hosts.sort_unstable();
        hosts.into_iter().filter_map(|host| self.name(host)).collect()
    }

    fn name(&self, host: &Host) -> Option<NameStatus> {
        let of = |record_type| self.watching.get(&(host.clone(), record_type)).map(Watcher::standing);
        let families: Vec<_> = RecordType::BOTH.into_iter().filter_map(of).collect();
        let declared = self.declared.get(host)?;
        // The family that has addresses decides; where both have, IPv4 does, as in `recommend`.
        let class = families.iter().map(|standing| standing.class).find_map(wanted);
        let fits = class.filter(|_| !declared.is_empty()).map(|class| declared.iter().all(|d| *d == class));
        let declared = declared.iter().map(ToString::to_string).collect();
        Some(NameStatus { host: host.clone(), families, declared, fits })
    }

    /// Writes what there is, once more.
    async fn end(&mut self) -> anyhow::Result<Exit> {
        if let Some(writing) = self.writing.take() {
            self.written(writing.await?)?;
        }
        self.changed.extend(self.declared.keys().cloned());
        self.write();
        if let Some(writing) = self.writing.take() {
            self.written(writing.await?)?;
        }
        Ok(if self.full { Exit::CouldNot } else { Exit::Clean })
    }
}

/// The `resolution` that a class asks for.
fn wanted(class: ResolutionClass) -> Option<Resolution> {
    match class {
        ResolutionClass::SingleVip | ResolutionClass::FixedMultiIp => Some(Resolution::Dns),
        ResolutionClass::RotatingPool => Some(Resolution::DnsRoundRobin),
        ResolutionClass::Unresolvable | ResolutionClass::InsufficientData => None,
    }
}

/// An event of the name as a whole, now.
fn whole(host: &Host, what: What) -> Event {
    let now = Timestamp::now();
    Event::new(host.clone(), None, None, [now, now], what)
}
