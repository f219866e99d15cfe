//! Observations in short form: what a test says of a family becomes a whole [`Observation`].

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;
use policies::observe::{AddressSeen, Draw, PoolEstimate, SourceSeen, Span, TtlSeen};
use policies::{
    Classification, Family, Host, Observation, Observed, Platform, Recommendation, RecordType,
    ResolutionClass, Settings, Trait, Vantage, recommend,
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

    pub(crate) fn observation(&self, host: &str) -> Observation {
        let sets: Vec<Vec<IpAddr>> = self
            .draws
            .iter()
            .map(|draw| draw.iter().map(|octet| IpAddr::from([192, 0, 2, *octet])).collect())
            .collect();
        let union: BTreeSet<IpAddr> = sets.iter().flatten().copied().collect();
        let overlaps: Vec<usize> = sets
            .windows(2)
            .map(|pair| pair[1].iter().filter(|addr| pair[0].contains(addr)).count())
            .collect();
        let sizes: Vec<usize> = sets.iter().map(Vec::len).collect();
        let mut sorted = sizes.clone();
        sorted.sort_unstable();
        let median = sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(0);
        Observation {
            host: Host::parse(host).unwrap(),
            record_type: RecordType::A,
            started_at: Timestamp::UNIX_EPOCH,
            ended_at: Timestamp::UNIX_EPOCH,
            queries: sets.len(),
            outcomes: Vec::new(),
            truncated: 0,
            addresses: union
                .iter()
                .map(|addr| AddressSeen { addr: *addr, draws: 1, presence: 0.5, first: 0.5 })
                .collect(),
            answer_size: Span {
                min: sorted.first().copied().unwrap_or(0),
                median,
                max: sorted.last().copied().unwrap_or(0),
            },
            distinct_sets: sets.iter().collect::<BTreeSet<_>>().len(),
            set_changes: sets.windows(2).filter(|pair| pair[0] != pair[1]).count(),
            order_changes: self.order_changes,
            flips: Vec::new(),
            ttl: (!sets.is_empty()).then_some(TtlSeen {
                strict_s: self.ttl.0,
                logical_s: self.ttl.1,
                lowest_s: self.ttl.0,
                highest_s: self.ttl.1,
            }),
            mean_overlap: if overlaps.is_empty() {
                0.0
            } else {
                f64::from(u32::try_from(overlaps.iter().sum::<usize>()).unwrap())
                    / f64::from(u32::try_from(overlaps.len()).unwrap())
            },
            resolvers_disagree: false,
            pool: self.pool.map(|(estimate, coverage)| PoolEstimate {
                seen: union.len(),
                estimate,
                low: union.len(),
                high: None,
                coverage,
            }),
            sources: vec![SourceSeen {
                source: 0,
                vantage: Vantage::Authority,
                queries: sets.len(),
                answered: sets.len(),
                draws: sets.len(),
                addresses: union.len(),
            }],
            cname_chains: Vec::new(),
            draws: sets.into_iter().map(|set| Draw { at: Timestamp::UNIX_EPOCH, source: 0, set }).collect(),
        }
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
