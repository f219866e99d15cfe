//! The text is what Envoy 1.40.0 answered to [`FILTER`] in the state that each test names.

use super::*;

/// One HTTP/2 and one HTTP/1 request on 19080, one TCP session on 19081; the poll itself is in `admin`.
const BUSY: &str = include_str!("busy.txt");

fn counting() -> Counting {
    Counting { exclude_http: vec!["stats".to_owned()], exclude_listeners: Vec::new(), tcp: true }
}

fn known(text: &str, counting: &Counting) -> Active {
    match counting.read(text) {
        Reading::Known(active) => active,
        Reading::Unknown(why) => panic!("unknown: {why}"),
    }
}

#[test]
fn protocols_are_told_apart_and_the_poll_does_not_count_itself() {
    let active = known(BUSY, &counting());
    assert_eq!((active.http, active.h2, active.websocket, active.tcp), (1, 1, 0, Some(1)));
    assert_eq!(active.connections, 3);
    assert_eq!(active.total(), 3);
    assert_eq!(active.summed.len(), 3, "{:?}", active.summed);
}

#[test]
fn an_idle_envoy_reads_exactly_zero() {
    let idle: String = BUSY
        .lines()
        .map(|line| match line.split_once(": ") {
            Some((name, _)) if !name.contains("admin") => format!("{name}: 0\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    assert_eq!(known(&idle, &counting()).total(), 0);
}

#[test]
fn nothing_matched_is_not_zero() {
    assert_eq!(counting().read(""), Reading::Unknown(Reading::STAT_MISSING));
    let admin_only = "http.admin.downstream_rq_active: 1\nlistener.admin.downstream_cx_active: 1\n";
    assert!(matches!(counting().read(admin_only), Reading::Unknown(_)));
}

#[test]
fn a_gateway_that_hides_its_listener_gauges_is_unknown_unless_tcp_is_let_go() {
    let text = "http.ingress.downstream_rq_active: 0\n";
    assert_eq!(counting().read(text), Reading::Unknown(Reading::LISTENER_STAT_MISSING));
    let without = Counting { tcp: false, ..counting() };
    assert_eq!(known(text, &without).total(), 0);
}

#[test]
fn a_cut_line_is_unknown() {
    for text in ["http.ingress.downstream_rq_act", "http.ingress.downstream_rq_active: ", "a: b\n", "<html>"]
    {
        assert_eq!(counting().read(text), Reading::Unknown(Reading::UNPARSABLE), "{text}");
    }
}

#[test]
fn a_scraper_on_an_excluded_manager_is_neither_a_request_nor_a_tcp_session() {
    let text = "http.ingress.downstream_rq_active: 0\nhttp.ingress.downstream_cx_active: 0\n\
                http.stats.downstream_rq_active: 1\nhttp.stats.downstream_cx_active: 1\n\
                listener.0.0.0.0_15090.downstream_cx_active: 1\n\
                listener.0.0.0.0_8080.downstream_cx_active: 0\n";
    let active = known(text, &counting());
    assert_eq!(active.total(), 0);
    assert_eq!(active.excluded, ["http.stats.downstream_rq_active"]);
}

/// Excluding an HTTP listener must not hide a TCP session elsewhere: its connections leave both sides.
#[test]
fn a_skipped_listener_takes_its_http_connections_with_it() {
    let text = "http.ingress.downstream_rq_active: 0\nhttp.ingress.downstream_cx_active: 0\n\
                http.inner.downstream_rq_active: 0\nhttp.inner.downstream_cx_active: 2\n\
                listener.envoy_internal_main.downstream_cx_active: 2\n\
                listener.envoy_internal_main.http.inner.downstream_rq_completed: 9\n\
                listener.0.0.0.0_8080.http.ingress.downstream_rq_completed: 9\n\
                listener.0.0.0.0_8080.downstream_cx_active: 0\n\
                listener.0.0.0.0_9000.downstream_cx_active: 1\n";
    assert_eq!(known(text, &counting()).tcp, Some(1));
    let without = Counting { exclude_listeners: vec!["0.0.0.0_9000".to_owned()], ..counting() };
    assert_eq!(known(text, &without).tcp, Some(0));
}

#[test]
fn only_exact_names_are_left_out() {
    let text = "http.stats2.downstream_rq_active: 4\nhttp.administration.downstream_rq_active: 3\n\
                http.ingress.downstream_rq_active_overflow: 7\n\
                listener.0.0.0.0_80.downstream_cx_active: 0\nlistener.0.0.0.0_80.worker_0.downstream_cx_active: 5\n";
    assert_eq!(known(text, &counting()).total(), 7);
}

/// A gauge that has gone below zero reads as 2^64 - 1: more than enough to wait for, with whatever is added.
#[test]
fn sums_do_not_wrap_to_zero() {
    let most = u64::MAX;
    let text = format!(
        "http.a.downstream_rq_active: {most}\nhttp.b.downstream_rq_active: 1\n\
         http.a.downstream_rq_total: {most}\nhttp.b.downstream_rq_total: 1\n\
         http.a.downstream_cx_active: 0\nlistener.0.0.0.0_80.downstream_cx_active: {most}\n\
         listener.0.0.0.0_81.downstream_cx_active: 1\n"
    );
    assert_eq!(known(&text, &counting()).total(), most);
}

/// A listener's `stat_prefix` is free: only what repeats another gauge is a repetition.
#[test]
fn listeners_with_the_names_of_threads_and_of_the_admin_count() {
    let with = |lines: &str| {
        format!("http.ingress.downstream_rq_active: 0\nhttp.ingress.downstream_cx_active: 0\n{lines}")
    };
    for (lines, sessions) in [
        (
            "listener.edge.worker_1.downstream_cx_active: 2\nlistener.edge.worker_1.worker_0.downstream_cx_active: 2\n",
            2,
        ),
        ("listener.edge.worker_x.downstream_cx_active: 3\nlistener.edge.downstream_cx_active: 1\n", 4),
        ("listener.edge.downstream_cx_active: 1\nlistener.edge.worker_11.downstream_cx_active: 1\n", 1),
        (
            "listener.admin.downstream_cx_active: 3\nlistener.admin.main_thread.downstream_cx_active: 1\n\
             listener.admin.worker_0.downstream_cx_active: 2\n",
            2,
        ),
        (
            "listener.admin.downstream_cx_active: 1\nlistener.admin.main_thread.downstream_cx_active: 1\n\
             listener.0.0.0.0_80.downstream_cx_active: 0\n",
            0,
        ),
    ] {
        assert_eq!(known(&with(lines), &counting()).tcp, Some(sessions), "{lines}");
    }
}

/// Which listener an HTTP manager sits on is told by one more gauge. Without it, connections on a skipped listener
/// would be subtracted from the others, and hide a session there.
#[test]
fn a_skipped_listener_without_its_link_is_unknown_and_not_zero() {
    let text = "http.ingress.downstream_rq_active: 0\nhttp.ingress.downstream_cx_active: 2\n\
                listener.0.0.0.0_8080.downstream_cx_active: 2\nlistener.0.0.0.0_9000.downstream_cx_active: 1\n";
    let skipping = Counting { exclude_listeners: vec!["0.0.0.0_8080".to_owned()], ..counting() };
    assert_eq!(skipping.read(text), Reading::Unknown(Reading::LISTENER_LINK_MISSING));
    let linked = format!("{text}listener.0.0.0.0_8080.http.ingress.downstream_rq_completed: 9\n");
    assert_eq!(known(&linked, &skipping).tcp, Some(1));
    // At rest nothing is hidden yet, but preflight can tell.
    let idle = text.replace(": 2", ": 0");
    assert!(known(&idle, &skipping).unlinked && !known(&linked, &skipping).unlinked);
    assert!(!known(text, &counting()).unlinked);
}

proptest::proptest! {
    /// Whatever a broken admin says, it is read or refused, and never more is waited for than was said.
    #[test]
    fn any_text_is_answered(text in ".{0,400}") {
        let _ = counting().read(&text);
    }
}
