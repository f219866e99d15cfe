//! Names that cannot be asked for: the message names the thing and the remedy, and the rest of the batch is done.

use crate::responder::{Responder, zone};
use crate::{Run, classify};
use harness::egress_audit;

#[test]
fn every_bad_name_is_explained_and_the_others_are_done() {
    let server = Responder::start(zone);
    let long = "abcdefghi.".repeat(30);
    for (name, thing, remedy) in [
        ("api..fixed.example", "api..fixed.example", "remove the extra dot"),
        (long.as_str(), "299 bytes", "missing line break"),
        ("192.0.2.1", "192.0.2.1 is an IP address", "resolution: STATIC"),
        ("*.fixed.example", "*.fixed.example", "concrete names"),
        ("\u{1b}[31m.example", "\\u{1b}[31m.example", "letters, digits"),
        ("no-such.example", "no-such.example", "spelling"),
    ] {
        let run = Run::of(classify(&server, &[name, "good.fixed.example"]).args(["-o", "json"]));
        assert_eq!(run.code, Some(2), "{name}: {run}");
        assert!(run.stderr.contains(thing) && run.stderr.contains(remedy), "{name}: {run}");
        assert!(!run.stderr.contains('\u{1b}'), "{name}: {run}");
        assert_eq!(run.class("good.fixed.example"), "SingleVip", "{name}: {run}");
        assert!(!run.report()["problems"].as_array().unwrap().is_empty(), "{name}: {run}");
    }
}

#[test]
fn unusual_good_names_are_asked_for_as_dns_wants_them() {
    let server = Responder::start(zone);
    let names = ["Upper.Fixed.Example.", "münchen.fixed.example"];
    let run = Run::of(classify(&server, &names).args(["-o", "json"]));
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(run.class("upper.fixed.example"), "SingleVip");
    assert_eq!(run.class("xn--mnchen-3ya.fixed.example"), "SingleVip");

    let text = Run::of(&mut classify(&server, &names[1..]));
    assert!(
        text.stdout.contains("xn--mnchen-3ya.fixed.example") && text.stdout.contains("münchen"),
        "{text}"
    );
}

#[test]
fn nothing_to_do_is_an_error() {
    let server = Responder::start(zone);
    let none = Run::of(&mut classify(&server, &[]));
    assert_eq!(none.code, Some(2), "{none}");
    assert!(none.stderr.contains("<NAMES>"), "{none}");

    let typo = Run::of(classify(&server, &["good.fixed.example"]).arg("--widow=5m"));
    assert_eq!(typo.code, Some(2), "{typo}");
    assert!(typo.stderr.contains("--widow") && typo.stderr.contains("--window"), "{typo}");

    let address_typo = Run::of(classify(&server, &["good.fixed.example"]).args(["--resolver", "10.0.0.300"]));
    assert_eq!(address_typo.code, Some(2), "{address_typo}");
    assert!(address_typo.stderr.contains("10.0.0.300"), "{address_typo}");
}

#[test]
fn a_flag_that_changes_nothing_in_an_experiment_is_refused_by_name() {
    for (experiment, flag, value) in [
        ("drain", "--in-cluster", None),
        ("drain", "--resolution", Some("strict")),
        ("drain", "--topology", Some("gateway")),
        ("drain", "--stream", Some("4s")),
        ("drain", "--http", Some("h2")),
        ("flip-record", "--scale", Some("0.1")),
        ("flip-record", "--scenario", Some("s12-posts")),
    ] {
        let run = Run::of(egress_audit().args(["lab", "run", experiment, flag]).args(value));
        assert_eq!(run.code, Some(2), "{run}");
        assert!(run.stderr.contains(flag) && run.stderr.contains(experiment), "{run}");
    }
}
