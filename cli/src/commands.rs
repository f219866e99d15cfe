//! One file a command. Each takes its arguments and the console, builds what it has to say, has it rendered and
//! returns the exit code.

pub mod advise;
pub mod audit;
pub mod classify;
pub mod envoy;
pub mod generate;
pub mod lab;
pub mod measure;
pub mod proxy;
pub mod reference;
pub mod report;

/// Ends when the user has had enough: Ctrl-C, or SIGTERM.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    // Without a handler for it SIGTERM ends the process, and the lab's children end with its pipes.
    let Ok(mut terminated) = signal(SignalKind::terminate()) else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
}
