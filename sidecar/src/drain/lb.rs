//! What is known of the load balancers from their own probes. HAProxy's `http-check send-state` puts its view of this
//! server into a request header; with it a wait ends on the load balancer's word instead of a guess, and an answer it
//! does not understand is taken back. Fed by `public` through [`super::Event::Probe`]; read by `progress` and `status`.

use std::net::IpAddr;

use serde::Serialize;

use super::{Millis, Rules};

/// More probers than this are not kept apart; the port is open to anyone, so the list is bounded.
const MOST_PROBERS: usize = 64;

/// A prober that has been quiet for three of its intervals, or this long, is not waited for.
const QUIET: Millis = 5_000;

/// Offers after which an `UP` without a lost health point means that the answer counts as healthy there.
const OFFERS: u32 = 3;

/// To whom the third answer is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Third {
    /// Never.
    Off,
    /// To load balancers that send their state, because only there a misunderstanding can be seen and taken back.
    SelfChecked,
    /// To all, except where it was seen to be misunderstood.
    Always,
}

impl Third {
    pub(crate) fn offered_to(self, prober: Option<&Prober>) -> bool {
        match (self, prober) {
            (Self::Off, _) | (Self::SelfChecked, None) => false,
            (Self::Always, None) => true,
            (Self::SelfChecked, Some(prober)) => prober.word.is_some() && !prober.refused,
            (Self::Always, Some(prober)) => !prober.refused,
        }
    }
}

/// The load balancer's word for this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    Up,
    /// Up, but a health point is lost (`UP 1/2`).
    UpFailing,
    /// No new work.
    Nolb,
    Down,
    /// This server is not checked, so nothing can be told from it.
    NoCheck,
}

/// One probe, as `public` saw it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) ip: IpAddr,
    /// `X-Haproxy-Server-State`, where it was sent.
    pub(crate) header: Option<String>,
}

/// One load balancer process that checks one server entry.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Prober {
    pub(crate) ip: IpAddr,
    pub(crate) node: String,
    pub(crate) server: String,
    pub(crate) word: Option<Word>,
    /// Its sessions on this server and in all, as it counts them.
    pub(crate) sessions: String,
    pub(crate) last_ms: Millis,
    pub(crate) interval_ms: Option<Millis>,
    /// It has said NOLB in this drain. What it says later is that of a process that has been restarted or of a second
    /// one, not a misunderstanding.
    pub(crate) understood: bool,
    /// The third answer was misunderstood here and has been taken back.
    pub(crate) refused: bool,
    pub(crate) offers: u32,
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lb {
    pub(crate) probers: Vec<Prober>,
    newest: usize,
}

impl Lb {
    /// Takes one probe in. What is returned (event and prober) is worth a log line.
    pub(super) fn seen(
        &mut self,
        seen: &Seen,
        draining: bool,
        rules: &Rules,
        now: Millis,
    ) -> Option<(&'static str, String)> {
        let header = seen.header.as_deref().map(Header::parse);
        let (node, server) = header.as_ref().map_or(("", ""), |header| (header.node, header.server));
        let found = self.probers.iter().position(|p| p.ip == seen.ip && p.node == node && p.server == server);
        let first = found.is_none();
        self.newest = found.unwrap_or_else(|| self.add(seen.ip, node.to_owned(), server.to_owned(), now));
        let prober = &mut self.probers[self.newest];
        if !first {
            prober.interval_ms = Some(now.saturating_sub(prober.last_ms));
        }
        prober.last_ms = now;
        let mut event = first.then_some("lb_probe_seen");
        if let Some(header) = header {
            if prober.word != Some(header.word) {
                event = event.or(Some("lb_state"));
            }
            prober.word = Some(header.word);
            prober.understood |= draining && header.word == Word::Nolb;
            header.sessions.clone_into(&mut prober.sessions);
            if draining && prober.misunderstood() {
                prober.refused = true;
                event = Some("third_answer_taken_back");
            }
        }
        if draining && rules.third.offered_to(Some(prober)) {
            prober.offers += 1;
        }
        event.map(|what| (what, prober.name()))
    }

    /// The prober of the newest probe.
    pub(crate) fn newest(&self) -> Option<&Prober> {
        self.probers.get(self.newest)
    }

    pub(super) fn forget_offers(&mut self) {
        for prober in &mut self.probers {
            (prober.offers, prober.refused, prober.understood) = (0, false, false);
        }
    }

    fn add(&mut self, ip: IpAddr, node: String, server: String, now: Millis) -> usize {
        let prober = Prober {
            ip,
            node,
            server,
            word: None,
            sessions: String::new(),
            last_ms: now,
            interval_ms: None,
            understood: false,
            refused: false,
            offers: 0,
        };
        if self.probers.len() < MOST_PROBERS {
            self.probers.push(prober);
            return self.probers.len() - 1;
        }
        let oldest = self.probers.iter().enumerate().min_by_key(|(_, p)| p.last_ms).map_or(0, |(i, _)| i);
        self.probers[oldest] = prober;
        oldest
    }

    fn live(&self, now: Millis) -> impl Iterator<Item = &Prober> {
        self.probers.iter().filter(move |prober| prober.live(now))
    }

    /// Whether no load balancer has probed of late.
    pub(crate) fn silent(&self, now: Millis) -> bool {
        self.live(now).next().is_none()
    }

    /// Whether any load balancer that still probes is being told "no new work".
    pub(super) fn any_offer(&self, rules: &Rules, now: Millis) -> bool {
        self.live(now).any(|prober| rules.third.offered_to(Some(prober)))
    }

    /// Whether all that probe have said that they send nothing new. One that took the answer for a failure never
    /// will, and is not waited for: behind it the order is "200 until zero".
    pub(super) fn all_drained(&self, now: Millis) -> bool {
        self.every(now, |prober| prober.refused || matches!(prober.word, Some(Word::Nolb | Word::Down)))
    }

    /// Whether one that knows the third answer would send new requests, by its newest word: a load balancer that was
    /// restarted in mid-drain does so until its first check.
    pub(super) fn any_sends(&self, now: Millis) -> bool {
        let sends = |prober: &Prober| matches!(prober.word, Some(Word::Up | Word::UpFailing));
        self.live(now).any(|prober| !prober.refused && sends(prober))
    }

    pub(super) fn all_down(&self, now: Millis) -> bool {
        self.every(now, |prober| prober.word == Some(Word::Down))
    }

    fn every(&self, now: Millis, holds: impl Fn(&Prober) -> bool) -> bool {
        !self.silent(now) && self.live(now).all(holds)
    }
}

impl Prober {
    fn live(&self, now: Millis) -> bool {
        let patience = self.interval_ms.map_or(QUIET, |interval| QUIET.max(3 * interval));
        now.saturating_sub(self.last_ms) <= patience
    }

    /// Whether the buffer is shorter than what it takes to be marked DOWN: two failed checks, of which the first may be
    /// one interval away. A twentieth is left for checks that come late.
    pub(crate) fn slower_than(&self, lb_buffer: Millis) -> bool {
        self.interval_ms
            .is_some_and(|interval| interval.saturating_mul(57) / 20 > lb_buffer.saturating_add(50))
    }

    /// After an offer, a lost health point means that the answer was taken for a failure; repeated plain `UP` means
    /// that it was taken for health.
    fn misunderstood(&self) -> bool {
        match self.word {
            _ if self.understood => false,
            Some(Word::UpFailing) => self.offers > 0,
            Some(Word::Up) => self.offers >= OFFERS,
            _ => false,
        }
    }

    fn name(&self) -> String {
        let word = self.word.map_or_else(String::new, |word| format!(" {word:?}"));
        format!("{} {} {}{word}", self.ip, self.node, self.server)
    }
}

/// `UP 2/3; name=bck/srv2; node=lb1; weight=1/2; scur=13/22; qcur=0`
struct Header<'a> {
    word: Word,
    server: &'a str,
    node: &'a str,
    sessions: &'a str,
}

impl<'a> Header<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let state = parts.next().unwrap_or_default();
        let mut header = Self { word: word(state), server: "", node: "", sessions: "" };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            match key {
                "name" => header.server = short(value),
                "node" => header.node = short(value),
                "scur" => header.sessions = short(value),
                _ => {}
            }
        }
        header
    }
}

fn word(state: &str) -> Word {
    match state.split_once(' ').map_or((state, ""), |(word, health)| (word, health)) {
        ("UP", "") => Word::Up,
        ("UP", _) => Word::UpFailing,
        ("NOLB", _) => Word::Nolb,
        ("DOWN", _) => Word::Down,
        _ => Word::NoCheck,
    }
}

/// Names come from the network (as visible ASCII, or the header was dropped): 64 characters of them are kept.
fn short(text: &str) -> &str {
    text.char_indices().nth(64).map_or(text, |(end, _)| &text[..end])
}
