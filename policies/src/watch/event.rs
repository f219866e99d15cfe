//! What happened to a name: the closed set of events, each with the hash that names it. The machines of this module
//! raise them; the store keeps them, the page, the metrics and the webhooks tell them.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Host, RecordType, ResolutionClass};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// A hash of everything else: the same event told twice has the same id.
    pub id: String,
    /// When the answer that settled it came.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// When it began: the first answer that showed it.
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// The name.
    pub host: Host,
    /// The record type; absent where the event is about the name as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_type: Option<RecordType>,
    /// The server whose answers showed it, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", rename_all_fields = "snake_case", deny_unknown_fields)]
pub enum What {
    /// Every address was replaced: a fail-over, a switch of blue and green.
    Flip {
        /// The addresses before, sorted.
        #[schemars(with = "Vec<String>")]
        from: Vec<IpAddr>,
        /// The addresses after, sorted.
        #[schemars(with = "Vec<String>")]
        to: Vec<IpAddr>,
    },
    /// Addresses left the pool; others stayed.
    Withdrawn {
        /// Those that left, sorted.
        #[schemars(with = "Vec<String>")]
        addresses: Vec<IpAddr>,
        /// How many are left.
        left: usize,
    },
    /// Addresses that were withdrawn came back.
    Returned {
        /// Those that came back, sorted.
        #[schemars(with = "Vec<String>")]
        addresses: Vec<IpAddr>,
    },
    /// Addresses joined the pool that were not in it before.
    Added {
        /// Those that joined, sorted.
        #[schemars(with = "Vec<String>")]
        addresses: Vec<IpAddr>,
    },
    /// The name has no address any more: NXDOMAIN or NODATA, agreed by several answers. It empties a `STRICT_DNS` cluster.
    Vanished {
        /// NXDOMAIN, as opposed to NODATA.
        nx_domain: bool,
    },
    /// What was wrong is over.
    Recovered {
        /// What was wrong.
        from: Trouble,
    },
    /// Lookups bring neither addresses nor a denial: timeouts, SERVFAIL, REFUSED.
    LookupsFailing {
        /// The outcome of the last one, such as `timeout`.
        outcome: String,
    },
    /// The name answers in another way than before.
    ClassChanged {
        /// The class before; `InsufficientData` where this is the first one.
        from: ResolutionClass,
        /// The class from now on.
        to: ResolutionClass,
    },
    /// The published time to live changed, seconds.
    TtlChanged {
        /// Before.
        from_s: u32,
        /// After.
        to_s: u32,
    },
    /// Two servers answer with pools that share no address.
    SourcesDisagree {
        /// The servers.
        servers: [String; 2],
    },
    /// Nothing but unroutable addresses: a sinkhole, or a blocked name.
    Unroutable {
        /// What was answered, sorted.
        #[schemars(with = "Vec<String>")]
        addresses: Vec<IpAddr>,
    },
    /// The name is watched from now on.
    EntryAdded,
    /// The name is not watched any more.
    EntryRemoved,
}

/// What a name may recover from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// It had no address.
    Vanished,
    /// Lookups failed.
    LookupsFailing,
    /// It had unroutable addresses only.
    Unroutable,
}

impl What {
    /// The kinds, in the order in which they are documented: the values of the metrics' label.
    pub const KINDS: [&'static str; 13] = [
        "flip",
        "withdrawn",
        "returned",
        "added",
        "vanished",
        "recovered",
        "lookups_failing",
        "class_changed",
        "ttl_changed",
        "sources_disagree",
        "unroutable",
        "entry_added",
        "entry_removed",
    ];

    /// The kind in snake case, as it is spelled in JSON.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        Self::KINDS[match self {
            Self::Flip { .. } => 0,
            Self::Withdrawn { .. } => 1,
            Self::Returned { .. } => 2,
            Self::Added { .. } => 3,
            Self::Vanished { .. } => 4,
            Self::Recovered { .. } => 5,
            Self::LookupsFailing { .. } => 6,
            Self::ClassChanged { .. } => 7,
            Self::TtlChanged { .. } => 8,
            Self::SourcesDisagree { .. } => 9,
            Self::Unroutable { .. } => 10,
            Self::EntryAdded => 11,
            Self::EntryRemoved => 12,
        }]
    }
}

impl fmt::Display for What {
    /// A sentence's predicate, such as `flipped from 192.0.2.1 to 192.0.2.2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flip { from, to } => write!(f, "flipped from {} to {}", list(from), list(to)),
            Self::Withdrawn { addresses, left } => {
                write!(f, "no longer answers with {}; {left} left", list(addresses))
            }
            Self::Returned { addresses } => write!(f, "answers with {} again", list(addresses)),
            Self::Added { addresses } => write!(f, "now answers with {} too", list(addresses)),
            Self::Vanished { nx_domain: true } => f.write_str("does not exist any more (NXDOMAIN)"),
            Self::Vanished { nx_domain: false } => f.write_str("has no address any more (NODATA)"),
            Self::Recovered { from: Trouble::Vanished } => f.write_str("has addresses again"),
            Self::Recovered { from: Trouble::LookupsFailing } => f.write_str("can be looked up again"),
            Self::Recovered { from: Trouble::Unroutable } => f.write_str("has routable addresses again"),
            Self::LookupsFailing { outcome } => write!(f, "cannot be looked up ({outcome})"),
            Self::ClassChanged { from: ResolutionClass::InsufficientData, to } => write!(f, "is {to:?}"),
            Self::ClassChanged { from, to } => write!(f, "was {from:?} and is now {to:?}"),
            Self::TtlChanged { from_s, to_s } => write!(f, "changed its TTL from {from_s} s to {to_s} s"),
            Self::SourcesDisagree { servers: [one, other] } => {
                write!(f, "has no address in common at {one} and {other}")
            }
            Self::Unroutable { addresses } => {
                write!(f, "answers with unroutable addresses only ({})", list(addresses))
            }
            Self::EntryAdded => f.write_str("is watched from now on"),
            Self::EntryRemoved => f.write_str("is not watched any more"),
        }
    }
}

/// Addresses that a sentence names; more are counted.
const NAMED: usize = 8;

fn list(addresses: &[IpAddr]) -> String {
    let mut text = String::new();
    for (i, addr) in addresses.iter().take(NAMED).enumerate() {
        let _ = write!(text, "{}{addr}", if i > 0 { ", " } else { "" });
    }
    if addresses.len() > NAMED {
        let _ = write!(text, " and {} more", addresses.len() - NAMED);
    }
    text
}

impl Event {
    /// An event with its id.
    #[must_use]
    pub fn new(
        host: Host,
        record_type: Option<RecordType>,
        source: Option<String>,
        [since, at]: [Timestamp; 2],
        what: What,
    ) -> Self {
        let mut event = Self { id: String::new(), at, since, host, record_type, source, what };
        event.id = event.hash();
        event
    }

    /// FNV-1a, 128 bits, of everything but the id: stable over releases, machines and restarts.
    fn hash(&self) -> String {
        let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        let mut feed = |text: &str| {
            for byte in text.bytes().chain([0]) {
                hash = (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
            }
        };
        feed(&self.at.as_millisecond().to_string());
        feed(&self.since.as_millisecond().to_string());
        feed(self.host.as_str());
        feed(&self.record_type.map(|t| t.to_string()).unwrap_or_default());
        feed(self.source.as_deref().unwrap_or_default());
        feed(self.what.kind());
        feed(&self.what.to_string());
        if let What::Flip { from, to } = &self.what {
            for addr in from.iter().chain(to) {
                feed(&addr.to_string());
            }
        }
        if let What::Withdrawn { addresses, .. } | What::Added { addresses } | What::Returned { addresses } =
            &self.what
        {
            for addr in addresses {
                feed(&addr.to_string());
            }
        }
        format!("{hash:032x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_a_hash_of_what_the_event_says() {
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let host = Host::parse("api.partner.example").unwrap();
        let event = |what| Event::new(host.clone(), Some(RecordType::A), None, [at, at], what);
        let flip =
            |last| What::Flip { from: vec![[192, 0, 2, 1].into()], to: vec![[192, 0, 2, last].into()] };
        assert_eq!(event(flip(2)).id, event(flip(2)).id);
        assert_ne!(event(flip(2)).id, event(flip(3)).id);
        assert_eq!(event(flip(2)).id.len(), 32);
        let json = serde_json::to_string(&event(flip(2))).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event(flip(2)));
    }

    #[test]
    fn every_kind_is_spelled_as_in_json() {
        for what in [
            What::Vanished { nx_domain: true },
            What::EntryAdded,
            What::TtlChanged { from_s: 1, to_s: 2 },
            What::Recovered { from: Trouble::Vanished },
        ] {
            let json = serde_json::to_value(&what).unwrap();
            let spelled = json.as_str().map(str::to_owned);
            let spelled = spelled.or_else(|| json.as_object()?.keys().next().cloned()).unwrap();
            assert_eq!(spelled, what.kind());
        }
    }
}
