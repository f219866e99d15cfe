//! Which faults hit one answer: those of the zone and of the name come in, the reply's response code and effects go
//! out.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use crate::answer::{Mangle, Rcode, RecordType, Reply};
use crate::command::{Family, Fault, FaultKind};

/// Rolls the dice for each fault. Returns whether the reply is final: no data is to be looked up for it.
pub(super) fn roll<'a>(
    faults: impl Iterator<Item = &'a Fault>,
    record_type: RecordType,
    rng: &mut Xoshiro256PlusPlus,
    reply: &mut Reply,
) -> bool {
    let mut done = false;
    for fault in faults {
        let applies = fault.only.is_none_or(|family| record_type == family.into());
        if !applies || (fault.share < 1.0 && rng.random_range(0.0..1.0) >= fault.share) {
            continue;
        }
        let effects = &mut reply.effects;
        done |= match fault.kind {
            FaultKind::Nodata => true,
            FaultKind::Nxdomain => set(&mut reply.rcode, Rcode::NxDomain),
            FaultKind::Servfail => set(&mut reply.rcode, Rcode::ServFail),
            FaultKind::Refused => set(&mut reply.rcode, Rcode::Refused),
            FaultKind::Drop => set(&mut effects.drop, true),
            FaultKind::Delay(by) => {
                effects.delay += by.get();
                false
            }
            FaultKind::Truncate(tcp) => {
                effects.truncate = Some(tcp);
                false
            }
            FaultKind::Garbage => mangle(&mut effects.mangle, Mangle::Garbage),
            FaultKind::WrongId => mangle(&mut effects.mangle, Mangle::WrongId),
            FaultKind::WrongQuestion => mangle(&mut effects.mangle, Mangle::WrongQuestion),
        };
    }
    done
}

/// A fault that leaves nothing to look up.
fn set<T>(place: &mut T, value: T) -> bool {
    *place = value;
    true
}

/// A fault of the message that carries the usual data.
fn mangle(place: &mut Option<Mangle>, value: Mangle) -> bool {
    *place = Some(value);
    false
}

impl From<Family> for RecordType {
    fn from(family: Family) -> Self {
        match family {
            Family::A => Self::A,
            Family::Aaaa => Self::Aaaa,
        }
    }
}
