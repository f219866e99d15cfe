//! One file a command. Each takes its arguments and the console, builds what it has to say, has it rendered and
//! returns the exit code.

pub mod advise;
pub mod audit;
pub mod classify;
pub mod envoy;
pub mod events;
pub mod generate;
pub mod lab;
pub mod measure;
pub mod proxy;
pub mod reference;
pub mod report;
pub mod watch;

/// Ends when the user has had enough: Ctrl-C, or SIGTERM. They are listened for from the call on, not from the first
/// poll: who is told that all is up may answer at once.
fn interrupted() -> impl Future<Output = ()> {
    use tokio::signal::unix::{Signal, SignalKind, signal};
    // Without a handler for it a signal ends the process, and the lab's children end with its pipes.
    let [mut interrupt, mut terminate] =
        [SignalKind::interrupt(), SignalKind::terminate()].map(|kind| signal(kind).ok());
    let next = async |signal: &mut Option<Signal>| match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    };
    async move {
        tokio::select! {
            () = next(&mut interrupt) => {}
            () = next(&mut terminate) => {}
        }
    }
}
