//! The built binary from outside: what it prints, where, and its exit code.
#![expect(clippy::unwrap_used, reason = "a run that cannot be set up fails the test at once")]

use std::net::SocketAddr;
use std::process::{Command, Output};

use harness::egress_audit;
use serde_json::Value;

mod audit;
mod bad_input;
mod bad_resolvers;
mod files;
mod lab_dns;
mod responder;
mod signals;

use responder::Responder;

/// What a run printed and how it ended.
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Run {
    fn of(command: &mut Command) -> Self {
        command.output().unwrap().into()
    }

    /// The report that `-o json` printed.
    fn report(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }

    /// What the report says of the A records of a name.
    fn family(&self, host: &str) -> Value {
        let report = self.report();
        let mut hosts = report["hosts"].as_array().unwrap().iter();
        let found = hosts.find(|entry| entry["host"] == host).unwrap_or_else(|| panic!("no {host}\n{self}"));
        found["families"][0].clone()
    }

    /// Class of the A records of a name.
    fn class(&self, host: &str) -> String {
        self.family(host)["classification"]["class"].as_str().unwrap().to_owned()
    }

    /// How many IPv4 addresses of a name were seen.
    fn addresses(&self, host: &str) -> usize {
        self.family(host)["observation"]["addresses"].as_array().unwrap().len()
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit code {:?}\n-- stdout\n{}\n-- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}

/// A policy that settles in a second.
const POLICY: [&str; 2] = ["--policy", concat!(env!("CARGO_MANIFEST_DIR"), "/cli/policy.yaml")];

/// Arguments that ask a server as the zone's own.
fn asking(server: &Responder) -> [String; 4] {
    let addr = server.addr.to_string();
    ["--resolver".to_owned(), addr.clone(), "--authority".to_owned(), addr]
}

/// `egress-audit classify` on names, with the server as authority.
fn classify(server: &Responder, names: &[&str]) -> Command {
    let mut command = egress_audit();
    command.arg("classify").args(POLICY).args(asking(server)).args(names);
    command
}

/// `egress-audit generate` on names, with the server as authority.
fn generate(server: &Responder, names: &[&str]) -> Command {
    let mut command = egress_audit();
    command.arg("generate").args(POLICY).args(asking(server)).args(names);
    command
}

/// A quick look through resolvers alone.
fn classify_through(resolvers: &[SocketAddr], name: &str) -> Command {
    let mut command = egress_audit();
    command.args(["classify", "--quick", "--authoritative", "never", "-o", "json", name]);
    for resolver in resolvers {
        command.args(["--resolver", &resolver.to_string()]);
    }
    command
}
