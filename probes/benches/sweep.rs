//! Classifying thousands of lab names at once, against dnsperf's raw sending of the same queries to the same server:
//! queries per CPU second and per second (medians of seven rounds in turn; the ratio is the median of the rounds' own,
//! so that what slows the machine for a while slows both), and the memory that a name takes.
//! The lab and each client are processes of their own. Run by `cargo bench -p egress-audit-probes --bench sweep`.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures, and its children answer to it")]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use labdns::scenario::{NameSpec, RecordSet};
use labdns::{LabDns, Name, Options, Scenario};
use nix::sys::resource::{UsageWho, getrusage};
use policies::plan::{Limits, Window};
use policies::{Host, Outcome, Policy, ResolutionClass, classify};
use probes::names::sample::Sending;
use probes::names::sweep::{Authoritative, Event, Settings, Sweep};

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 7;
const NAMES: usize = 10_000;
const MEMORY_NAMES: [usize; 3] = [1_000, 10_000, 50_000];
/// Of dnsperf's queries per CPU second.
const LEAST: f64 = 0.8;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[1..] {
        ["serve", names] => serve(names.parse().expect("a number")),
        ["sweep", names, server] => {
            sweep(names.parse().expect("a number"), server.parse().expect("an address"));
        }
        _ => {
            rates();
            memory();
        }
    }
}

fn rates() {
    let lab = Lab::start(NAMES);
    let (mut sweeps, mut raws) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let run = lab.sweep();
        raws.push(dnsperf(lab.addr, run.queries));
        sweeps.push(run);
    }
    let rate = |run: &Run| run.queries / run.cpu;
    let per_cpu = |runs: &[Run]| median(runs.iter().map(rate).collect());
    let per_second = |runs: &[Run]| median(runs.iter().map(|run| run.queries / run.seconds).collect());
    println!("{NAMES} names, A and AAAA, each a third fixed, single and rotating");
    for (name, runs) in [("classify", &sweeps), ("dnsperf", &raws)] {
        println!(
            "  {name:<9} {:>8.0} queries per CPU second  ({:.2} us each), {:>7.0}/s, {:.0} queries",
            per_cpu(runs),
            1e6 / per_cpu(runs),
            per_second(runs),
            median(runs.iter().map(|run| run.queries).collect()),
        );
    }
    let ratio = median(sweeps.iter().zip(&raws).map(|(sweep, raw)| rate(sweep) / rate(raw)).collect());
    let verdict = if ratio >= LEAST { "met" } else { "NOT MET" };
    println!("  classify / dnsperf = {ratio:.2}; at least {LEAST}: {verdict}");
}

fn memory() {
    println!("\nmemory, all windows kept");
    let mut last: Option<(usize, f64)> = None;
    for names in MEMORY_NAMES {
        let run = Lab::start(names).sweep();
        let mut line = format!("  {names:>6} names: {:>7.1} MiB", run.peak / 1024.0);
        if let Some((fewer, peak)) = last {
            #[expect(clippy::cast_precision_loss, reason = "a count of names")]
            let more = (names - fewer) as f64;
            let _ = write!(line, ", {:.1} KiB for each more", (run.peak - peak) / more);
        }
        println!(
            "{line}  ({:.1} queries a name)",
            run.queries / f64::from(u32::try_from(names).unwrap_or(1))
        );
        last = Some((names, run.peak));
    }
}

/// One client's work.
struct Run {
    queries: f64,
    /// CPU seconds of its process.
    cpu: f64,
    seconds: f64,
    /// KiB resident at most.
    peak: f64,
}

/// A lab in a process of its own.
struct Lab {
    child: Child,
    addr: SocketAddr,
    names: usize,
}

impl Lab {
    fn start(names: usize) -> Self {
        let mut child =
            myself(&["serve", &names.to_string()]).stdin(Stdio::piped()).spawn().expect("the lab");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("its address");
        Self { child, addr: line.trim().parse().expect("an address"), names }
    }

    /// A sweep in a process of its own.
    fn sweep(&self) -> Run {
        let mut sweep = myself(&["sweep", &self.names.to_string(), &self.addr.to_string()]);
        // What it could not do, it says itself.
        let output = sweep.stderr(Stdio::inherit()).output().expect("the sweep");
        let text = String::from_utf8_lossy(&output.stdout);
        let figures: Vec<f64> = text.split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
        let [queries, cpu, seconds, peak] = figures[..] else { panic!("the sweep said: {text}") };
        Run { queries, cpu, seconds, peak }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn myself(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the benchmark"));
    command.args(args).stdout(Stdio::piped());
    command
}

fn name(index: usize) -> String {
    format!("n{index}.bench.example")
}

/// The child that serves: ends with its parent, whose end closes its input.
fn serve(names: usize) {
    let zone = Name::parse("bench.example").expect("a name");
    let mut scenario = Scenario::empty(zone);
    let yaml = [
        "{pool: [192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.4], ttl: 60}",
        "{pool: [192.0.2.1], ttl: 60}",
        "{pool: {from: 10.0.0.1, count: 400}, answer: {random: {take: 4}}, ttl: 60}",
    ];
    let sets = yaml.map(|yaml| {
        let text = format!("zone: bench.example\nnames: {{x.bench.example: {{a: {yaml}}}}}");
        let read = Scenario::from_yaml(&text).expect("a scenario");
        read.names.into_values().next().and_then(|spec| spec.a).expect("a record set")
    });
    for index in 0..names {
        let a: RecordSet = sets[index % sets.len()].clone();
        let spec = NameSpec { a: Some(a), ..NameSpec::default() };
        scenario.names.insert(Name::parse(&name(index)).expect("a name"), spec);
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let options = Options { control: None, log_capacity: 1, ..Options::default() };
    let lab = runtime.block_on(LabDns::start(&scenario, &options)).expect("the lab");
    println!("{}", lab.authority_addr());
    std::io::stdout().flush().expect("stdout");
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// The child that classifies: prints queries, CPU seconds, seconds and peak KiB.
fn sweep(names: usize, server: SocketAddr) {
    let policy = Arc::new(Policy::default());
    let settings = Settings {
        resolvers: Vec::new(),
        authoritative: Authoritative::Servers(vec![server]),
        authority_port: 53,
        ecs: Vec::new(),
        limits: Limits { window: Window::Quick, max_queries: 200 },
        policy: Arc::clone(&policy),
        sending: Sending { rate: None, ..Sending::default() },
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let hosts = (0..names).map(|index| Host::parse(&name(index)).expect("a host")).collect();
    let started = Instant::now();
    let mut kept = Vec::with_capacity(names);
    let (mut queries, mut failed, mut rotating) = (0, 0, 0);
    runtime.block_on(async {
        let mut sweep = Sweep::start(hosts, settings).expect("the sweep");
        while let Some(event) = sweep.next().await {
            let Event::Done(watched) = event else { continue };
            let verdicts = watched.observations.each_ref().map(|observation| classify(observation, &policy));
            rotating += usize::from(verdicts[0].class == ResolutionClass::RotatingPool);
            let outcomes = || watched.windows.iter().flat_map(|window| &window.samples).map(|s| &s.outcome);
            queries += outcomes().count();
            failed += outcomes().filter(|o| !matches!(o, Outcome::Answered { .. } | Outcome::NoData)).count();
            kept.push(watched);
        }
    });
    let seconds = started.elapsed().as_secs_f64();
    assert!(
        rotating == names / 3,
        "{rotating} of {} rotating names were seen to rotate; {failed} of {queries} lookups failed in {seconds:.1} s: \
         with many failures the machine is too busy for a figure",
        names / 3
    );
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the usage");
    let status = std::fs::read_to_string("/proc/self/status").expect("the status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the peak");
    println!("{queries} {} {seconds} {}", cpu(&usage), peak.trim().trim_end_matches(" kB"));
}

/// About as many queries, the same names and types.
fn dnsperf(server: SocketAddr, queries: f64) -> Run {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let lines: String = (0..NAMES).fold(String::new(), |mut lines, index| {
        let _ = write!(lines, "{0} A\n{0} AAAA\n", name(index));
        lines
    });
    std::fs::write(file.path(), lines).expect("the queries");
    #[expect(clippy::cast_precision_loss, reason = "a count of names")]
    let times = (queries / (2 * NAMES) as f64).round().max(1.0).to_string();
    let (ip, port) = (server.ip().to_string(), server.port().to_string());
    let before = cpu(&getrusage(UsageWho::RUSAGE_CHILDREN).expect("the usage"));
    // -e: with EDNS, as the sweep asks.
    let output = Command::new("dnsperf")
        .args(["-s", &ip, "-p", &port, "-n", &times, "-q", "100", "-e", "-d"])
        .arg(file.path())
        .output()
        .expect("dnsperf (apt install dnsperf)");
    let spent = cpu(&getrusage(UsageWho::RUSAGE_CHILDREN).expect("the usage")) - before;
    let text = String::from_utf8_lossy(&output.stdout);
    let figure = |label: &str| -> f64 {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(label));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_else(|| panic!("{text}"))
    };
    let completed = figure("Queries completed:");
    Run { queries: completed, cpu: spent, seconds: completed / figure("Queries per second:"), peak: 0.0 }
}

fn cpu(usage: &nix::sys::resource::Usage) -> f64 {
    let seconds = |time: nix::sys::time::TimeVal| {
        #[expect(clippy::cast_precision_loss, reason = "seconds of a benchmark")]
        let whole = time.tv_sec() as f64;
        #[expect(clippy::cast_precision_loss, reason = "below a million")]
        let micros = time.tv_usec() as f64;
        whole + micros / 1e6
    };
    seconds(usage.user_time()) + seconds(usage.system_time())
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
