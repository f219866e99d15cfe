//! What the types cannot say of a part of a scenario: the part comes in, the first [`Problem`] goes out. Commands at run
//! time pass the same checks as the file.

use super::NameSpec;
use super::problem::{Place, Problem};
use super::records::{Cname, RecordSet};
use super::resolver::ResolverSpec;
use crate::behaviour::Behaviour;
use crate::command::Fault;

pub(crate) type Checked = Result<(), Problem>;

pub(crate) fn fail(message: impl Into<String>, hint: &'static str) -> Checked {
    Err(Problem { place: Place::Scenario, message: message.into(), hint })
}

pub(crate) fn name_spec(spec: &NameSpec) -> Checked {
    if let Some(cname) = &spec.cname {
        if spec.a.is_some() || spec.aaaa.is_some() {
            return fail(
                "an alias and addresses at once",
                "keep either `cname` or `a` and `aaaa` (RFC 1034, 3.6.2)",
            );
        }
        alias(cname)?;
    }
    for (records, v4) in [(&spec.a, true), (&spec.aaaa, false)] {
        if let Some(records) = records {
            record_set(records, v4)?;
        }
    }
    spec.faults.iter().try_for_each(fault)
}

fn alias(cname: &Cname) -> Checked {
    if cname.to.is_empty() {
        return fail("an alias without a target", "give `to` at least one name");
    }
    if cname.hold.is_some_and(|hold| hold.get().is_zero()) {
        return fail("`hold` of no length", "leave it out, or give a time such as 60s");
    }
    Ok(())
}

fn record_set(records: &RecordSet, v4: bool) -> Checked {
    let pools = records.groups.iter().map(|group| &group.pool).chain(&records.pool);
    if !pools.clone().all(|pool| pool.is_family(v4)) {
        let (key, family) = if v4 { ("a", "IPv4") } else { ("aaaa", "IPv6") };
        return fail(
            format!("`{key}` holds an address that is not {family}"),
            "IPv4 goes in `a`, IPv6 in `aaaa`",
        );
    }
    if records.pool.is_some() != records.groups.is_empty() {
        return fail("a record set has either `pool` or `groups`", "keep one of the two");
    }
    if !records.groups.is_empty() && (records.members.is_some() || !records.flaps.is_empty()) {
        return fail("`members` and `flaps` go with `pool`", "leave them out where there are `groups`");
    }
    if let Some(members) = records.members {
        in_service(members, records)?;
    }
    if let Some(pool) = &records.pool {
        if let Some(flap) = records.flaps.iter().find(|flap| pool.position(flap.address).is_none()) {
            return fail(format!("{} flaps but is not in the pool", flap.address), "add it to the pool");
        }
        behaviour(&records.answer, pool.len())?;
    }
    if records.flaps.iter().any(|flap| (flap.up.get() + flap.down.get()).is_zero()) {
        return fail("a flap of no length", "give `up` and `down` a time such as 30s");
    }
    hold(records)?;
    for group in &records.groups {
        behaviour(group.answer.as_ref().unwrap_or(&records.answer), group.pool.len())?;
    }
    if !records.groups.is_empty() {
        weights(&records.groups.iter().map(|group| group.weight).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// A number of members in service.
pub(crate) fn in_service(members: usize, records: &RecordSet) -> Checked {
    if members == 0 {
        return fail("no members in service", "give 1 or more; for an empty answer use the fault `nodata`");
    }
    match &records.pool {
        Some(pool) if members <= pool.len() => Ok(()),
        Some(pool) => {
            let message = format!("{members} members of a pool of {}", pool.len());
            fail(message, "enlarge the pool or lower `members`")
        }
        None => fail("`members` without a `pool`", "leave it out where there are `groups`"),
    }
}

fn hold(records: &RecordSet) -> Checked {
    let Some(hold) = &records.hold else { return Ok(()) };
    if hold.every.get().is_zero() || hold.draw == Some(0) {
        return fail("`hold` of nothing", "give `every` a time such as 60s and `draw` 1 or more");
    }
    let weighted =
        |behaviour: &Behaviour| matches!(behaviour, Behaviour::Weighted { .. } | Behaviour::Zipf { .. });
    let behaviours = records.groups.iter().filter_map(|group| group.answer.as_ref());
    if hold.draw.is_some() && behaviours.chain([&records.answer]).any(weighted) {
        return fail("`hold.draw` with a weighted answer", "use `random`, `all`, `cyclic` or `sticky` there");
    }
    Ok(())
}

fn behaviour(behaviour: &Behaviour, members: usize) -> Checked {
    match behaviour {
        Behaviour::Weighted { weights: given, .. } if given.len() != members => fail(
            format!("{} weights for {members} addresses", given.len()),
            "give one weight per address, in the pool's order",
        ),
        Behaviour::Weighted { weights: given, .. } => weights(given),
        Behaviour::Zipf { exponent, .. } if !(exponent.is_finite() && *exponent >= 0.0) => {
            fail("the exponent of `zipf` is no positive number", "1.0 is the usual one")
        }
        Behaviour::Cyclic { every: Some(every), .. } if every.get().is_zero() => {
            fail("`every` of no length", "leave it out, or give a time such as 60s")
        }
        _ => Ok(()),
    }
}

pub(crate) fn weights(weights: &[f64]) -> Checked {
    if weights.iter().all(|w| w.is_finite() && *w >= 0.0) && weights.iter().sum::<f64>() > 0.0 {
        return Ok(());
    }
    fail("weights must be 0 or more, and one of them more than 0", "shares such as [90, 8, 1, 1] will do")
}

pub(crate) fn fault(fault: &Fault) -> Checked {
    if (0.0..=1.0).contains(&fault.share) {
        return Ok(());
    }
    fail("the `share` of a fault is not within 0 to 1", "0.3 hits three answers of ten")
}

pub(crate) fn resolver(spec: &ResolverSpec) -> Checked {
    if spec.caches == 0 || spec.caches > 1024 {
        return fail("`caches` must be 1 to 1024", "a farm of 4 is usual");
    }
    if !(0.0..=1.0).contains(&spec.loss) {
        return fail("`loss` is not within 0 to 1", "0.3 loses three answers of ten");
    }
    Ok(())
}
