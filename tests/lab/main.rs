//! Tests on loopback, in one process or with real DNS servers beside it.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod authority;
mod responder;
mod sampling;
mod sweep;
