//! What an audit costs: reading and judging N documents that are already in memory, N growing tenfold, so that the
//! ratios show the growth; and the two shapes that a quadratic rule would choke on.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use policies::audit::{Audit, Context, audit};
use policies::manifest::Loaded;

/// Documents in a file.
const PER_FILE: usize = 10;

/// `documents` entries in files of ten.
fn files(documents: usize, one: impl Fn(usize) -> String) -> Vec<String> {
    let numbers: Vec<usize> = (0..documents).collect();
    let file = |chunk: &[usize]| {
        chunk.iter().fold(String::new(), |mut file, number| {
            let _ = writeln!(file, "{}---", one(*number));
            file
        })
    };
    numbers.chunks(PER_FILE).map(file).collect()
}

fn run(files: &[String]) -> Audit {
    let mut loaded = Loaded::default();
    for (index, file) in files.iter().enumerate() {
        loaded.add(&format!("m/{index}.yaml"), file.as_bytes());
    }
    audit(&loaded, &BTreeMap::new(), &Context::default(), None)
}

fn entry(number: usize) -> String {
    let team = number / PER_FILE;
    format!(
        "# team {team}\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata:\n  name: api-{number}\n  \
         namespace: ns-{team}\nspec:\n  hosts:\n  - api-{number}.partner.example\n  exportTo: [\".\"]\n  location: \
         MESH_EXTERNAL\n  resolution: DNS\n  ports:\n  - number: 443\n    name: tls\n    protocol: TLS\n"
    )
}

fn tcp(number: usize) -> String {
    entry(number).replace("443", "5432").replace("TLS", "TCP").replace("  exportTo: [\".\"]\n", "")
}

fn rule(number: usize) -> String {
    format!(
        "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {{name: r-{number}}}\nspec:\n  host: \
         api-{number}.partnr.example\n"
    )
}

fn grows(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("audit");
    group.sample_size(10);
    for documents in [1_000, 10_000, 100_000] {
        let files = files(documents, entry);
        group.throughput(Throughput::Elements(documents as u64));
        group.bench_with_input(BenchmarkId::new("entries", documents), &files, |bencher, files| {
            bencher.iter(|| black_box(run(files)).findings.len());
        });
    }
    let collide = files(10_000, tcp);
    group.bench_function("10000 entries on one TCP port", |bencher| {
        bencher.iter(|| black_box(run(&collide)).findings.len());
    });
    let near = [files(10_000, entry), files(10_000, rule)].concat();
    group.bench_function("10000 rules that miss their hosts", |bencher| {
        bencher.iter(|| black_box(run(&near)).findings.len());
    });
    group.finish();
}

criterion_group!(benches, grows);
criterion_main!(benches);
