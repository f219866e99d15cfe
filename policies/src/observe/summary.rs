//! The [`Observation`] out of an [`Observer`]'s record: presence, changes, pool size, disagreement. Pure arithmetic
//! over the draws.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;

use super::pool::{self, Series, ratio, real};
use super::{AddressSeen, Draw, Flip, Observation, Observer, Span};

/// Flips that are listed one by one.
const LISTED_FLIPS: usize = 100;
/// Answers of one authority this close are valid at the same time, milliseconds.
const SIMULTANEOUS_MS: i64 = 1000;
/// Draws in which a set comes one after the other before it counts as one that stood.
const LASTING: usize = 3;

pub(super) fn summarise(observer: &Observer, draws: Vec<Draw>, ended_at: Timestamp) -> Observation {
    let (presence, series) = presence(&draws);
    let changes = changes(&draws, observer.sources.len());
    let once = presence.iter().filter(|a| a.draws == 1).count();
    let twice = presence.iter().filter(|a| a.draws == 2).count();
    let incidences = draws.iter().map(|d| d.set.len()).sum();
    let sources: Vec<_> = (0..observer.sources.len()).map(|source| Drawn::by(source, &draws)).collect();
    Observation {
        host: observer.host.clone(),
        record_type: observer.record_type,
        started_at: observer.started_at,
        ended_at,
        queries: observer.queries,
        outcomes: observer.outcomes.clone(),
        truncated: observer.truncated,
        answer_size: sizes(&draws),
        distinct_sets: distinct_sets(&draws),
        set_changes: changes.all,
        simultaneous_changes: changes.simultaneous,
        order_changes: observer.order_changes,
        flips: changes.flips,
        ttl: observer.ttl(),
        mean_overlap: changes.mean_overlap,
        resolvers_disagree: disagree(&sources),
        pool: pool::estimate(&series, incidences, once, twice),
        sources: observer
            .sources
            .iter()
            .zip(sources)
            .map(|(state, Drawn { draws, addresses })| super::SourceSeen {
                draws,
                addresses: addresses.len(),
                ..state.seen.clone()
            })
            .collect(),
        cname_chains: chains(observer),
        addresses: presence,
        draws,
    }
}

/// How often each address was seen, and the series for the likelihood of the pool, which takes every draw as it comes.
fn presence(draws: &[Draw]) -> (Vec<AddressSeen>, Series) {
    // Sorted by address: how many draws held it, and in how many it came first.
    let mut counts: Vec<(IpAddr, usize, usize)> = Vec::new();
    let mut series = Series::default();
    for draw in draws {
        let known = counts.len();
        for addr in &*draw.set {
            let place = counts.binary_search_by_key(addr, |(known, ..)| *known).unwrap_or_else(|place| {
                counts.insert(place, (*addr, 0, 0));
                place
            });
            let (_, held, first) = &mut counts[place];
            *held += 1;
            *first += usize::from(draw.first == *addr);
        }
        series.draw(draw.set.len(), counts.len() - known);
    }
    let seen = |(addr, held, first)| AddressSeen {
        addr,
        draws: held,
        presence: ratio(held, draws.len()),
        first: ratio(first, draws.len()),
    };
    let mut addresses: Vec<_> = counts.into_iter().map(seen).collect();
    addresses.sort_by_key(|address| std::cmp::Reverse(address.draws));
    (addresses, series)
}

fn distinct_sets(draws: &[Draw]) -> usize {
    let mut sets: Vec<&[IpAddr]> = draws.iter().map(|draw| &*draw.set).collect();
    sets.sort_unstable();
    sets.dedup();
    sets.len()
}

/// What one source drew.
struct Drawn {
    draws: usize,
    /// Sorted.
    addresses: Vec<IpAddr>,
}

impl Drawn {
    fn by(source: usize, draws: &[Draw]) -> Self {
        let own = || draws.iter().filter(|draw| draw.source == source);
        // Equal answers in a row share one set.
        let same = |a: &&Draw, b: &&Draw| Arc::ptr_eq(&a.set, &b.set);
        let sets = own().collect::<Vec<_>>();
        let sets = sets.chunk_by(same).filter_map(|run| run.first());
        let mut addresses: Vec<_> = sets.flat_map(|draw| draw.set.iter()).copied().collect();
        addresses.sort_unstable();
        addresses.dedup();
        Self { draws: own().count(), addresses }
    }
}

fn sizes(draws: &[Draw]) -> Span {
    let mut sizes: Vec<usize> = draws.iter().map(|d| d.set.len()).collect();
    sizes.sort_unstable();
    match sizes[..] {
        [] => Span::default(),
        [min, ..] => Span { min, median: sizes[(sizes.len() - 1) / 2], max: sizes[sizes.len() - 1] },
    }
}

#[derive(Default)]
struct Changes {
    all: usize,
    simultaneous: usize,
    mean_overlap: f64,
    flips: Vec<Flip>,
}

/// Compares each draw with the one before it from the same source. A change counts as a flip if the sets that it
/// separates stood for two draws or share half of their addresses, and the source never gave two answers at once.
fn changes(draws: &[Draw], sources: usize) -> Changes {
    let mut changes = Changes::default();
    let (mut pairs, mut shared) = (0, 0);
    for source in 0..sources {
        let own: Vec<&Draw> = draws.iter().filter(|d| d.source == source).collect();
        let mut flips = Vec::new();
        let mut at_once = 0;
        for (i, pair) in own.windows(2).enumerate() {
            let [before, after] = pair else { continue };
            let common = overlap(&before.set, &after.set);
            pairs += 1;
            shared += common;
            if before.set == after.set {
                continue;
            }
            changes.all += 1;
            let quick = !before.cached && !after.cached && span(before, after) <= SIMULTANEOUS_MS;
            at_once += usize::from(quick && !(lasted(own[..=i].iter().rev()) && lasted(own[i + 1..].iter())));
            let stood =
                |a: Option<&&Draw>, b: Option<&&Draw>| matches!((a, b), (Some(a), Some(b)) if a.set == b.set);
            let stable = stood(i.checked_sub(1).and_then(|p| own.get(p)), own.get(i))
                || stood(own.get(i + 1), own.get(i + 2));
            let union = before.set.len() + after.set.len() - common;
            if stable || 2 * common >= union {
                flips.push(Flip { at: after.at, from: before.set.to_vec(), to: after.set.to_vec() });
            }
        }
        changes.simultaneous += at_once;
        if at_once == 0 {
            changes.flips.append(&mut flips);
        }
    }
    changes.flips.sort_by_key(|f| f.at);
    changes.flips.truncate(LISTED_FLIPS);
    changes.mean_overlap = real(shared) / real(pairs.max(1));
    changes
}

/// The set at the start of these draws stood for longer than answers that are valid at the same time take turns: a
/// change between two such sets is a flip that happened to be met within a second.
fn lasted<'a>(draws: impl Iterator<Item = &'a &'a Draw>) -> bool {
    let mut draws = draws.peekable();
    let Some(start) = draws.peek().copied() else { return false };
    let (count, end) =
        draws.take_while(|draw| draw.set == start.set).fold((0, start), |(count, _), draw| (count + 1, draw));
    count >= LASTING && span(start, end).abs() > SIMULTANEOUS_MS
}

fn span(from: &Draw, to: &Draw) -> i64 {
    to.at.as_millisecond() - from.at.as_millisecond()
}

/// Addresses that two sorted sets share.
pub(crate) fn overlap(a: &[IpAddr], b: &[IpAddr]) -> usize {
    let (mut i, mut j, mut common) = (0, 0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        match x.cmp(y) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => (i, j, common) = (i + 1, j + 1, common + 1),
        }
    }
    common
}

/// Two sources with two draws each never shared an address.
fn disagree(sources: &[Drawn]) -> bool {
    let known: Vec<_> = sources.iter().filter(|source| source.draws > 1).collect();
    known
        .iter()
        .enumerate()
        .any(|(i, a)| known[i + 1..].iter().any(|b| overlap(&a.addresses, &b.addresses) == 0))
}

fn chains(observer: &Observer) -> Vec<String> {
    let mut chains: Vec<_> = observer.chains.iter().collect();
    chains.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let text =
        |chain: &[crate::Cname]| chain.iter().map(|c| c.target.as_str()).collect::<Vec<_>>().join(" -> ");
    chains.iter().map(|(chain, _)| text(chain)).collect()
}
