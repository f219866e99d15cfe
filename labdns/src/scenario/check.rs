//! What the types cannot say: a scenario or a part of it comes in, the first [`Problem`] goes out. Commands at run
//! time pass the same checks as the file.

use std::fmt;
use std::time::Duration;

use super::{Cname, NameSpec, RecordSet, Scenario};
use crate::behaviour::Behaviour;
use crate::command::Fault;
use crate::name::Name;
use crate::resolver::ResolverSpec;
use crate::zone::Zone;

/// A rule that is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where in the file.
    pub(crate) place: Place,
    /// What is wrong.
    pub(crate) message: String,
    /// What to write instead.
    pub(crate) hint: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Scenario,
    Name(Name),
    Step(usize),
    Resolver(usize),
    NameServer(usize),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Scenario => {}
            Place::Name(name) => write!(f, "{name}: ")?,
            Place::Step(index) => write!(f, "step {}: ", index + 1)?,
            Place::Resolver(index) => write!(f, "resolver {}: ", index + 1)?,
            Place::NameServer(index) => write!(f, "name server {}: ", index + 1)?,
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

type Checked = Result<(), Problem>;

fn fail(message: impl Into<String>, hint: &'static str) -> Checked {
    Err(Problem { place: Place::Scenario, message: message.into(), hint })
}

/// Names the place of a problem found further in.
fn within(place: impl FnOnce() -> Place) -> impl FnOnce(Problem) -> Problem {
    |problem| Problem { place: place(), ..problem }
}

pub(super) fn check(scenario: &Scenario) -> Checked {
    for (name, spec) in &scenario.names {
        inside(name, &scenario.zone)
            .and_then(|()| name_spec(spec))
            .and_then(|()| expect(spec))
            .map_err(within(|| Place::Name(name.clone())))?;
    }
    for (index, server) in scenario.ns.iter().enumerate() {
        inside(&server.name, &scenario.zone).map_err(within(|| Place::NameServer(index)))?;
        if server.addresses.is_empty() {
            fail("a name server without an address", "give it one, 127.0.0.1 for instance")
                .map_err(within(|| Place::NameServer(index)))?;
        }
    }
    for (index, spec) in scenario.resolvers.iter().enumerate() {
        resolver(spec).map_err(within(|| Place::Resolver(index)))?;
    }
    if scenario.max_udp < 512 {
        fail("max_udp is below 512", "every DNS client accepts 512 bytes (RFC 1035): give 512 or more")?;
    }
    steps(scenario)
}

/// Carries every step's command out once, on a zone that is thrown away.
fn steps(scenario: &Scenario) -> Checked {
    let mut zone = Zone::new(&Scenario { steps: Vec::new(), ..scenario.clone() }, 0);
    let mut in_time: Vec<_> = scenario.steps.iter().enumerate().collect();
    in_time.sort_by_key(|(_, step)| step.at.from);
    for (index, step) in in_time {
        let place = within(|| Place::Step(index));
        if step.every.is_some_and(|every| every.get().as_millis() < 10) {
            return fail("`every` is less than 10 ms", "give 10ms or more").map_err(place);
        }
        if step.times.is_some() && step.every.is_none() {
            return fail("`times` without `every`", "say after which time it repeats").map_err(place);
        }
        zone.apply(step.r#do.clone(), Duration::ZERO).map_err(|error| {
            place(Problem { place: Place::Scenario, message: error.to_string(), hint: error.hint() })
        })?;
    }
    Ok(())
}

fn inside(name: &Name, zone: &Name) -> Checked {
    if name.is_within(zone) {
        return Ok(());
    }
    fail(format!("outside the zone {zone}"), "choose a name in the zone, or change `zone`")
}

/// Scoring needs an answer to judge.
fn expect(spec: &NameSpec) -> Checked {
    use super::ExpectedClass::{RotatingPool, Unresolvable};
    use super::ExpectedResolution::{Dns, DnsRoundRobin};
    let Some(expect) = spec.expect else { return Ok(()) };
    match (expect.class, expect.resolution) {
        (RotatingPool, Some(Dns)) | (Unresolvable, Some(_)) => fail(
            "`expect` contradicts itself",
            "RotatingPool goes with DNS_ROUND_ROBIN, Unresolvable with none",
        ),
        (class, Some(DnsRoundRobin)) if class != RotatingPool => {
            fail("`expect` contradicts itself", "DNS_ROUND_ROBIN goes with RotatingPool only")
        }
        _ => Ok(()),
    }
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

fn resolver(spec: &ResolverSpec) -> Checked {
    if spec.caches == 0 || spec.caches > 1024 {
        return fail("`caches` must be 1 to 1024", "a farm of 4 is usual");
    }
    if !(0.0..=1.0).contains(&spec.loss) {
        return fail("`loss` is not within 0 to 1", "0.3 loses three answers of ten");
    }
    Ok(())
}
