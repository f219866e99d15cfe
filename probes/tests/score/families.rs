//! Behaviours drawn at random: each family has a shape and parameters of its own, and the right verdict follows from
//! them. A seed comes in, scenarios as `lab score` reads them go out. Used by the tests of the score.

use std::fmt::Write as _;

use probes::names::score::Case;

/// `SplitMix64`: small, seeded, the same everywhere.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `low` to `high`, both included.
    fn of(&mut self, low: usize, high: usize) -> usize {
        low + usize::try_from(self.next() % (high - low + 1) as u64).unwrap_or(0)
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.of(0, of.len() - 1)]
    }

    fn ttl(&mut self) -> usize {
        self.one(&[5, 10, 15, 20, 30, 30, 30, 60])
    }
}

/// A name, its expectation, its records and its steps.
struct Behaviour {
    rotating: bool,
    several: bool,
    records: String,
    steps: String,
    resolvers: String,
}

impl Behaviour {
    fn new(rotating: bool, several: bool, records: String) -> Self {
        Self { rotating, several, records, steps: String::new(), resolvers: String::new() }
    }

    fn yaml(&self) -> String {
        let (class, resolution) = match (self.rotating, self.several) {
            (true, _) => ("RotatingPool", "DNS_ROUND_ROBIN"),
            (false, true) => ("FixedMultiIp", "DNS"),
            (false, false) => ("SingleVip", "DNS"),
        };
        let mut text = format!(
            "names:\n  name.example:\n    expect: {{class: {class}, resolution: {resolution}}}\n    a: {{{}}}\n",
            self.records
        );
        for (key, value) in [("steps", &self.steps), ("resolvers", &self.resolvers)] {
            if !value.is_empty() {
                let _ = write!(text, "{key}:\n{value}");
            }
        }
        text
    }
}

type Family = fn(&mut Dice) -> Behaviour;

/// All families. Pools lie on either side of the range between small and large, in which neither verdict is right.
const FAMILIES: [(&str, Family); 20] = [
    ("fixed", fixed),
    ("few at random", few_at_random),
    ("many at random", many_at_random),
    ("few in turn", few_in_turn),
    ("many in turn", many_in_turn),
    ("few that slide", few_that_slide),
    ("many that slide", many_that_slide),
    ("primary and a large pool", primary_and_many),
    ("primary and a few", primary_and_few),
    ("many, held", many_held),
    ("few, held", few_held),
    ("many, several held", several_held),
    ("weighted pair", weighted_pair),
    ("two regions", two_regions),
    ("weighted sites", weighted_sites),
    ("fail-over", fail_over),
    ("replaced together", replaced_together),
    ("rolling replacement", rolling),
    ("growing", growing),
    ("zipf", zipf),
];

/// `each` behaviours of each family.
pub(crate) fn generated(seed: u64, each: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    for (number, (name, family)) in (0_u64..).zip(FAMILIES) {
        let mut dice = Dice(seed ^ (number << 32));
        for i in 0..each {
            let yaml = family(&mut dice).yaml();
            let case = Case::all_of(&format!("{name} {i}"), &yaml);
            cases.extend(case.unwrap_or_else(|error| panic!("{name}: {error}\n{yaml}")));
        }
    }
    cases
}

fn pool(count: usize) -> String {
    format!("pool: {{from: 10.0.0.1, count: {count}}}")
}

fn fixed(dice: &mut Dice) -> Behaviour {
    let n = dice.one(&[1, 1, 1, 2, 3, 4, 8, 20]);
    let order = dice.one(&["fixed", "shuffled"]);
    Behaviour::new(false, n > 1, format!("{}, order: {order}, ttl: {}", pool(n), dice.ttl()))
}

fn few_at_random(dice: &mut Dice) -> Behaviour {
    let take = dice.of(1, 5);
    let n = dice.of(take + 1, 14);
    let records = format!("{}, answer: {{random: {{take: {take}}}}}, ttl: {}", pool(n), dice.ttl());
    Behaviour::new(false, take > 1, records)
}

fn many_at_random(dice: &mut Dice) -> Behaviour {
    let take = dice.of(1, 8);
    let n = dice.of(64, 2000);
    let records = format!("{}, answer: {{random: {{take: {take}}}}}, ttl: {}", pool(n), dice.ttl());
    Behaviour::new(true, take > 1, records)
}

fn few_in_turn(dice: &mut Dice) -> Behaviour {
    let take = dice.of(1, 4);
    let n = take * dice.of(2, 14 / take);
    let records = format!("{}, answer: {{cyclic: {{take: {take}}}}}, ttl: {}", pool(n), dice.ttl());
    Behaviour::new(false, take > 1, records)
}

fn many_in_turn(dice: &mut Dice) -> Behaviour {
    let take = dice.of(1, 4);
    let n = take * dice.of(30, 200);
    let records = format!("{}, answer: {{cyclic: {{take: {take}}}}}, ttl: {}", pool(n.max(64)), dice.ttl());
    Behaviour::new(true, take > 1, records)
}

fn few_that_slide(dice: &mut Dice) -> Behaviour {
    let take = dice.of(2, 8);
    let n = dice.of(take + 1, 15);
    let step = dice.of(1, 2);
    let answer = format!("answer: {{cyclic: {{take: {take}, step: {step}}}}}");
    Behaviour::new(false, true, format!("{}, {answer}, ttl: {}", pool(n), dice.ttl()))
}

fn many_that_slide(dice: &mut Dice) -> Behaviour {
    let take = dice.of(3, 10);
    let step = dice.of(1, take - 1);
    let answer = format!("answer: {{cyclic: {{take: {take}, step: {step}}}}}");
    Behaviour::new(true, true, format!("{}, {answer}, ttl: {}", pool(dice.of(100, 400)), dice.ttl()))
}

fn primary_and_many(dice: &mut Dice) -> Behaviour {
    let share = dice.of(15, 70);
    let many = pool(dice.of(80, 1000)).replace("10.0.", "10.9.");
    let groups = format!(
        "groups: [{{pool: [192.0.2.1], weight: {}}}, {{{many}, answer: {{random: {{}}}}, weight: {share}}}]",
        100 - share
    );
    Behaviour::new(true, false, format!("{groups}, ttl: {}", dice.ttl()))
}

fn primary_and_few(dice: &mut Dice) -> Behaviour {
    let share = dice.of(5, 60);
    let n = dice.of(2, 8);
    let few = pool(n).replace("10.0.", "10.9.");
    let groups = format!(
        "groups: [{{pool: [192.0.2.1], weight: {}}}, {{{few}, answer: {{random: {{}}}}, weight: {share}}}]",
        100 - share
    );
    Behaviour::new(false, false, format!("{groups}, ttl: {}", dice.ttl()))
}

fn many_held(dice: &mut Dice) -> Behaviour {
    let take = dice.of(1, 6);
    let hold = dice.of(20, 130);
    let ttl = dice.one(&[5, 10, 20, 30]);
    let n = dice.of(200, 3000);
    let answer = format!("answer: {{random: {{take: {take}}}}}, hold: {{every: {hold}s}}");
    Behaviour::new(true, take > 1, format!("{}, {answer}, ttl: {ttl}", pool(n)))
}

fn few_held(dice: &mut Dice) -> Behaviour {
    let take = dice.of(1, 4);
    let n = dice.of(take + 1, 10);
    let hold = dice.of(20, 130);
    let ttl = dice.one(&[5, 10, 20, 30]);
    let answer = format!("answer: {{random: {{take: {take}}}}}, hold: {{every: {hold}s}}");
    Behaviour::new(false, take > 1, format!("{}, {answer}, ttl: {ttl}", pool(n)))
}

fn several_held(dice: &mut Dice) -> Behaviour {
    let draw = dice.of(2, 6);
    let hold = dice.of(30, 130);
    let ttl = dice.one(&[10, 20, 30]);
    let answer = format!("answer: {{random: {{}}}}, hold: {{every: {hold}s, draw: {draw}}}");
    Behaviour::new(true, false, format!("{}, {answer}, ttl: {ttl}", pool(dice.of(300, 4000))))
}

fn weighted_pair(dice: &mut Dice) -> Behaviour {
    let most = dice.of(50, 97);
    let answer = format!("answer: {{weighted: {{weights: [{most}, {}]}}}}", 100 - most);
    Behaviour::new(false, false, format!("{}, {answer}, ttl: {}", pool(2), dice.ttl()))
}

fn two_regions(dice: &mut Dice) -> Behaviour {
    let k = dice.of(1, 4);
    let groups = format!(
        "groups: [{{pool: {{from: 10.1.0.1, count: {k}}}, clients: [198.51.100.1/32]}}, {{pool: {{from: 10.2.0.1, count: {k}}}}}]"
    );
    let mut behaviour = Behaviour::new(false, k > 1, format!("{groups}, ttl: {}", dice.ttl()));
    "  - {sources: [198.51.100.1]}\n  - {sources: [198.51.100.2]}\n".clone_into(&mut behaviour.resolvers);
    behaviour
}

fn weighted_sites(dice: &mut Dice) -> Behaviour {
    let k = dice.of(1, 4);
    let sites = dice.of(2, 5);
    let mut groups = String::new();
    for site in 1..=sites {
        let weight = dice.of(5, 50);
        let _ = write!(groups, "{{pool: {{from: 10.{site}.0.1, count: {k}}}, weight: {weight}}}, ");
    }
    Behaviour::new(false, k > 1, format!("groups: [{groups}], ttl: {}", dice.ttl()))
}

fn fail_over(dice: &mut Dice) -> Behaviour {
    let at = dice.of(3, 175);
    let mut behaviour = Behaviour::new(false, false, format!("pool: [192.0.2.1], ttl: {}", dice.ttl()));
    behaviour.steps = format!("  - {{at: {at}s, do: {{flip: {{name: name.example, to: [192.0.2.2]}}}}}}\n");
    behaviour
}

fn replaced_together(dice: &mut Dice) -> Behaviour {
    let k = dice.of(2, 8);
    let at = dice.of(3, 175);
    let mut behaviour =
        Behaviour::new(false, true, format!("{}, members: {k}, ttl: {}", pool(2 * k), dice.ttl()));
    behaviour.steps = format!("  - {{at: {at}s, do: {{rotate: {{name: name.example, by: {k}}}}}}}\n");
    behaviour
}

fn rolling(dice: &mut Dice) -> Behaviour {
    let k = dice.of(4, 12);
    let every = dice.of(10, 60);
    let mut behaviour =
        Behaviour::new(false, true, format!("{}, members: {k}, ttl: {}", pool(2 * k), dice.ttl()));
    behaviour.steps = format!(
        "  - {{at: 0s..{every}s, every: {every}s, times: {k}, do: {{rotate: {{name: name.example}}}}}}\n"
    );
    behaviour
}

fn growing(dice: &mut Dice) -> Behaviour {
    let from = dice.of(1, 4);
    let (first, second) = (from + dice.of(1, 3), from + dice.of(4, 8));
    let mut behaviour =
        Behaviour::new(false, second > 2, format!("{}, members: {from}, ttl: {}", pool(12), dice.ttl()));
    behaviour.steps = format!(
        "  - {{at: 5s..80s, do: {{set: {{name: name.example, members: {first}}}}}}}\n  \
         - {{at: 90s..170s, do: {{set: {{name: name.example, members: {second}}}}}}}\n"
    );
    behaviour
}

fn zipf(dice: &mut Dice) -> Behaviour {
    let take = dice.of(1, 3);
    let n = dice.of(150, 1000);
    let answer = format!("answer: {{zipf: {{take: {take}, exponent: 0.{}}}}}", dice.of(6, 9));
    Behaviour::new(true, take > 1, format!("{}, {answer}, ttl: {}", pool(n), dice.ttl()))
}
