//! The running drain: feeds events with the time into [`step`] and carries out the effects. One thread, so no locks:
//! the state is borrowed for a moment, and nothing is awaited, written or logged while it is. Shared by the
//! listeners; its three loops (poll, tick, persist) are started by `serve`.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;
use tokio::sync::{Notify, watch};

use crate::config::{DrainStatus, ServeArgs};
use crate::count::Reading;
use crate::drain::{Answer, Command, Drain, Effect, Event, Millis, Rules, Saved, Seen, State, step};
use crate::duration::millis;
use crate::envoy::{Envoy, ServerInfo};
use crate::log::{chain, log};
use crate::metrics::Metrics;
use crate::state_file::{self, StateFileError};

/// A command waits this long for its state file; a disk that hangs must not hold a termination.
const PERSIST_PATIENCE: Duration = Duration::from_secs(1);

/// How often time alone is looked at while a drain is under way.
const TICK: Duration = Duration::from_millis(100);

/// Everything one running sidecar holds.
pub(crate) struct Engine {
    pub(crate) args: ServeArgs,
    pub(crate) rules: Rules,
    pub(crate) envoy: Envoy,
    pub(crate) metrics: RefCell<Metrics>,
    pub(crate) info: RefCell<Option<ServerInfo>>,
    pub(crate) state: watch::Sender<State>,
    pub(crate) exit: Notify,
    /// The last failure to write the state file.
    pub(crate) persist_error: RefCell<Option<String>>,
    drain: RefCell<Drain>,
    clock: Clock,
    hurry: Notify,
    who: Notify,
    unsaved: Cell<u64>,
    save: Notify,
    saved: watch::Sender<u64>,
}

/// Wall time that does not jump: the clock is read once, monotonic time is added.
struct Clock {
    base: Millis,
    from: Instant,
}

impl Clock {
    fn start() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { base: millis(now), from: Instant::now() }
    }

    fn now(&self) -> Millis {
        self.base + millis(self.from.elapsed())
    }
}

impl Engine {
    /// Takes up the drain of the state file, or starts anew.
    pub(crate) fn new(args: ServeArgs) -> Rc<Self> {
        let clock = Clock::start();
        let drain = resume(&args, clock.now());
        let envoy = Envoy {
            admin: args.admin.clone(),
            data: args.data,
            counting: args.counting(),
            limit: args.stats_timeout,
            inbound_only: args.inbound_only,
        };
        Rc::new(Self {
            rules: args.rules(),
            envoy,
            metrics: RefCell::default(),
            info: RefCell::default(),
            state: watch::Sender::new(drain.state),
            exit: Notify::new(),
            persist_error: RefCell::default(),
            drain: RefCell::new(drain),
            clock,
            hurry: Notify::new(),
            who: Notify::new(),
            unsaved: Cell::new(0),
            save: Notify::new(),
            saved: watch::Sender::new(0),
            args,
        })
    }

    pub(crate) fn now(&self) -> Millis {
        self.clock.now()
    }

    pub(crate) fn drain(&self) -> Ref<'_, Drain> {
        self.drain.borrow()
    }

    pub(crate) fn drain_status(&self) -> DrainStatus {
        self.args.lb_drain_status
    }

    /// Whether the state file has everything.
    pub(crate) fn is_saved(&self) -> bool {
        *self.saved.borrow() >= self.unsaved.get()
    }

    /// One probe of a load balancer, answered.
    pub(crate) fn probe(self: &Rc<Self>, seen: Seen) -> Answer {
        self.apply(Event::Probe(seen));
        let answer = {
            let drain = self.drain();
            drain.lb_answer(&self.rules, drain.lb.newest())
        };
        self.metrics.borrow_mut().probed(answer);
        answer
    }

    /// A command from the control listener. Returns once the state file has it.
    ///
    /// # Errors
    /// The state that was found, when the command does not fit it.
    pub(crate) async fn command(
        self: &Rc<Self>,
        command: Command,
        reason: &'static str,
    ) -> Result<(), State> {
        let refused = self.apply(Event::Command(command, reason));
        if let Some(found) = refused {
            return Err(found);
        }
        let wanted = self.unsaved.get();
        let mut saved = self.saved.subscribe();
        let written = saved.wait_for(|&saved| saved >= wanted);
        if self.args.state_file.is_some() && tokio::time::timeout(PERSIST_PATIENCE, written).await.is_err() {
            log("error", "state_file_slow", json!({"hint": "a restart now would forget this transition"}));
        }
        Ok(())
    }

    /// Takes one event; returns the state that refused it, if one did.
    pub(crate) fn apply(self: &Rc<Self>, event: Event) -> Option<State> {
        let now = self.now();
        if let Event::Reading(reading) = &event {
            self.metrics.borrow_mut().read(reading);
        }
        let before = self.drain.replace(Drain::new(now));
        let (after, effects) = step(before, &self.rules, event, now);
        self.metrics.borrow_mut().after(&after);
        self.drain.replace(after);
        let mut refused = None;
        for effect in effects {
            refused = self.carry_out(effect, now).or(refused);
        }
        refused
    }

    fn carry_out(self: &Rc<Self>, effect: Effect, now: Millis) -> Option<State> {
        match effect {
            Effect::Refused(found) => return Some(found),
            Effect::Transition(transition) => {
                self.metrics.borrow_mut().changed(&transition, &self.drain());
                log("info", "transition", json!(transition));
                self.state.send_replace(transition.to);
                self.hurry.notify_one();
            }
            Effect::Persist => {
                self.unsaved.set(self.unsaved.get() + 1);
                self.save.notify_one();
            }
            Effect::DrainListeners => {
                let engine = Rc::clone(self);
                tokio::task::spawn_local(async move { engine.drain_listeners().await });
            }
            Effect::Note(what, detail) => {
                if what == "lb_acknowledged" {
                    self.metrics.borrow_mut().acknowledged(&detail, &self.drain(), now);
                }
                if what == "lb_not_acknowledged" {
                    self.metrics.borrow_mut().not_acknowledged(&detail);
                }
                log("info", what, json!({"detail": detail}));
            }
            Effect::Exit => self.exit.notify_one(),
        }
        None
    }

    async fn drain_listeners(self: Rc<Self>) {
        match self.envoy.drain_listeners().await {
            Ok(()) => {
                self.apply(Event::ListenersDrained);
            }
            Err(error) => {
                self.metrics.borrow_mut().trigger_failures += 1;
                log("warn", "drain_listeners_failed", json!({"error": chain(&error)}));
                // The next attempt comes with the next step, so it is the pause that bounds the rate.
                tokio::time::sleep(Duration::from_millis(500)).await;
                self.apply(Event::ListenersDrainFailed);
            }
        }
    }

    /// Polls Envoy for ever: slowly in service, fast when a drain is near zero.
    pub(crate) async fn poll(self: Rc<Self>) {
        loop {
            let began = Instant::now();
            self.read_now().await;
            let took = began.elapsed();
            tokio::select! {
                () = tokio::time::sleep(self.pause(took)) => {}
                () = self.hurry.notified() => {}
            }
        }
    }

    /// The nearer to zero, the sooner; but Envoy's main thread is never kept busier than one part in six.
    fn pause(&self, took: Duration) -> Duration {
        let (fast, slow) = (self.args.fast_poll, self.args.poll_interval);
        let drain = self.drain();
        let wanted = match (drain.state, &drain.reading) {
            (State::Draining, Some((active, _))) if drain.unknown.is_none() => {
                fast * u32::try_from(active.total().clamp(1, 1_000)).unwrap_or(1)
            }
            (State::Open, _) if drain.warm && drain.absent.is_none() => slow,
            (State::Closed, _) => slow,
            _ => fast * 5,
        };
        wanted.min(slow).max(took * 5)
    }

    /// Asks Envoy who it is: until it answers, then every 10 s and whenever it is back.
    pub(crate) async fn inquire(self: Rc<Self>) {
        loop {
            let info = self.envoy.server_info().await;
            let pause = if info.is_ok() { Duration::from_secs(10) } else { Duration::from_secs(1) };
            if let Ok(info) = info {
                self.apply(Event::EnvoyStarted(self.now().saturating_sub(info.uptime_s * 1000)));
                self.info.replace(Some(info));
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.who.notified() => {}
            }
        }
    }

    /// Lets time pass for the drain: only while one is under way or the process has been asked to end.
    pub(crate) async fn tick(self: Rc<Self>) {
        let mut state = self.state.subscribe();
        loop {
            let busy = |state: &State| {
                self.drain().sigterm.is_some() || matches!(state, State::Draining | State::Closing)
            };
            if state.wait_for(busy).await.is_err() {
                return;
            }
            tokio::time::sleep(TICK).await;
            self.apply(Event::Tick);
        }
    }

    /// Notes SIGTERM and has the time looked at from now on.
    pub(crate) fn sigterm(self: &Rc<Self>) {
        log("info", "sigterm", json!({"state": self.drain().state}));
        self.apply(Event::Sigterm);
        self.state.send_modify(|_| {});
    }

    /// Writes the state file whenever it is behind, off this thread: a slow disk does not delay a health answer.
    pub(crate) async fn persist(self: Rc<Self>) {
        loop {
            self.save.notified().await;
            let Some(path) = self.args.state_file.clone() else { continue };
            let number = self.unsaved.get();
            let saved = Saved { boot: state_file::boot(), ..Saved::from(&*self.drain()) };
            let result = tokio::task::spawn_blocking(move || state_file::write(&path, &saved)).await;
            let error = match result {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(chain(&error)),
                Err(error) => Some(error.to_string()),
            };
            if let Some(error) = &error {
                log("error", "state_file_not_written", json!({"error": error}));
            }
            self.persist_error.replace(error);
            self.saved.send_replace(number);
        }
    }
}

impl Engine {
    /// The newest reading, or why there is none.
    pub(crate) async fn read_now(self: &Rc<Self>) -> Reading {
        let (doubtful, before) = {
            let drain = self.drain();
            (drain.doubtful, drain.unknown)
        };
        let reading = self.envoy.poll(doubtful).await;
        self.apply(Event::Reading(reading.clone()));
        if before.is_some() && matches!(reading, Reading::Known(_)) {
            self.who.notify_one();
        }
        reading
    }

    /// Writes the state file now, and says whether that worked: a disk may have filled since the last change.
    pub(crate) async fn save_now(self: &Rc<Self>) -> Option<String> {
        self.unsaved.set(self.unsaved.get() + 1);
        self.save.notify_one();
        let wanted = self.unsaved.get();
        let mut saved = self.saved.subscribe();
        let written = saved.wait_for(|&saved| saved >= wanted);
        if tokio::time::timeout(PERSIST_PATIENCE, written).await.is_err() {
            return Some("it takes longer than a second".to_owned());
        }
        self.persist_error.borrow().clone()
    }
}

fn resume(args: &ServeArgs, now: Millis) -> Drain {
    let Some(path) = &args.state_file else { return Drain::new(now) };
    match state_file::read(path) {
        Ok(saved) if saved.boot.is_some() && saved.boot != state_file::boot() => {
            log("info", "state_file_from_before_the_boot", json!({"state": State::Open}));
            Drain::new(now)
        }
        Ok(saved) => {
            log("info", "resumed", json!({"state": saved.state, "since_ms": saved.since_ms}));
            Drain::resume(saved, now)
        }
        Err(StateFileError::Absent) => Drain::new(now),
        Err(error) => {
            log("error", "state_file_unreadable", json!({"error": chain(&error), "state": State::Open}));
            Drain::new(now)
        }
    }
}
