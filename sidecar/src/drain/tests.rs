//! The machine played through by hand: each test is a story told in events and times, with no socket.

use std::net::{IpAddr, Ipv4Addr};

use super::*;

fn rules(order: Order, third: Third) -> Rules {
    Rules {
        order,
        third,
        mode: DrainMode::Listeners,
        drain_timeout: 60_000,
        lb_buffer: 10_000,
        min_drain: 0,
        zero_samples: 3,
        min_active: 0,
        websockets: WebSockets::Wait,
        drain_on_sigterm: false,
    }
}

/// A drain with its rules and a clock that only the story moves.
struct Story {
    drain: Drain,
    rules: Rules,
    now: Millis,
    effects: Vec<Effect>,
}

impl Story {
    fn new(order: Order, third: Third) -> Self {
        let mut story =
            Self { drain: Drain::new(0), rules: rules(order, third), now: 0, effects: Vec::new() };
        story.active(1);
        story
    }

    fn on(&mut self, event: Event) -> &mut Self {
        let (drain, effects) = step(self.drain.clone(), &self.rules, event, self.now);
        self.drain = drain;
        self.effects = effects;
        self
    }

    fn after(&mut self, millis: Millis) -> &mut Self {
        self.now += millis;
        self.on(Event::Tick)
    }

    fn active(&mut self, http: u64) -> &mut Self {
        self.on(Event::Reading(Reading::Known(Active { http, requests_total: 100, ..Active::default() })))
    }

    fn zeros(&mut self, count: u32) -> &mut Self {
        for _ in 0..count {
            self.now += 40;
            self.active(0);
        }
        self
    }

    fn command(&mut self, command: Command) -> &mut Self {
        self.on(Event::Command(command, "test"))
    }

    /// A probe by the load balancer on node `node`, and the answer it gets.
    fn probe(&mut self, node: &str, state: &str) -> Answer {
        let header = format!("{state}; name=igw/a; node={node}; weight=1/1; scur=1/2; qcur=0");
        self.probe_with(Some(header))
    }

    fn probe_with(&mut self, header: Option<String>) -> Answer {
        self.on(Event::Probe(Seen { ip: IpAddr::V4(Ipv4Addr::LOCALHOST), header }));
        self.drain.lb_answer(&self.rules, self.drain.lb.newest())
    }

    fn refused(&self) -> Option<State> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::Refused(found) => Some(*found),
            _ => None,
        })
    }
}

#[test]
fn the_third_answer_is_acknowledged_before_zero_counts_and_down_before_closed() {
    let mut story = Story::new(Order::NoNewWork, Third::SelfChecked);
    assert_eq!(story.probe("lb1", "UP"), Answer::Ok);
    story.command(Command::Drain).zeros(5);
    assert_eq!(story.drain.state, State::Draining, "the load balancer may still be sending");
    story.after(1_000);
    assert_eq!(story.probe("lb1", "UP"), Answer::NoNewWork);
    assert!(!story.effects.contains(&Effect::DrainListeners));
    story.after(2_000);
    assert_eq!(story.probe("lb1", "NOLB"), Answer::NoNewWork);
    assert!(story.effects.contains(&Effect::DrainListeners));
    assert_eq!(story.drain.nolb_acked, Some(story.now));
    story.active(1).zeros(2);
    assert_eq!(story.drain.state, State::Draining);
    story.zeros(1);
    assert_eq!(story.drain.state, State::Closing);
    assert_eq!(story.probe("lb1", "NOLB"), Answer::Down);
    story.after(2_000);
    assert_eq!(story.probe("lb1", "NOLB 1/2"), Answer::Down);
    assert!(story.drain.ready());
    story.after(2_000);
    story.probe("lb1", "DOWN");
    assert_eq!(story.drain.state, State::Closed);
    assert!(!story.drain.ready() && story.drain.live());
}

#[test]
fn two_load_balancers_are_both_waited_for() {
    let mut story = Story::new(Order::NoNewWork, Third::SelfChecked);
    story.probe("lb1", "UP");
    story.probe("lb2", "UP");
    story.command(Command::Drain);
    story.after(1_000).probe("lb1", "UP");
    story.after(1_000).probe("lb1", "NOLB");
    story.zeros(5);
    assert_eq!(story.drain.settled, None);
    story.probe("lb2", "UP");
    story.after(1_000).probe("lb2", "NOLB");
    assert!(story.drain.settled.is_some());
    story.zeros(3).probe("lb1", "DOWN");
    assert_eq!(story.drain.state, State::Closing);
    story.probe("lb2", "DOWN");
    assert_eq!(story.drain.state, State::Closed);
}

/// A load balancer without disable-on-404 counts the answer as a failed check: one is forgiven with `fall 2`, so it
/// must not get a second. The other node, which understands, goes on getting it.
#[test]
fn an_answer_taken_for_a_failure_is_taken_back_from_that_load_balancer_only() {
    let mut story = Story::new(Order::NoNewWork, Third::Always);
    story.probe("old", "UP");
    story.probe("new", "UP");
    story.command(Command::Drain);
    assert_eq!(story.after(500).probe("old", "UP"), Answer::NoNewWork);
    assert_eq!(story.after(500).probe("new", "UP"), Answer::NoNewWork);
    assert_eq!(story.after(2_000).probe("old", "UP 1/2"), Answer::Ok);
    assert!(matches!(story.effects[0], Effect::Note("third_answer_taken_back", _)));
    assert_eq!(story.probe("new", "NOLB"), Answer::NoNewWork);
    assert!(story.drain.settled.is_some(), "the old one is not waited for");
    story.zeros(3);
    assert_eq!(story.probe("old", "UP"), Answer::Down);
}

#[test]
fn an_answer_taken_for_health_is_given_up_too() {
    let mut story = Story::new(Order::NoNewWork, Third::Always);
    story.command(Command::Drain);
    let answers: Vec<_> = (0..4).map(|_| story.after(2_000).probe("lb1", "UP")).collect();
    assert_eq!(answers, [Answer::NoNewWork, Answer::NoNewWork, Answer::NoNewWork, Answer::Ok]);
}

#[test]
fn who_does_not_send_its_state_is_not_experimented_on() {
    let mut story = Story::new(Order::NoNewWork, Third::SelfChecked);
    story.probe_with(None);
    story.command(Command::Drain);
    assert_eq!(story.probe_with(None), Answer::Ok);
    story.zeros(3);
    assert_eq!(story.drain.state, State::Closing, "the order is then: 200 until zero");
}

#[test]
fn a_load_balancer_without_words_is_given_its_time() {
    let mut story = Story::new(Order::NoNewWork, Third::Always);
    story.probe_with(None);
    story.command(Command::Drain);
    assert_eq!(story.probe_with(None), Answer::NoNewWork);
    story.zeros(5).after(9_000);
    assert_eq!(story.drain.state, State::Draining);
    story.probe_with(None);
    story.after(1_000).zeros(3);
    assert_eq!(story.drain.state, State::Closing);
    story.after(9_999);
    assert_eq!(story.drain.state, State::Closing);
    story.after(1);
    assert_eq!(story.drain.state, State::Closed);
}

#[test]
fn nobody_probing_means_waiting_by_time() {
    let mut story = Story::new(Order::NoNewWork, Third::SelfChecked);
    story.command(Command::Drain).zeros(5);
    assert_eq!(story.drain.state, State::Draining);
    story.after(5_000).on(Event::AgentAsked).after(5_000).zeros(3);
    assert_eq!(story.drain.state, State::Closing);
}

/// HAProxy's state header goes on saying UP under an agent's drain, so the time of the buffer has to do.
#[test]
fn an_agent_check_is_given_its_time() {
    let mut story = Story::new(Order::NoNewWork, Third::Off);
    story.probe("lb1", "UP");
    story.on(Event::AgentAsked).command(Command::Drain);
    assert_eq!(story.drain.agent_answer(&story.rules), "drain\n");
    story.zeros(5);
    story.probe("lb1", "UP");
    assert_eq!(story.drain.settled, None);
    story.after(10_000).zeros(3);
    assert_eq!(story.drain.state, State::Closing);
}

#[test]
fn the_seed_order_holds_200_until_zero_and_drains_envoy_at_once() {
    let mut story = Story::new(Order::WaitThenFail, Third::SelfChecked);
    story.probe("lb1", "UP");
    story.command(Command::Drain);
    assert!(story.effects.contains(&Effect::DrainListeners));
    assert_eq!(story.probe("lb1", "UP"), Answer::Ok);
    story.active(3).after(30_000);
    assert_eq!(story.drain.state, State::Draining);
    story.zeros(3);
    assert_eq!(story.probe("lb1", "UP"), Answer::Down);
}

#[test]
fn the_naive_order_flips_at_once_with_work_in_hand() {
    let mut story = Story::new(Order::FailFirst, Third::SelfChecked);
    story.active(4).command(Command::Drain);
    assert_eq!(story.drain.state, State::Closing);
    assert_eq!(story.drain.remaining, Some(4));
    assert!(!story.effects.contains(&Effect::DrainListeners));
}

#[test]
fn unknown_is_never_zero_and_breaks_a_run_of_zeros() {
    let mut story = Story::new(Order::WaitThenFail, Third::Off);
    story.command(Command::Drain).zeros(2);
    story.on(Event::Reading(Reading::Unknown(Reading::STAT_MISSING)));
    story.zeros(2);
    assert_eq!(story.drain.state, State::Draining);
    for _ in 0..50 {
        story.now += 200;
        story.on(Event::Reading(Reading::Unknown("timeout")));
    }
    assert_eq!(story.drain.state, State::Draining, "a hung Envoy is held for");
    story.after(60_000);
    assert_eq!(story.drain.state, State::Closing);
    assert!(story.drain.forced);
    assert_eq!(story.drain.remaining, None, "not known is not zero");
}

#[test]
fn an_envoy_that_is_gone_has_nothing_to_wait_for() {
    let mut story = Story::new(Order::WaitThenFail, Third::Off);
    story.active(5).command(Command::Drain);
    for _ in 0..2 {
        story.on(Event::Reading(Reading::Unknown(Reading::REFUSED)));
    }
    assert_eq!(story.drain.state, State::Draining);
    story.on(Event::Reading(Reading::Unknown(Reading::REFUSED)));
    assert_eq!(story.drain.state, State::Closing);
    assert_eq!(story.drain.transitions.back().unwrap().reason, "envoy_gone");
}

#[test]
fn websockets_are_let_go_at_their_time() {
    let mut story = Story::new(Order::WaitThenFail, Third::Off);
    story.rules.websockets = WebSockets::Until(5_000);
    story.command(Command::Drain);
    let open = Reading::Known(Active { websocket: 3, ..Active::default() });
    for _ in 0..5 {
        story.on(Event::Reading(open.clone()));
    }
    assert_eq!(story.drain.state, State::Draining);
    story.now = 5_000;
    for _ in 0..3 {
        story.on(Event::Reading(open.clone()));
    }
    assert_eq!(story.drain.state, State::Closing);
    assert_eq!(story.drain.remaining, Some(3), "what is cut is told");
}

#[test]
fn commands_compare_and_set_and_name_what_they_found() {
    let mut story = Story::new(Order::WaitThenFail, Third::Off);
    for (command, state) in [(Command::CloseLb, State::Open), (Command::Close, State::Open)] {
        assert_eq!(story.command(command).refused(), Some(state));
    }
    story.command(Command::Drain);
    assert_eq!(story.command(Command::Drain).refused(), Some(State::Draining));
    assert_eq!(story.command(Command::CloseLb).refused(), None);
    assert_eq!(story.command(Command::Reopen).refused(), None);
    assert_eq!(story.drain.state, State::Open);
    story.command(Command::Drain).command(Command::CloseLb).command(Command::Close);
    assert_eq!(story.command(Command::Reopen).refused(), Some(State::Closed));
    assert_eq!(story.command(Command::Fault).refused(), None);
    assert_eq!(story.command(Command::Fault).refused(), Some(State::Fault));
    assert!(!story.drain.live());
}

#[test]
fn only_the_last_hundred_transitions_are_kept() {
    let mut story = Story::new(Order::WaitThenFail, Third::Off);
    for _ in 0..60 {
        story.command(Command::Drain).command(Command::Reopen);
    }
    assert_eq!(story.drain.transitions.len(), 100);
    assert_eq!(story.drain.transitions[99].to, State::Open);
}

#[test]
fn a_pod_is_not_in_service_before_envoy_has_answered() {
    let mut story = Story { drain: Drain::new(0), ..Story::new(Order::NoNewWork, Third::Always) };
    assert_eq!(story.probe("lb1", "DOWN"), Answer::Down);
    assert!(!story.drain.ready());
    story.active(0);
    assert_eq!(story.probe("lb1", "DOWN"), Answer::Ok);
    story.on(Event::Reading(Reading::Unknown("timeout")));
    assert_eq!(story.probe("lb1", "UP"), Answer::Ok, "later failures of the admin do not flap it");
}

#[test]
fn a_restart_takes_up_where_the_file_says() {
    let mut story = Story::new(Order::NoNewWork, Third::Always);
    story.command(Command::Drain).command(Command::Fault);
    let resumed = Drain::resume(Saved::from(&story.drain), 5_000);
    assert_eq!(resumed.state, State::Draining, "the restart is the cure for FAULT");
    let mut story = Story { drain: resumed, now: 5_000, ..story };
    assert_eq!(story.probe("lb1", "NOLB"), Answer::NoNewWork);
    assert_eq!(story.drain.deadline(&story.rules), Some(70_000), "the deadline does not start again");
}

#[test]
fn a_file_from_before_this_envoy_is_not_believed() {
    for (event, times) in
        [(Event::EnvoyStarted(90_000), 1), (Event::Reading(Reading::Unknown(Reading::REFUSED)), 3)]
    {
        let mut story = Story::new(Order::WaitThenFail, Third::Off);
        story.command(Command::Drain);
        story.drain = Drain::resume(Saved::from(&story.drain), 30_000);
        story.now = 30_000;
        for _ in 0..times {
            story.on(event.clone());
        }
        assert_eq!(story.drain.state, State::Open);
    }
}

#[test]
fn an_envoy_older_than_the_file_lets_it_stand() {
    let mut story = Story::new(Order::WaitThenFail, Third::Off);
    story.now = 50_000;
    story.command(Command::Drain);
    story.drain = Drain::resume(Saved::from(&story.drain), 51_000);
    story.now = 51_000;
    story.on(Event::EnvoyStarted(10_000));
    assert_eq!(story.drain.state, State::Draining);
}

#[test]
fn sigterm_waits_for_the_drain_and_for_the_hook() {
    let mut story = Story::new(Order::WaitThenFail, Third::Off);
    story.on(Event::Sigterm);
    assert!(story.effects.is_empty(), "the hook of the same termination may come a moment later");
    story.command(Command::Drain).after(5_000);
    assert!(!story.effects.contains(&Effect::Exit));
    story.command(Command::CloseLb).command(Command::Close);
    assert!(story.effects.contains(&Effect::Exit));

    let mut story = Story::new(Order::WaitThenFail, Third::Off);
    story.on(Event::Sigterm).after(2_000);
    assert!(story.effects.contains(&Effect::Exit), "a restart by the kubelet must not drain a healthy Envoy");

    let mut story = Story::new(Order::WaitThenFail, Third::Off);
    story.rules.drain_on_sigterm = true;
    story.on(Event::Sigterm);
    assert_eq!(story.drain.state, State::Draining);
}

#[test]
fn fault_does_not_cut_what_runs_where_the_load_balancer_understands() {
    let mut story = Story::new(Order::NoNewWork, Third::SelfChecked);
    story.probe("lb1", "UP");
    story.command(Command::Fault);
    assert_eq!(story.probe("lb1", "UP"), Answer::NoNewWork);
    let mut story = Story::new(Order::WaitThenFail, Third::SelfChecked);
    story.command(Command::Fault);
    assert_eq!(story.probe("lb1", "UP"), Answer::Down);
}

#[test]
fn strangers_on_the_open_port_are_bounded() {
    let mut story = Story::new(Order::NoNewWork, Third::Always);
    for node in 0..1_000 {
        story.probe(&format!("{node}{}", "x".repeat(1_000)), "UP");
    }
    assert_eq!(story.drain.lb.probers.len(), 64);
    assert!(story.drain.lb.probers.iter().all(|prober| prober.node.len() <= 64));
}

/// HAProxy's new process begins with a health point less and has not been told anything; it takes the answer with its
/// first check. Control: the same words from a load balancer that never said NOLB are a misunderstanding.
#[test]
fn a_load_balancer_that_is_restarted_in_mid_drain_keeps_the_answer() {
    for first in ["UP 1/2", "UP", "DOWN 1/2"] {
        let mut story = Story::new(Order::NoNewWork, Third::SelfChecked);
        story.probe("lb1", "UP");
        story.command(Command::Drain).active(2);
        story.after(500).probe("lb1", "UP");
        story.after(2_000).probe("lb1", "NOLB");
        assert!(story.drain.nolb_acked.is_some());
        for word in [first, "UP 1/2", "UP", "UP", "UP", "NOLB"] {
            assert_eq!(story.after(2_000).probe("lb1", word), Answer::NoNewWork, "{first} {word}");
        }
    }
    let mut story = Story::new(Order::NoNewWork, Third::SelfChecked);
    story.probe("lb1", "UP");
    story.command(Command::Drain);
    story.after(500).probe("lb1", "UP");
    assert_eq!(story.after(2_000).probe("lb1", "UP 1/2"), Answer::Ok);
}

/// ... and while its word is UP it may be sending: a moment without requests is not the end.
#[test]
fn zero_does_not_count_while_a_restarted_load_balancer_sends() {
    let mut story = Story::new(Order::NoNewWork, Third::SelfChecked);
    story.command(Command::Drain);
    story.probe("lb1", "UP");
    story.after(2_000).probe("lb1", "NOLB");
    story.active(1).after(2_000).probe("lb1", "UP 1/2");
    story.zeros(5);
    assert_eq!(story.drain.state, State::Draining);
    story.after(2_000).probe("lb1", "NOLB");
    story.zeros(3);
    assert_eq!(story.drain.state, State::Closing);
}

const ABSENT: [&str; 3] = [Reading::REFUSED, Reading::STAT_MISSING, Reading::DATA_REFUSED];

impl Story {
    fn unknown(&mut self, why: &'static str, times: u32) -> &mut Self {
        for _ in 0..times {
            self.now += 600;
            self.on(Event::Reading(Reading::Unknown(why)));
        }
        self
    }
}

#[test]
fn an_envoy_that_is_dead_or_back_without_its_listeners_takes_the_pod_out_of_service() {
    for why in ABSENT {
        let mut story = Story::new(Order::NoNewWork, Third::SelfChecked);
        story.unknown(why, 2);
        assert_eq!(story.probe("lb1", "UP"), Answer::Ok, "a hot restart is shorter: {why}");
        story.unknown(why, 1);
        assert_eq!(story.probe("lb1", "UP"), Answer::Down, "{why}");
        assert!(!story.drain.ready() && story.drain.live(), "{why}");
        assert_eq!(story.drain.agent_answer(&story.rules), "down\n");
        story.active(0);
        assert_eq!(story.probe("lb1", "DOWN"), Answer::Ok, "{why}: it is back");
    }
    // What hangs or talks nonsense is no reason to cut what runs.
    for why in ["timeout", "status", "broken", "admin_refused", Reading::UNPARSABLE] {
        let mut story = Story::new(Order::NoNewWork, Third::SelfChecked);
        story.unknown(why, 100);
        assert_eq!(story.probe("lb1", "UP"), Answer::Ok, "{why}");
    }
}

/// A pod's volume outlives a restart of its node, the Envoy in it does not.
#[test]
fn what_a_file_says_of_an_envoy_ends_with_the_first_look_at_it() {
    for (why, served) in [(ABSENT[0], false), (ABSENT[1], false), (ABSENT[2], false), ("timeout", true)] {
        let story = Story::new(Order::NoNewWork, Third::SelfChecked);
        let mut story = Story { drain: Drain::resume(Saved::from(&story.drain), 0), ..story };
        story.unknown(why, 1);
        assert_eq!(story.drain.ready(), served, "{why}");
    }
}

#[test]
fn a_pod_that_was_never_in_service_leaves_at_once_and_is_not_brought_into_it() {
    for order in [Order::NoNewWork, Order::WaitThenFail, Order::FailFirst] {
        for (third, node) in
            [(Third::Always, Some("lb1")), (Third::SelfChecked, Some("lb1")), (Third::Always, None)]
        {
            let mut story = Story { drain: Drain::new(0), ..Story::new(order, third) };
            story.unknown(Reading::REFUSED, 2);
            let header = node.map(|node| format!("DOWN; node={node}"));
            assert_eq!(story.probe_with(header.clone()), Answer::Down);
            story.command(Command::Drain);
            assert_eq!((story.drain.state, story.drain.ready()), (State::Closed, false), "{order:?}");
            assert_eq!(story.probe_with(header), Answer::Down);
        }
    }
    // One that hangs may have been served by before this sidecar was restarted: it is given the load balancer's time.
    let mut story = Story { drain: Drain::new(0), ..Story::new(Order::NoNewWork, Third::Always) };
    story.unknown("timeout", 2).command(Command::Drain);
    assert_eq!((story.drain.state, story.probe("lb1", "DOWN 1/2")), (State::Closing, Answer::Down));
    story.after(10_000);
    assert_eq!(story.drain.state, State::Closed);
}

/// The hook also runs when only the proxy's container is restarted; the pod, and this sidecar, stay.
#[test]
fn a_proxy_that_is_restarted_after_its_hook_reopens_the_pod() {
    let closed = || {
        let mut story = Story::new(Order::WaitThenFail, Third::Off);
        story.now = 100_000;
        story.on(Event::EnvoyStarted(10_000));
        story.command(Command::Drain).on(Event::ListenersDrained).zeros(3).after(10_000);
        assert_eq!(story.drain.state, State::Closed);
        story
    };
    let mut story = closed();
    let since = story.now;
    story.unknown(Reading::REFUSED, 3).on(Event::EnvoyStarted(since + 500));
    assert_eq!((story.drain.state, story.drain.ready()), (State::Open, false));
    assert_eq!(story.drain.listeners_drained, None, "that Envoy is gone");
    story.active(0);
    assert!(story.drain.ready());
    // Its control: the same Envoy, asked again, and a pod that ends.
    let mut story = closed();
    story.on(Event::EnvoyStarted(11_000));
    assert_eq!(story.drain.state, State::Closed);
    let since = story.now;
    story.on(Event::Sigterm).on(Event::EnvoyStarted(since + 5_000));
    assert_eq!(story.drain.state, State::Closed);
}

#[test]
fn a_clock_that_was_set_back_holds_nothing_up() {
    let mut story = Story::new(Order::WaitThenFail, Third::Off);
    story.now = 500_000;
    story.command(Command::Drain).zeros(3);
    let saved = Saved::from(&story.drain);
    let mut story = Story { drain: Drain::resume(saved, 1_000), now: 1_000, ..story };
    story.after(10_000);
    assert_eq!(story.drain.state, State::Closed);
}

#[test]
fn the_longest_times_do_not_wrap() {
    let mut story = Story::new(Order::NoNewWork, Third::Always);
    (story.rules.drain_timeout, story.rules.lb_buffer, story.rules.min_drain) =
        (u64::MAX, u64::MAX, u64::MAX);
    story.now = 1_000;
    story.active(1).command(Command::Drain).after(60_000);
    assert_eq!((story.drain.state, story.drain.forced), (State::Draining, false));
    assert_eq!(story.drain.deadline(&story.rules), Some(u64::MAX));
}

fn any_event() -> impl proptest::strategy::Strategy<Value = Event> {
    use proptest::prelude::*;
    let command = proptest::sample::select(vec![
        Command::Drain,
        Command::CloseLb,
        Command::Close,
        Command::Reopen,
        Command::Fault,
    ]);
    let word = proptest::sample::select(vec!["UP", "UP 1/2", "NOLB", "NOLB 1/2", "DOWN", "DOWN 1/2", "?"]);
    prop_oneof![
        command.prop_map(|command| Event::Command(command, "any")),
        (word, 0_u8..3).prop_map(|(word, node)| Event::Probe(Seen {
            ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
            header: Some(format!("{word}; node={node}")),
        })),
        (0_u64..3).prop_map(|http| Event::Reading(Reading::Known(Active { http, ..Active::default() }))),
        Just(Event::Reading(Reading::Unknown("timeout"))),
        Just(Event::Reading(Reading::Unknown(Reading::REFUSED))),
        Just(Event::AgentAsked),
        Just(Event::ListenersDrained),
        Just(Event::ListenersDrainFailed),
        Just(Event::Tick),
    ]
}

proptest::proptest! {
    /// In any story: CLOSED is left by FAULT only, the load balancer is told 503 before readiness goes, a drain ends
    /// by its deadline, and a flip that was not commanded, forced or caused by a dead Envoy had its zeros.
    #[test]
    fn any_story_keeps_the_promises(events in proptest::collection::vec((any_event(), 0_u64..3_000), 1..120)) {
        let rules = rules(Order::NoNewWork, Third::Always);
        let mut drain = Drain::new(0);
        let mut now = 0;
        for (event, pause) in events {
            now += pause;
            let before = drain.clone();
            let (after, effects) = step(drain, &rules, event, now);
            for effect in &effects {
                let Effect::Transition(change) = effect else { continue };
                let promised = match (change.from, change.to) {
                    (State::Closed, to) => to == State::Fault,
                    (from, State::Closed) => from == State::Closing,
                    (State::Draining, State::Closing) if change.reason == "zero" =>
                        before.settled.is_some() && before.zero_run + 1 >= rules.zero_samples,
                    _ => true,
                };
                proptest::prop_assert!(promised, "{change:?}");
            }
            let deadline = after.deadline(&rules);
            let under_way = matches!(after.state, State::Draining | State::Closing);
            proptest::prop_assert!(!under_way || deadline.is_some_and(|end| now <= end + rules.lb_buffer));
            drain = after;
        }
    }
}
