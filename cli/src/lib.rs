//! The program `egress-audit`: arguments in, a [`Report`](https://docs.rs) built by one command, rendered in the
//! format asked for. `main.rs` is a thin shell over this, so that tests can call commands in process.
