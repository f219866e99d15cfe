//! From flags to observations: replays saved windows or samples the network, and saves what it measured. Names that
//! cannot be measured become problems; the others are measured all the same. Ctrl-C ends with what was seen so far.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use jiff::Timestamp;
use policies::{Host, Limits, Observation, ObservationWindow, Policy, RecordType, Source, Window, observe};
use probes::names::diagnosis::Note;
use probes::names::resolvers::{RESOLV_CONF, System};
use probes::names::sample::{Rate, Sending};
use probes::names::sweep::{Authoritative, Event, Settings, Sweep, Watched};

use crate::args::{self, AskArgs, MeasureArgs};
use crate::console::Console;
use crate::input;
use crate::report::Problem;
use crate::store::read::Reader;

mod deployed;
mod save;

use deployed::Declared;
use save::Folder;

/// Queries that one server gets at once before it is paced.
const BURST: u32 = 14;

/// What was measured or replayed.
#[derive(Debug, Default)]
pub struct Measured {
    /// One entry a name, in the order given.
    pub hosts: Vec<MeasuredHost>,
    /// What could not be measured.
    pub problems: Vec<Problem>,
    /// The resolvers that were asked.
    pub resolvers: Vec<String>,
    /// The window as it was asked for.
    pub window: String,
}

/// What was seen of one name.
#[derive(Debug)]
pub struct MeasuredHost {
    /// The name.
    pub host: Host,
    /// Of A and of AAAA.
    pub families: [MeasuredFamily; 2],
    /// How it was asked for, where that needs a word.
    pub notes: Vec<String>,
}

/// What was seen of one record type.
#[derive(Debug)]
pub struct MeasuredFamily {
    /// The servers that were asked.
    pub sources: Vec<Source>,
    /// The facts.
    pub observation: Observation,
}

impl From<Watched> for MeasuredHost {
    /// Without the notes.
    fn from(watched: Watched) -> Self {
        let [a, aaaa] = watched.windows.map(|window| window.sources);
        let [of_a, of_aaaa] = watched.observations;
        let families = [(a, of_a), (aaaa, of_aaaa)];
        Self {
            host: watched.host,
            families: families.map(|(sources, observation)| MeasuredFamily { sources, observation }),
            notes: Vec::new(),
        }
    }
}

impl MeasuredHost {
    /// Any server answered for the name, or denied it.
    #[must_use]
    pub fn is_heard(&self) -> bool {
        use policies::OutcomeKind::{Answered, NoData, NxDomain};
        let mut seen = self.families.iter().flat_map(|family| &family.observation.outcomes);
        seen.any(|seen| matches!(seen.outcome, Answered | NoData | NxDomain))
    }

    /// What saved windows show; a record type that was not asked for stands as a window without samples.
    fn replayed(host: Host, mut windows: Vec<ObservationWindow>) -> Self {
        let families = RecordType::BOTH.map(|record_type| {
            let saved = windows.iter().position(|window| window.record_type == record_type);
            let unasked =
                || ObservationWindow::new(host.clone(), record_type, Vec::new(), Timestamp::UNIX_EPOCH);
            let window = saved.map_or_else(unasked, |at| windows.remove(at));
            MeasuredFamily { observation: observe(&window), sources: window.sources }
        });
        Self { host, families, notes: Vec::new() }
    }
}

/// Replays or samples the names of a command line.
///
/// # Errors
/// When no name can be measured at all.
pub async fn run(args: &MeasureArgs, policy: &Policy, console: &mut Console) -> anyhow::Result<Measured> {
    if let Some(from) = &args.from {
        return Ok(replay(from));
    }
    if let Some(store) = &args.from_store {
        return stored(store).await;
    }
    let (mut hosts, mut problems, notes) = input::hosts(&args.names, &args.file);
    for note in &notes {
        console.note(note);
    }
    let mut declared = Declared::default();
    if args.cluster {
        declared = Declared::read(args, console).await?;
        hosts.extend(
            declared.by_host.keys().filter(|host| !hosts.contains(host)).cloned().collect::<Vec<_>>(),
        );
        problems.append(&mut declared.problems);
    }
    let mut measured = ask(hosts, &args.ask, policy, console).await?;
    measured.problems.splice(0..0, problems);
    for measured in &mut measured.hosts {
        measured.notes.extend(declared.by_host.remove(&measured.host).unwrap_or_default());
    }
    Ok(measured)
}

/// Samples names.
///
/// # Errors
/// When no name can be measured at all.
pub async fn ask(
    hosts: Vec<Host>,
    args: &AskArgs,
    policy: &Policy,
    console: &mut Console,
) -> anyhow::Result<Measured> {
    let folder = args.save.as_deref().map(Folder::open).transpose()?;
    let system = if args.resolver.is_empty() { Some(system()?) } else { None };
    let resolvers = system.as_ref().map_or_else(|| args.resolver.clone(), |system| system.servers.clone());
    let mut measured = Measured {
        resolvers: resolvers.iter().map(SocketAddr::to_string).collect(),
        window: args.window.map_or_else(
            || match args.until {
                Some(_) => "until decided".to_owned(),
                None if args.quick => "quick".to_owned(),
                None => "auto".to_owned(),
            },
            |window| {
                format!("{:#}", jiff::SignedDuration::try_from(window).unwrap_or(jiff::SignedDuration::MAX))
            },
        ),
        ..Measured::default()
    };
    for host in &hosts {
        note_spelling(host, system.as_ref(), console);
    }
    // A run that is killed loses no name that was done.
    let save = |mut watched: Watched| {
        let unsaved = folder.as_ref().and_then(|folder| folder.save(&watched.windows).err());
        (unsaved, std::mem::take(&mut watched.notes), MeasuredHost::from(watched))
    };
    let mut told = HashSet::new();
    let chosen = Chosen {
        resolvers: resolvers.clone(),
        named: !args.resolver.is_empty(),
        authorities: &args.authority,
    };
    for (unsaved, notes, host) in sweep(hosts, settings(args, resolvers, policy), console, save).await? {
        let (problems, notes) = remarks(&notes, &chosen, host.is_heard(), &mut told);
        measured.problems.extend(unsaved.into_iter().chain(problems));
        measured.hosts.push(MeasuredHost { notes, ..host });
    }
    Ok(measured)
}

/// Measures names with settings of one's own; a bar shows how far it is. Each is handed to `keep` once it is done; what
/// that makes of them comes in the order given.
///
/// # Errors
/// When no thread can be started.
pub async fn sweep<T>(
    hosts: Vec<Host>,
    settings: Settings,
    console: &mut Console,
    mut keep: impl FnMut(Watched) -> T,
) -> anyhow::Result<Vec<T>> {
    let total = hosts.len();
    let mut all = Vec::with_capacity(total);
    if total == 0 {
        return Ok(Vec::new());
    }
    console.start_progress(total as u64);
    let mut interrupted = pin!(super::interrupted());
    let mut sweep = Sweep::start(hosts, settings)?;
    let mut stopping = false;
    loop {
        let event = tokio::select! {
            event = sweep.next() => event,
            () = &mut interrupted, if !stopping => {
                stopping = true;
                sweep.stop();
                continue;
            }
        };
        match event {
            None => break,
            Some(Event::Done(watched)) => all.push((watched.index, keep(*watched))),
            Some(Event::Provisional { queries, classification }) => {
                let so_far = format!(
                    "{} {}: {:?}, confidence {:.2} after {queries} queries",
                    classification.host,
                    classification.record_type,
                    classification.class,
                    classification.confidence
                );
                console.progress(all.len() as u64, &so_far);
            }
        }
    }
    console.end_progress();
    if stopping {
        console.warn("interrupted: the verdicts rest on what was seen so far");
    }
    all.sort_by_key(|(index, _)| *index);
    Ok(all.into_iter().map(|(_, kept)| kept).collect())
}

/// Windows that were saved.
#[must_use]
pub fn replay(from: &Path) -> Measured {
    let (windows, problems) = input::windows(from);
    Measured { problems, ..of_windows(windows) }
}

/// Answers that `watch` has stored.
///
/// # Errors
/// The store cannot be read.
pub async fn stored(folder: &Path) -> anyhow::Result<Measured> {
    Ok(of_windows(Reader::open(folder)?.windows().await?))
}

fn of_windows(windows: Vec<ObservationWindow>) -> Measured {
    let mut hosts: BTreeMap<Host, Vec<ObservationWindow>> = BTreeMap::new();
    for window in windows {
        hosts.entry(window.host.clone()).or_default().push(window);
    }
    let hosts = hosts.into_iter().map(|(host, windows)| MeasuredHost::replayed(host, windows));
    Measured {
        hosts: hosts.collect(),
        problems: Vec::new(),
        resolvers: Vec::new(),
        window: "as saved".to_owned(),
    }
}

fn system() -> Result<System, Problem> {
    System::read(Path::new(RESOLV_CONF)).map_err(Problem::from)
}

fn settings(args: &AskArgs, resolvers: Vec<SocketAddr>, policy: &Policy) -> Settings {
    let window = match args.window {
        Some(length) => Window::Fixed(length),
        None if args.quick => Window::Quick,
        None if args.until.is_some() => Window::Decided,
        None => Window::Auto,
    };
    let authoritative = match args.authoritative {
        _ if !args.authority.is_empty() => Authoritative::Servers(args.authority.clone()),
        args::Authoritative::Auto => Authoritative::Auto,
        args::Authoritative::Never => Authoritative::Never,
    };
    Settings {
        resolvers,
        authoritative,
        authority_port: args.authority_port,
        ecs: args.ecs.clone(),
        limits: Limits { window, max_queries: args.max_queries as usize },
        policy: Arc::new(policy.clone()),
        sending: Sending { rate: Some(Rate { per_second: args.rate, burst: BURST }), ..Sending::default() },
    }
}

/// Says where a name is not looked up as it was typed, or as the pod's own resolver would.
fn note_spelling(host: &Host, system: Option<&System>, console: &Console) {
    if let Some(unicode) = host.unicode() {
        console.note(&format!("{unicode} is asked for as {host}"));
    }
    if let Some(first) = system.and_then(|system| system.tried_first(host).next()) {
        console.note(&format!(
            "{host} is asked for as it is; the search list of {RESOLV_CONF} would try {first} before it"
        ));
    }
}

/// Who is asked, and who chose them.
struct Chosen<'a> {
    resolvers: Vec<SocketAddr>,
    /// By the user, not by the system.
    named: bool,
    authorities: &'a [SocketAddr],
}

/// Servers that the user named and that do not work are problems, and so are the system's where nothing else was
/// `heard`; everything else is a note. A server is told once.
fn remarks(
    notes: &[Note],
    chosen: &Chosen<'_>,
    heard: bool,
    told: &mut HashSet<SocketAddr>,
) -> (Vec<Problem>, Vec<String>) {
    let resolver = |server: &SocketAddr| chosen.resolvers.contains(server) && (chosen.named || !heard);
    let (mut problems, mut remarks) = (Vec::new(), Vec::new());
    for note in notes {
        match note {
            Note::Silent { server, .. } if resolver(server) || chosen.authorities.contains(server) => {
                if told.insert(*server) {
                    let what = match (resolver(server), chosen.named) {
                        (true, true) => "--resolver",
                        (true, false) => RESOLV_CONF,
                        (false, _) => "--authority",
                    };
                    problems.push(Problem::new(what, note, note.hint().unwrap_or_default()));
                }
            }
            _ => remarks.push(match note.hint() {
                Some(hint) => format!("{note} ({hint})"),
                None => note.to_string(),
            }),
        }
    }
    (problems, remarks)
}
