//! What moves a drain on by itself: readings of Envoy, the acknowledgements of load balancers, and time. Runs at the
//! end of every step, so a change is acted on by the event that brought it.

use super::{Drain, DrainMode, Effect, Millis, Order, Rules, State, Third};
use crate::count::Reading;

/// Refused connections in a row, after at least one success, that mean the Envoy process is gone.
const GONE_AFTER: u32 = 3;

/// Readings in a row, and for how long, that say that no Envoy serves here until the pod is out of service. A hot
/// restart is shorter; a load balancer needs longer to notice by itself.
const ABSENT_AFTER: (u32, Millis) = (3, 1_000);

/// How long a SIGTERM that finds OPEN waits for the hook of the same termination, which may come a moment later.
const SIGTERM_GRACE: Millis = 2_000;

/// The reading before the first one.
pub(super) const NOT_YET_READ: &str = "not_yet_read";

/// An agent check that has not come for this long is not there.
const AGENT_QUIET: Millis = 10_000;

/// An Envoy that started this much later than what the state file says is another Envoy.
const CLOCK_SLACK: Millis = 2_000;

impl Drain {
    pub(super) fn read(&mut self, reading: Reading, rules: &Rules, now: Millis, effects: &mut Vec<Effect>) {
        match reading {
            Reading::Known(active) => {
                // A drain that began out of service ends out of service.
                if !self.warm && self.state == State::Open {
                    self.warm = true;
                    effects.push(Effect::Note("envoy_contact", String::new()));
                    effects.push(Effect::Persist);
                }
                (self.absent, self.doubtful) = (None, false);
                let age = self.started.map_or(0, |started| now.saturating_sub(started));
                let zero = rules.waited_for(&active, age) <= rules.min_active;
                let counts = self.state == State::Draining && self.settled.is_some();
                self.zero_run = if zero && counts { self.zero_run + 1 } else { 0 };
                if let (Some(at_zero), State::Closing) = (self.total_at_zero, self.state) {
                    self.late_requests += active.requests_total.saturating_sub(at_zero);
                    self.total_at_zero = Some(active.requests_total);
                }
                (self.gone_run, self.unknown) = (0, None);
                self.reading = Some((active, now));
            }
            Reading::Unknown(why) => {
                if self.unknown != Some(why) {
                    effects.push(Effect::Note("stats_unknown", why.to_owned()));
                }
                (self.zero_run, self.unknown) = (0, Some(why));
                self.absent_for(why, now, effects);
                // It serves; only its numbers cannot be told apart.
                if why == Reading::LISTENER_LINK_MISSING && self.state == State::Open {
                    self.warm = true;
                }
                self.gone_run = if why == Reading::REFUSED { self.gone_run + 1 } else { 0 };
            }
        }
    }

    /// In service, an Envoy that is dead or has come back without its listeners takes the pod out. One that hangs does
    /// not: its requests would be cut by a load balancer that takes 503 for DOWN.
    fn absent_for(&mut self, why: &'static str, now: Millis, effects: &mut Vec<Effect>) {
        if !Reading::ABSENT.contains(&why) {
            self.absent = None;
            return;
        }
        let (since, run) = self.absent.map_or((now, 1), |(since, run)| (since, run.saturating_add(1)));
        self.absent = Some((since, run));
        self.doubtful = true;
        // What a state file says of an Envoy is not known of this one.
        let (wanted, long) = if self.resumed { (1, 0) } else { ABSENT_AFTER };
        if self.warm && self.state == State::Open && run >= wanted && now.saturating_sub(since) >= long {
            self.warm = false;
            effects.push(Effect::Note("envoy_lost", why.to_owned()));
            effects.push(Effect::Persist);
        }
    }

    /// A state file outlives the Envoy it speaks of when the whole pod is restarted in place: then the pod is new. So
    /// it is when the proxy's container is restarted after its hook has run, which leaves the sidecar in CLOSED.
    pub(super) fn envoy_started(&mut self, at: Millis, now: Millis, effects: &mut Vec<Effect>) {
        let before = self.envoy_started.replace(at);
        let another = before.is_some_and(|before| at > before.saturating_add(CLOCK_SLACK));
        if self.state == State::Closed
            && self.sigterm.is_none()
            && (another || at > self.since.saturating_add(CLOCK_SLACK))
        {
            (self.warm, self.doubtful, self.resumed) = (false, true, false);
            (self.listeners_drained, self.listeners_asked) = (None, None);
            return self.reopen("envoy_is_newer_than_the_drain", now, effects);
        }
        self.doubtful |= another;
        if self.listeners_drained.is_some_and(|drained| at > drained.saturating_add(CLOCK_SLACK)) {
            (self.listeners_drained, self.listeners_asked) = (None, None);
            effects.push(Effect::Persist);
        }
        if std::mem::take(&mut self.resumed)
            && self.state != State::Open
            && at > self.since.saturating_add(CLOCK_SLACK)
        {
            self.reopen("envoy_is_newer_than_the_drain", now, effects);
        }
    }

    pub(super) fn progress(&mut self, rules: &Rules, now: Millis, effects: &mut Vec<Effect>) {
        if self.resumed && self.gone_run >= GONE_AFTER && self.state != State::Open {
            (self.resumed, self.warm) = (false, false);
            self.doubtful = true;
            self.reopen("no_envoy_at_start", now, effects);
        }
        if self.state == State::Open {
            self.on_sigterm(rules, now, effects);
        }
        if self.state == State::Draining {
            self.drain_on(rules, now, effects);
        }
        if self.state == State::Closing {
            self.close_on(rules, now, effects);
        }
        if self.sigterm.is_some() && matches!(self.state, State::Closed | State::Fault) {
            effects.push(Effect::Exit);
        }
    }

    fn on_sigterm(&mut self, rules: &Rules, now: Millis, effects: &mut Vec<Effect>) {
        match self.sigterm {
            Some(_) if rules.drain_on_sigterm => self.begin("sigterm", now, effects),
            Some(at) if now >= at.saturating_add(SIGTERM_GRACE) => effects.push(Effect::Exit),
            _ => {}
        }
    }

    fn drain_on(&mut self, rules: &Rules, now: Millis, effects: &mut Vec<Effect>) {
        let Some(started) = self.started else { return };
        if !self.warm {
            return self.leave_unserved(rules, now, effects);
        }
        if rules.order == Order::FailFirst {
            return self.flip("fail_first_order", rules, now, effects);
        }
        if self.settled.is_none() {
            self.settle(started, rules, now, effects);
        }
        if self.settled.is_some() && self.listeners_asked.is_none() && rules.mode == DrainMode::Listeners {
            self.listeners_asked = Some(now);
            effects.push(Effect::DrainListeners);
        }
        if self.gone_run >= GONE_AFTER {
            return self.flip("envoy_gone", rules, now, effects);
        }
        // A load balancer that was restarted after its word may be sending again.
        let sends = self.nolb_acked.is_some() && self.lb.any_sends(now);
        if self.zero_run >= rules.zero_samples && !sends && now >= started.saturating_add(rules.min_drain) {
            return self.flip("zero", rules, now, effects);
        }
        if now >= started.saturating_add(rules.drain_timeout) {
            self.forced = true;
            self.flip("max_drain", rules, now, effects);
        }
    }

    /// A pod that was not in service has nothing to wait for: no load balancer has sent to it.
    fn leave_unserved(&mut self, rules: &Rules, now: Millis, effects: &mut Vec<Effect>) {
        let absent = self.unknown.is_some_and(|why| Reading::ABSENT.contains(&why) || why == NOT_YET_READ);
        self.flip("not_in_service", rules, now, effects);
        if absent && self.state == State::Closing {
            self.advance(State::Closed, "not_in_service", now, effects);
        }
    }

    /// "No new work" holds once every load balancer that probes has said so, or its time is up. The other orders
    /// never say it, so there is nothing to wait for.
    fn settle(&mut self, started: Millis, rules: &Rules, now: Millis, effects: &mut Vec<Effect>) {
        let agent = self.agent_asked.is_some_and(|asked| now <= asked.saturating_add(AGENT_QUIET));
        let unspoken = rules.order != Order::NoNewWork || !(self.lb.any_offer(rules, now) || agent);
        let acked = !unspoken && self.lb.all_drained(now);
        // Nobody probing at all: a load balancer with a long interval may still send, so its time is waited out.
        let silent =
            rules.order == Order::NoNewWork && rules.third != Third::Off && self.lb.silent(now) && !agent;
        let waited = now >= started.saturating_add(rules.lb_buffer);
        if acked {
            self.nolb_acked = Some(now);
            effects.push(Effect::Note("lb_acknowledged", "no_new_work".to_owned()));
        } else if !waited && (!unspoken || silent) {
            return;
        } else if waited && rules.order == Order::NoNewWork {
            effects.push(Effect::Note("lb_not_acknowledged", "no_new_work".to_owned()));
        }
        self.settled = Some(now);
        effects.push(Effect::Persist);
    }

    pub(super) fn flip(&mut self, reason: &str, rules: &Rules, now: Millis, effects: &mut Vec<Effect>) {
        self.flipped = Some(now);
        let fresh = self.reading.as_ref().filter(|_| self.unknown.is_none());
        self.remaining = fresh.map(|(active, _)| active.total());
        self.total_at_zero = fresh.map(|(active, _)| active.requests_total);
        self.advance(State::Closing, reason, now, effects);
        self.close_on(rules, now, effects);
    }

    fn close_on(&mut self, rules: &Rules, now: Millis, effects: &mut Vec<Effect>) {
        let Some(flipped) = self.flipped else { return };
        if self.lb.all_down(now) {
            self.down_acked = Some(now);
            effects.push(Effect::Note("lb_acknowledged", "down".to_owned()));
            self.advance(State::Closed, "lb_acknowledged", now, effects);
        } else if now >= flipped.saturating_add(rules.lb_buffer) {
            effects.push(Effect::Note("lb_not_acknowledged", "down".to_owned()));
            self.advance(State::Closed, "lb_buffer", now, effects);
        }
    }
}
