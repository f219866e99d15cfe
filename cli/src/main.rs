//! Entry point: everything is in the library.
fn main() {}
