//! Observations in short form: what a test says of a family becomes a whole [`Observation`].

use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use policies::observe::PoolEstimate;
use policies::{
    Answer, Classification, DnsSample, Family, Host, Observation, ObservationWindow, Observed, Outcome,
    Platform, Recommendation, RecordType, ResolutionClass, Settings, Source, Trait, Vantage, observe,
    recommend,
};

/// What a window showed of one family, in short.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) class: ResolutionClass,
    pub(crate) traits: Vec<Trait>,
    /// Last octets of each draw.
    pub(crate) draws: Vec<Vec<u8>>,
    pub(crate) order_changes: usize,
    pub(crate) ttl: (u32, u32),
    pub(crate) pool: Option<(usize, f64)>,
}

impl Seen {
    pub(crate) fn new(class: ResolutionClass, draws: &[&[u8]]) -> Self {
        let draws = draws.iter().map(|draw| draw.to_vec()).collect();
        Self { class, traits: Vec::new(), draws, order_changes: 0, ttl: (30, 30), pool: None }
    }

    /// The facts of a window in which an authority gave these draws, one a second.
    pub(crate) fn observation(&self, host: &str) -> Observation {
        let server = "192.0.2.53:53".parse().unwrap();
        let source = Source { server, vantage: Vantage::Authority, ecs: None, name: None };
        let start = Timestamp::UNIX_EPOCH;
        let mut window =
            ObservationWindow::new(Host::parse(host).unwrap(), RecordType::A, vec![source], start);
        for draw in &self.draws {
            let at = window.ended_at + SignedDuration::from_secs(1);
            let answers: Vec<Answer> = (0..)
                .zip(draw)
                .map(|(place, octet)| Answer {
                    addr: IpAddr::from([192, 0, 2, *octet]),
                    ttl: if place == 0 { self.ttl.1 } else { self.ttl.0 },
                })
                .collect();
            let outcome = if answers.is_empty() {
                Outcome::NoData
            } else {
                Outcome::Answered { answers, cname_chain: Vec::new() }
            };
            window.samples.push(DnsSample {
                at,
                source: 0,
                rtt: Duration::from_millis(1),
                outcome,
                response: None,
            });
            window.ended_at = at;
        }
        let mut seen = observe(&window);
        seen.order_changes = self.order_changes;
        seen.flips.clear();
        if let Some((estimate, coverage)) = self.pool {
            let seen_addresses = seen.addresses.len();
            let low = seen_addresses;
            seen.pool = Some(PoolEstimate { seen: seen_addresses, estimate, low, high: None, coverage });
        }
        seen
    }

    pub(crate) fn classification(&self, host: &str) -> Classification {
        Classification {
            host: Host::parse(host).unwrap(),
            record_type: RecordType::A,
            class: self.class,
            traits: self.traits.clone(),
            confidence: 0.99,
            decided: self.class != ResolutionClass::InsufficientData,
            reasons: Vec::new(),
            needs: None,
            blind_spots: Vec::new(),
        }
    }

    pub(crate) fn advice(&self, host: &str, platform: &Platform, settings: &Settings) -> Recommendation {
        let (observation, classification) = (self.observation(host), self.classification(host));
        let a = Family { observation: &observation, classification: &classification };
        recommend(&Observed { a, aaaa: None }, platform, settings)
    }
}
