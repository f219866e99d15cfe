//! Cost of one simulated answer: the zone by behaviour, the caches in front, and a run's start.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use labdns::{Farm, Query, RecordType, Reply, Scenario, Zone, scenarios};

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 53));

fn question(name: &str) -> Query<'_> {
    Query { name, record_type: RecordType::A, client: CLIENT, ecs: None }
}

fn builtin(name: &str) -> Scenario {
    scenarios::find(name).and_then(|yaml| Scenario::from_yaml(yaml).ok()).expect("a builtin scenario")
}

fn answers(c: &mut Criterion) {
    let mut group = c.benchmark_group("zone");
    for name in
        ["one-vip", "fixed-24", "8-of-400", "4-of-5000-per-minute", "weighted", "zipf-300", "two-cdns"]
    {
        let mut zone = Zone::new(&builtin(&format!("zoo/{name}")), 1);
        let mut reply = Reply::default();
        let query = question("name.example");
        group.bench_function(name, |b| {
            b.iter(|| {
                zone.answer_into(black_box(&query), Duration::from_secs(1), &mut reply);
                black_box(&reply);
            });
        });
    }
    group.finish();

    let scenario = builtin("zoo/1-of-200-behind-4-caches");
    let (mut zone, mut farm) = (Zone::new(&scenario, 1), Farm::new(&scenario.resolvers[0], 1));
    let query = question("name.example");
    c.bench_function("farm/cached", |b| {
        b.iter(|| black_box(farm.answer(&mut zone, black_box(&query), Duration::from_secs(1))));
    });
}

fn starts(c: &mut Criterion) {
    let yaml = scenarios::find("demo").expect("a builtin scenario");
    c.bench_function("scenario/read demo", |b| b.iter(|| Scenario::from_yaml(black_box(yaml))));
    let scenario = builtin("zoo/rolling-replacement");
    c.bench_function("zone/start", |b| b.iter(|| Zone::new(black_box(&scenario), 1)));
}

criterion_group!(benches, answers, starts);
criterion_main!(benches);
