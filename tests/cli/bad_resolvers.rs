//! Resolvers that do not do their job, and answers that mean harm.

use std::net::UdpSocket;

use hickory_proto::op::Message;

use crate::responder::{Responder, garbage, hostile_alias, wrong_id, wrong_question, zone};
use crate::{Run, classify, classify_through, generate};

type Answer = fn(&Message) -> Vec<u8>;

#[test]
fn a_resolver_that_answers_nonsense_is_named() {
    let nonsense: [(Answer, &str); 3] =
        [(garbage, "no DNS message"), (wrong_id, "wrong id"), (wrong_question, "another question")];
    for (answer, fault) in nonsense {
        let resolver = Responder::start(answer);
        let run = Run::of(&mut classify_through(&[resolver.addr], "good.fixed.example"));
        assert_eq!(run.code, Some(2), "{fault}: {run}");
        assert!(run.stderr.contains(&resolver.addr.to_string()), "{fault}: {run}");
        assert!(run.stderr.contains(fault) && run.stderr.contains("hint: "), "{fault}: {run}");
        assert_eq!(run.addresses("good.fixed.example"), 0, "{fault}: {run}");
    }
}

#[test]
fn a_dead_resolver_is_named_and_the_live_one_is_used() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let dead = socket.local_addr().unwrap();
    drop(socket);
    let live = Responder::start(zone);
    for (resolvers, addresses) in [(vec![dead, live.addr], 1), (vec![dead], 0)] {
        let run = Run::of(&mut classify_through(&resolvers, "good.fixed.example"));
        assert_eq!(run.code, Some(2), "{run}");
        assert!(run.stderr.contains(&format!("{dead} cannot be reached")), "{run}");
        assert_eq!(run.addresses("good.fixed.example"), addresses, "{run}");
    }
}

#[test]
fn hostile_text_from_dns_is_escaped_everywhere() {
    let resolver = Responder::start(hostile_alias);
    for format in ["text", "table", "markdown", "json"] {
        let run = Run::of(classify(&resolver, &["alias.fixed.example"]).args(["-o", format]));
        assert!(run.stdout.contains("alias.fixed.example"), "{format}: {run}");
        for text in [&run.stdout, &run.stderr] {
            let raw = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!text.contains(raw), "{format}: {run}");
            assert!(!text.contains("\nlines: {}"), "{format}: {run}");
        }
    }
}

#[test]
fn hostile_text_from_dns_stays_out_of_the_yaml() {
    let server = Responder::start(hostile_alias);
    let run = Run::of(&mut generate(&server, &["alias.fixed.example"]));
    assert_eq!(run.code, Some(0), "{run}");
    assert!(!run.stdout.contains(|c: char| c.is_control() && c != '\n'), "{run}");
    assert!(!policies::manifest::parse(&run.stdout).unwrap().is_empty(), "{run}");
}
