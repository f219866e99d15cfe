//! Entry point of the drain sidecar.
fn main() {}
