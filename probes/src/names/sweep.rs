//! Many names at once. Hosts and [`Settings`] go in; for each of them the two windows (A and AAAA), what they show and
//! the remarks come out as they finish, and verdicts in between for a progress bar. The names share sockets, the pace
//! per server and the budget of queries; one that fails disturbs no other. Runs on a thread of its own: a name waits
//! most of its time, so that one thread serves them all. Called by the `classify` command.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ipnet::IpNet;
use jiff::Timestamp;
use policies::plan::{Limits, Plan, Window};
use policies::policy::Policy;
use policies::{Classification, Host, Observation, ObservationWindow, RecordType, Source, Vantage};
use tokio::sync::{mpsc, watch as signal};
use tokio::time::{Instant, sleep, timeout};

use crate::names::authority::{Authorities, Found};
use crate::names::budget::Budget;
use crate::names::diagnosis::Note;
use crate::names::sample::{Sampler, Sending};
use crate::names::window::{Bounds, Vantages, watch};

/// Milliseconds between two verdicts on the way, over all names.
const PROVISIONAL_MS: i64 = 200;
/// What a settled name takes of one server, A and AAAA together.
const QUERIES_A_NAME: u128 = 12;
/// Queries per second that a server without a pace is taken for.
const UNPACED: u32 = 30_000;
const FEWEST_AT_ONCE: usize = 8;
/// Each costs memory while it waits.
const MOST_AT_ONCE: usize = 20_000;
/// How long an ended name waits for others.
const TOGETHER: Duration = Duration::from_millis(10);
/// Of a quick window: what the search for servers may take, what is left for the name itself, and all of it.
const QUICK_SEARCH: f64 = 0.4;
const QUICK_LEFT: f64 = 0.7;
const QUICK_ALL: f64 = 1.15;
/// The end of a window that never ends.
const FAR: Duration = Duration::from_secs(86_400 * 365);
/// Results that wait for a slow reader: many names are done at once.
const WAITING: usize = 1024;

/// Whether the zone's own servers are asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authoritative {
    /// Those found by NS, where they can be reached.
    Auto,
    /// Caches only.
    Never,
    /// These, for every name, without a search.
    Servers(Vec<SocketAddr>),
}

/// How names are looked at.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The caches, each of which is asked by itself.
    pub resolvers: Vec<SocketAddr>,
    /// Whether the zones' own servers are asked too.
    pub authoritative: Authoritative,
    /// Where servers found by NS listen: 53, except in a lab.
    pub authority_port: u16,
    /// Client subnets, each asked for at every server; none asks without.
    pub ecs: Vec<IpNet>,
    /// Bounds for each name and record type.
    pub limits: Limits,
    /// Thresholds of the classifier.
    pub policy: Arc<Policy>,
    /// Timeout, pace per server and budget of queries.
    pub sending: Sending,
}

impl Settings {
    /// Names under way together: as many as the pace of one server lets finish within their windows.
    fn names_at_once(&self) -> usize {
        let rate = self.sending.rate.map_or(UNPACED, |rate| rate.per_second);
        let window_ms = self.limits.window.longest(&self.policy).as_millis();
        let names = u128::from(rate) * window_ms / 1000 / QUERIES_A_NAME;
        usize::try_from(names).unwrap_or(MOST_AT_ONCE).clamp(FEWEST_AT_ONCE, MOST_AT_ONCE)
    }
}

/// What was seen of a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Watched {
    /// Position in the hosts given.
    pub index: usize,
    /// The name.
    pub host: Host,
    /// Of A and of AAAA, with the same sources.
    pub windows: [ObservationWindow; 2],
    /// What they show.
    pub observations: [Observation; 2],
    /// What went otherwise than hoped.
    pub notes: Vec<Note>,
}

/// What a sweep tells.
#[derive(Debug, Clone)]
pub enum Event {
    /// How things stand with one name, a few times a second over all names.
    Provisional {
        /// Lookups of this name and type so far.
        queries: usize,
        /// The verdict so far.
        classification: Box<Classification>,
    },
    /// A name is done.
    Done(Box<Watched>),
}

/// A sweep under way. Dropping it ends the sweep.
pub struct Sweep {
    events: mpsc::Receiver<Event>,
    stop: signal::Sender<bool>,
}

impl Sweep {
    /// Starts to look at all `hosts`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(hosts: Vec<Host>, settings: Settings) -> std::io::Result<Self> {
        let (sender, events) = mpsc::channel(WAITING);
        let (stop, stopped) = signal::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let names = Names::new(settings, sender, stopped);
        std::thread::Builder::new()
            .name("sweep".into())
            .spawn(move || runtime.block_on(names.watch_all(hosts)))?;
        Ok(Self { events, stop })
    }

    /// The next event; `None` after the last name is done.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Ends all windows now. Every name is still delivered, with what was seen of it.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

/// What the names of a sweep share.
struct Names {
    settings: Settings,
    vantages: Vantages,
    events: mpsc::Sender<Event>,
    /// Of names that have ended, not sent yet.
    ended: Mutex<Vec<Event>>,
    stopped: signal::Receiver<bool>,
    /// When the last verdict on the way was told, milliseconds.
    told: AtomicI64,
}

impl Names {
    fn new(settings: Settings, events: mpsc::Sender<Event>, stopped: signal::Receiver<bool>) -> Arc<Self> {
        let sampler = Sampler::new(settings.sending.clone());
        let authorities =
            Authorities::new(sampler.clone(), settings.resolvers.clone(), settings.authority_port);
        let vantages = Vantages { sampler, authorities };
        Arc::new(Self {
            settings,
            vantages,
            events,
            ended: Mutex::default(),
            stopped,
            told: AtomicI64::new(i64::MIN),
        })
    }

    async fn watch_all(self: Arc<Self>, hosts: Vec<Host>) {
        let mut names = tokio::task::JoinSet::new();
        let at_once = self.settings.names_at_once();
        for (index, host) in hosts.into_iter().enumerate() {
            if names.len() >= at_once {
                names.join_next().await;
            }
            names.spawn(Arc::clone(&self).watch_one(index, host));
        }
        while names.join_next().await.is_some() {}
    }

    async fn watch_one(self: Arc<Self>, index: usize, host: Host) {
        // Whatever the zone answers, the name takes no more than its two windows may.
        let budget = Budget::new(self.settings.limits.max_queries.saturating_mul(2));
        let started = Instant::now();
        let (sources, mut notes) = tokio::select! {
            () = self.stop() => (self.sources(&[]), Vec::new()),
            found = Box::pin(self.turn(&host, &budget)) => found,
        };
        let bounds = Bounds { budget, until: self.until(started) };
        let plan = |record_type| {
            let Settings { policy, limits, .. } = &self.settings;
            let now = Timestamp::now();
            // Boxed, or the task would be moved about with room for both.
            Box::new(Plan::new(host.clone(), record_type, sources.clone(), Arc::clone(policy), *limits, now))
        };
        let [mut a, mut aaaa] = RecordType::BOTH.map(plan);
        let (mut a_ended, mut aaaa_ended) = (None, None);
        tokio::select! {
            biased;
            () = self.stop() => {}
            whole = async {
                tokio::join!(
                    self.watch(&mut a, &bounds, &mut a_ended),
                    self.watch(&mut aaaa, &bounds, &mut aaaa_ended),
                )
            } => if whole != (true, true) {
                notes.push(Note::Budget);
            }
        }
        let [(a, of_a), (aaaa, of_aaaa)] = [(a, a_ended), (aaaa, aaaa_ended)]
            .map(|(plan, at)| plan.finish(at.unwrap_or_else(Timestamp::now)));
        let (windows, observations) = ([a, aaaa], [of_a, of_aaaa]);
        notes.extend(Note::of_windows(&windows));
        if self.vantages.sampler.is_spent() && !notes.contains(&Note::Budget) {
            notes.push(Note::Budget);
        }
        let watched = Watched { index, host, windows, observations, notes };
        self.deliver(Event::Done(Box::new(watched))).await;
    }

    /// Sends what has ended. The first that ends waits for others: each change of threads costs more than a lookup.
    async fn deliver(&self, event: Event) {
        let ended = || self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = {
            let mut ended = ended();
            ended.push(event);
            ended.len()
        };
        if waiting == 1 {
            sleep(TOGETHER).await;
            let all = std::mem::take(&mut *ended());
            for event in all {
                let _ = self.events.send(event).await;
            }
        }
    }

    /// Carries a plan out and notes when it ended by itself.
    async fn watch(&self, plan: &mut Plan, bounds: &Bounds, ended: &mut Option<Timestamp>) -> bool {
        let whole = watch(&self.vantages, plan, bounds, |plan, now| self.tell(plan, now)).await;
        *ended = Some(Timestamp::now());
        whole
    }

    /// When a name is given up that started to be searched for at `started` and can be asked now: what was sent within
    /// the window may still be answered, except in a quick one, which ends.
    fn until(&self, started: Instant) -> Instant {
        let Settings { limits, policy, sending, .. } = &self.settings;
        let window = limits.window.longest(policy);
        let now = Instant::now();
        match limits.window {
            Window::Quick => (started + window.mul_f64(QUICK_ALL)).max(now + window.mul_f64(QUICK_LEFT)),
            // An answer that is cut off is asked for again over TCP.
            Window::Auto | Window::Decided | Window::Fixed(_) => {
                now.checked_add(window.saturating_add(sending.timeout * 3)).unwrap_or(now + FAR)
            }
        }
    }

    /// Finds whom to ask, and waits until the first of them has room: a window begins when its name can be asked.
    async fn turn(&self, host: &Host, budget: &Budget) -> (Vec<Source>, Vec<Note>) {
        let (sources, notes) = self.find(host, budget).await;
        if let Some(first) = sources.first() {
            self.vantages.sampler.turn(first.server).await;
        }
        (sources, notes)
    }

    async fn find(&self, host: &Host, budget: &Budget) -> (Vec<Source>, Vec<Note>) {
        match &self.settings.authoritative {
            Authoritative::Never => (self.sources(&[]), Vec::new()),
            Authoritative::Servers(servers) => {
                let named: Vec<_> = servers.iter().map(|server| (*server, None)).collect();
                (self.sources(&named), Vec::new())
            }
            Authoritative::Auto => {
                let Settings { limits, policy, .. } = &self.settings;
                let longest = limits.window.longest(policy);
                let limit =
                    if limits.window == Window::Quick { longest.mul_f64(QUICK_SEARCH) } else { longest };
                let search = self.vantages.authorities.find(host, budget);
                let late = |_| Found { servers: Vec::new(), notes: vec![Note::SlowSearch] };
                let Found { servers, notes } = timeout(limit, search).await.unwrap_or_else(late);
                let named: Vec<_> = servers.into_iter().map(|(server, name)| (server, Some(name))).collect();
                (self.sources(&named), notes)
            }
        }
    }

    /// The caches and then the authorities, each once for every client subnet.
    fn sources(&self, authorities: &[(SocketAddr, Option<String>)]) -> Vec<Source> {
        let caches = self.settings.resolvers.iter().map(|server| (*server, Vantage::Cache, None));
        let direct = authorities.iter().map(|(server, name)| (*server, Vantage::Authority, name.clone()));
        let servers: Vec<_> = caches.chain(direct).collect();
        let subnets: Vec<_> = match &*self.settings.ecs {
            [] => vec![None],
            subnets => subnets.iter().copied().map(Some).collect(),
        };
        let source = |(server, vantage, name): &(_, _, Option<String>), ecs| Source {
            server: *server,
            vantage: *vantage,
            ecs,
            name: name.clone(),
        };
        subnets.iter().flat_map(|ecs| servers.iter().map(|server| source(server, *ecs))).collect()
    }

    async fn stop(&self) {
        // A sweep that was dropped counts as stopped.
        let _ = self.stopped.clone().wait_for(|stopped| *stopped).await;
    }

    /// Tells the verdict so far, unless one was told a moment ago: it costs more than a lookup.
    fn tell(&self, plan: &Plan, now: Timestamp) {
        let (told, now_ms) = (self.told.load(Ordering::Relaxed), now.as_millisecond());
        if now_ms >= told.saturating_add(PROVISIONAL_MS) {
            self.told.store(now_ms, Ordering::Relaxed);
            let classification = Box::new(plan.classification(now));
            // A reader that is behind needs no more of these.
            let _ = self.events.try_send(Event::Provisional { queries: plan.queries(), classification });
        }
    }
}
