//! The lab DNS as a process of its own, and the commands that steer it from outside.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use harness::dns_server::ask;
use harness::{Child, egress_audit, eventually};
use hickory_proto::op::ResponseCode;

use crate::Run;

const HOST: &str = "api.partner.example";

pub(crate) struct Lab {
    pub(crate) authority: SocketAddr,
    control: String,
    _child: Child,
    _dir: tempfile::TempDir,
}

impl Lab {
    /// Serves the demo scenario on free ports, which it prints.
    pub(crate) fn serve() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = egress_audit().get_program().to_owned();
        let args = ["lab", "dns", "serve", "--port", "0", "--resolver-port", "0", "--control-port", "0"];
        let child = Child::spawn(Path::new(&program), args, dir.path().join("log")).unwrap();
        let [authority, control] = ["authority ", "control http://"].map(|label| {
            eventually(Duration::from_secs(20), label, || {
                let log = child.log();
                let line = log.lines().find_map(|line| line.trim().strip_prefix(label)).map(str::to_owned);
                line.ok_or(log)
            })
            .unwrap()
        });
        Self { authority: authority.parse().unwrap(), control, _child: child, _dir: dir }
    }

    /// `egress-audit lab dns ARGS`, which must succeed.
    pub(crate) fn steer(&self, args: &[&str]) -> Run {
        let mut command = egress_audit();
        command.args(["lab", "dns"]).args(args).args(["--control", &self.control]);
        let run = Run::of(&mut command);
        assert_eq!(run.code, Some(0), "{args:?}: {run}");
        run
    }

    fn answer(&self) -> (ResponseCode, Vec<IpAddr>) {
        let reply = ask(self.authority, HOST).unwrap();
        let addresses = reply.answers.iter().filter_map(|record| record.data.ip_addr()).collect();
        (reply.metadata.response_code, addresses)
    }
}

#[test]
fn the_next_query_sees_what_a_command_changed() {
    let lab = Lab::serve();
    let (_, before) = lab.answer();
    lab.steer(&["flip", HOST, "127.0.0.3"]);
    let (_, flipped) = lab.answer();
    assert!(
        before != flipped && flipped == ["127.0.0.3".parse::<IpAddr>().unwrap()],
        "{before:?} {flipped:?}"
    );

    lab.steer(&["fault", HOST, "servfail"]);
    assert_eq!(lab.answer(), (ResponseCode::ServFail, Vec::new()));
    lab.steer(&["clear", HOST]);
    assert_eq!(lab.answer(), (ResponseCode::NoError, flipped));

    let log = lab.steer(&["log", "--name", HOST, "--type", "A"]);
    assert_eq!(log.stdout.lines().filter(|line| line.contains(HOST)).count(), 4, "{log}");
    let last = lab.steer(&["log", "--last", "1"]);
    assert_eq!(last.stdout.lines().count(), 1, "{last}");
}

#[test]
fn steering_a_lab_that_is_not_there_says_so() {
    let nobody = harness::ports::free_port().unwrap().to_string();
    let run = Run::of(egress_audit().args(["lab", "dns", "flip", HOST, "127.0.0.3", "--control", &nobody]));
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains(&nobody) && run.stderr.contains("hint: "), "{run}");
}
