//! What the types cannot say of a scenario as a whole: it comes in, the first [`Problem`] goes out. Its steps are
//! carried out once.

use std::time::Duration;

use crate::name::Name;
use crate::schema::parts::{Checked, fail, name_spec, resolver};
use crate::schema::problem::{Place, Problem};
use crate::schema::{NameSpec, Scenario};
use crate::zone::Zone;

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
    use crate::schema::ExpectedClass::{RotatingPool, Unresolvable};
    use crate::schema::ExpectedResolution::{Dns, DnsRoundRobin};
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
