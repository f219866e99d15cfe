//! Names for ever, in real time: watchers come in and go, each is asked when it is due, and what happened comes out.
//! The caller owns the loop: [`Watching::step`] waits for the next answer. The names share sockets, the pace per server
//! and a bound on the lookups under way. Called by the `watch` command.
//!
//! Waiting goes by the monotonic clock: a wall clock that jumps asks nothing twice and leaves nothing out. Events carry
//! the wall clock's time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use policies::watch::{Event, Pace, Watcher};
use policies::{DnsSample, Host, Policy, RecordType, Source, Vantage};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::names::authority::Authorities;
use crate::names::budget::Budget;
use crate::names::sample::{Sampler, Sending};
use crate::names::sweep::Authoritative;
use crate::names::window::Vantages;

/// Queries at most for one lookup with the aliases that it follows, and for one search: the zone chooses both.
const OF_A_LOOKUP: usize = 40;
const OF_A_SEARCH: usize = 200;

/// Lookups under way at once.
const AT_ONCE: usize = 1024;
/// Searches for the servers of a zone under way at once.
const SEARCHES: usize = 32;
/// The servers of a zone are looked for again after this time.
const SEARCH_AGAIN: Duration = Duration::from_secs(3600);
/// A wall clock that differs by more than this was set.
const JUMPED: SignedDuration = SignedDuration::from_millis(1500);

/// How names are asked.
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
    /// Thresholds of the classifier.
    pub policy: Arc<Policy>,
    /// Timeout and pace per server.
    pub sending: Sending,
    /// How often each name is asked.
    pub pace: Pace,
}

/// A name and record type.
pub type Key = (Host, RecordType);

/// What an answer brought.
#[derive(Debug, Clone)]
pub struct Step {
    /// Of which name.
    pub key: Key,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// The answer.
    pub sample: DnsSample,
    /// How late the lookup was sent, after it was due.
    pub lag: Duration,
}

/// Names under watch.
pub struct Watching {
    settings: Settings,
    vantages: Arc<Vantages>,
    clock: Clock,
    names: HashMap<Key, Slot>,
    /// When to look at a name again, milliseconds, and the slot's turn: of a name that was removed, an entry may be left.
    due: BinaryHeap<Reverse<(i64, u64, Key)>>,
    /// Breaks ties in the order of insertion.
    turn: u64,
    under_way: usize,
    answers: (mpsc::UnboundedSender<Answered>, mpsc::UnboundedReceiver<Answered>),
    searches: JoinSet<(Host, Vec<(SocketAddr, String)>)>,
    to_search: BinaryHeap<Reverse<(i64, Host)>>,
}

struct Slot {
    watcher: Watcher,
    /// Of the entry that waits for it; 0 while a lookup is under way.
    turn: u64,
}

struct Answered {
    key: Key,
    source: Source,
    sample: DnsSample,
    lag: Duration,
}

/// A clock that only goes forward, and how the wall clock relates to it.
#[derive(Debug, Clone, Copy)]
struct Clock {
    started: Instant,
    wall: Timestamp,
}

impl Clock {
    fn now(&self) -> Timestamp {
        self.wall.checked_add(self.started.elapsed()).unwrap_or(Timestamp::MAX)
    }

    /// The event with the wall clock's time.
    fn on_the_wall(&self, event: Event) -> Event {
        let off = Timestamp::now().duration_since(self.now());
        if off.abs() < JUMPED {
            return event;
        }
        let moved = |at: Timestamp| at.checked_add(off).unwrap_or(at);
        let times = [moved(event.since), moved(event.at)];
        Event::new(event.host, event.record_type, event.source, times, event.what)
    }
}

impl Watching {
    /// Watches nothing yet. Needs a tokio runtime.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let sampler = Sampler::new(settings.sending.clone());
        let authorities =
            Authorities::new(sampler.clone(), settings.resolvers.clone(), settings.authority_port);
        Self {
            vantages: Arc::new(Vantages { sampler, authorities }),
            clock: Clock { started: Instant::now(), wall: Timestamp::now() },
            names: HashMap::new(),
            due: BinaryHeap::new(),
            turn: 0,
            under_way: 0,
            answers: mpsc::unbounded_channel(),
            searches: JoinSet::new(),
            to_search: BinaryHeap::new(),
            settings,
        }
    }

    /// Watches a name from now on, A and AAAA; with what a store remembers of it.
    pub fn add(&mut self, host: &Host, remembered: &[Watcher]) {
        let now = self.clock.now();
        let sources = match &self.settings.authoritative {
            Authoritative::Servers(servers) => {
                let named: Vec<_> = servers.iter().map(|server| (*server, None)).collect();
                self.sources(&named)
            }
            _ => self.sources(&[]),
        };
        for record_type in RecordType::BOTH {
            let known = remembered.iter().find(|w| w.record_type() == record_type);
            let mut watcher = known
                .cloned()
                .unwrap_or_else(|| Watcher::new(host.clone(), record_type, sources.clone(), now));
            let found = watcher.sources().iter().any(|s| s.vantage == Vantage::Authority);
            if !(found && self.settings.authoritative == Authoritative::Auto) {
                watcher.set_sources(sources.clone());
            }
            let key = (host.clone(), record_type);
            self.names.insert(key.clone(), Slot { watcher, turn: 0 });
            self.schedule(key);
        }
        if self.settings.authoritative == Authoritative::Auto {
            self.to_search.push(Reverse((now.as_millisecond(), host.clone())));
        }
    }

    /// Watches a name no more.
    pub fn remove(&mut self, host: &Host) {
        for record_type in RecordType::BOTH {
            self.names.remove(&(host.clone(), record_type));
        }
    }

    /// A watcher.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Watcher> {
        self.names.get(key).map(|slot| &slot.watcher)
    }

    /// All watchers, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Watcher> {
        self.names.values().map(|slot| &slot.watcher)
    }

    /// How many names and record types.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Nothing is watched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Waits for the next answer. Dropping the future loses nothing.
    pub async fn step(&mut self) -> Step {
        loop {
            self.search();
            let next = self.ask_due();
            let wait = next.map_or(Duration::from_secs(1), |ms| {
                let left = ms.saturating_sub(self.clock.now().as_millisecond());
                Duration::from_millis(u64::try_from(left).unwrap_or_default().clamp(1, 1000))
            });
            tokio::select! {
                answered = self.answers.1.recv() => {
                    if let Some(answered) = answered
                        && let Some(step) = self.answered(answered)
                    {
                        return step;
                    }
                }
                Some(found) = self.searches.join_next(), if !self.searches.is_empty() => {
                    if let Ok((host, servers)) = found {
                        self.found(&host, &servers);
                    }
                }
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Sends what is due; when the next is, milliseconds.
    fn ask_due(&mut self) -> Option<i64> {
        let now = self.clock.now();
        while self.under_way < AT_ONCE {
            let Reverse((due, ..)) = self.due.peek()?;
            if *due > now.as_millisecond() {
                return Some(*due);
            }
            let Reverse((due, turn, key)) = self.due.pop()?;
            let Some(slot) = self.names.get_mut(&key).filter(|slot| slot.turn == turn) else { continue };
            let Some((index, at)) = slot.watcher.next(&self.settings.pace, now) else { continue };
            if at > now {
                self.schedule(key);
                continue;
            }
            slot.turn = 0;
            let watcher = &slot.watcher;
            let source = watcher.sources()[index].clone();
            let late = u64::try_from(now.as_millisecond() - due).unwrap_or_default();
            self.ask(key, index, source, Duration::from_millis(late));
        }
        // Full: an answer comes first.
        None
    }

    fn ask(&mut self, key: Key, index: usize, source: Source, lag: Duration) {
        self.under_way += 1;
        let (vantages, answers, clock) = (Arc::clone(&self.vantages), self.answers.0.clone(), self.clock);
        tokio::spawn(async move {
            let mut sample = vantages.sample(&key.0, key.1, index, &source, &Budget::new(OF_A_LOOKUP)).await;
            let took = sample.rtt;
            sample.at = clock.now().checked_sub(took).unwrap_or(sample.at);
            // Only a caller that is gone does not listen.
            let _ = answers.send(Answered { key, source, sample, lag });
        });
    }

    fn answered(&mut self, Answered { key, source, mut sample, lag }: Answered) -> Option<Step> {
        self.under_way -= 1;
        let (policy, pace) = (Arc::clone(&self.settings.policy), self.settings.pace);
        let slot = self.names.get_mut(&key)?;
        let index = slot.watcher.sources().iter().position(|s| *s == source);
        let events = match index {
            Some(index) => {
                sample.source = index;
                slot.watcher.record(&sample, &policy, &pace)
            }
            None => Vec::new(),
        };
        if slot.turn == 0 {
            self.schedule(key.clone());
        }
        index?;
        let events = events.into_iter().map(|event| self.clock.on_the_wall(event)).collect();
        Some(Step { key, events, sample, lag })
    }

    fn schedule(&mut self, key: Key) {
        let now = self.clock.now();
        let Some(slot) = self.names.get_mut(&key) else { return };
        let Some((_, at)) = slot.watcher.next(&self.settings.pace, now) else { return };
        self.turn += 1;
        slot.turn = self.turn;
        self.due.push(Reverse((at.as_millisecond(), self.turn, key)));
    }

    /// Starts the searches that are due.
    fn search(&mut self) {
        let now = self.clock.now().as_millisecond();
        while self.searches.len() < SEARCHES {
            match self.to_search.peek() {
                Some(Reverse((due, _))) if *due <= now => {}
                _ => return,
            }
            let Some(Reverse((_, host))) = self.to_search.pop() else { return };
            if !self.names.contains_key(&(host.clone(), RecordType::A)) {
                continue;
            }
            let vantages = Arc::clone(&self.vantages);
            self.searches.spawn(async move {
                let found = vantages.authorities.find(&host, &Budget::new(OF_A_SEARCH)).await;
                (host, found.servers)
            });
        }
    }

    fn found(&mut self, host: &Host, servers: &[(SocketAddr, String)]) {
        let again = i64::try_from(SEARCH_AGAIN.as_millis()).unwrap_or(i64::MAX);
        self.to_search.push(Reverse((self.clock.now().as_millisecond() + again, host.clone())));
        let named: Vec<_> = servers.iter().map(|(server, name)| (*server, Some(name.clone()))).collect();
        let sources = self.sources(&named);
        if servers.is_empty() {
            // Not found this time: those that were found before still speak for the zone.
            return;
        }
        for record_type in RecordType::BOTH {
            if let Some(slot) = self.names.get_mut(&(host.clone(), record_type)) {
                slot.watcher.set_sources(sources.clone());
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
}
