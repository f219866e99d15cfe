//! What is known of each kind of load balancer: its usual check, how long it takes to let go of a target whatever is set,
//! and which answer means "no new work" to it. HAProxy is measured in the lab; the rest is from the vendors'
//! documentation, and says so. Called by `plan`.

use std::time::Duration;

/// `--balancer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Balancer {
    /// HAProxy.
    Haproxy,
    /// AWS Network Load Balancer.
    Nlb,
    /// AWS Application Load Balancer.
    Alb,
    /// Google Cloud load balancers.
    Gcp,
    /// `NetScaler` (Citrix ADC).
    Netscaler,
    /// F5 BIG-IP.
    F5,
}

/// One row.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Time between two checks and failed checks until it is out, where nothing else is set.
    pub(crate) inter: Duration,
    pub(crate) fall: u32,
    pub(crate) rise: u32,
    /// From the deletion of the pod until nothing arrives, where a controller takes the target out: part of every drain.
    pub(crate) deregistration: Duration,
    /// `LB_DRAIN_STATUS`: what this balancer takes for "no new work".
    pub(crate) drain_status: &'static str,
    /// From a document only.
    pub(crate) documented: bool,
}

impl Balancer {
    pub(crate) fn facts(self) -> Facts {
        let seconds = Duration::from_secs;
        match self {
            Self::Haproxy => Facts {
                inter: seconds(2),
                fall: 2,
                rise: 2,
                deregistration: Duration::ZERO,
                drain_status: "auto",
                documented: false,
            },
            Self::Nlb => Facts {
                inter: seconds(10),
                fall: 2,
                rise: 2,
                deregistration: seconds(180),
                drain_status: "503",
                documented: true,
            },
            Self::Alb => Facts {
                inter: seconds(10),
                fall: 2,
                rise: 2,
                deregistration: seconds(30),
                drain_status: "503",
                documented: true,
            },
            Self::Gcp => Facts {
                inter: seconds(5),
                fall: 2,
                rise: 2,
                deregistration: seconds(60),
                drain_status: "503",
                documented: true,
            },
            Self::Netscaler | Self::F5 => Facts {
                inter: seconds(5),
                fall: 3,
                rise: 1,
                deregistration: Duration::ZERO,
                drain_status: "404",
                documented: true,
            },
        }
    }

    /// What has to be set there, line by line.
    pub(crate) fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Haproxy => &[
                "option httpchk, http-check disable-on-404, http-check send-state",
                "server ... check inter 2s fall 2 rise 2 (fall 2 or more)",
                "a reload forgets a drain until its first check: server-state-file and load-server-state-from-file keep it",
            ],
            Self::Nlb => &[
                "HealthCheckIntervalSeconds 10, UnhealthyThresholdCount 2 (its own default is 30 s)",
                "target_health_state.unhealthy.connection_termination.enabled = false, and",
                "target_health_state.unhealthy.draining_interval_seconds of at least DRAIN_TIMEOUT: an unhealthy target then \
                     keeps its flows and gets no new ones, so 503 is the \"no new work\" answer",
                "deregistration takes 120 s and more whatever deregistration_delay says, and flows arrive meanwhile",
                "proxy_protocol_v2 sends its header with checks too: the health port takes it off",
            ],
            Self::Alb => &[
                "HealthCheckIntervalSeconds 10, UnhealthyThresholdCount 2 (its own default is 30 s)",
                "an unhealthy target gets no new requests, and those that run go on",
                "deregistration_delay.timeout_seconds of at least DRAIN_TIMEOUT",
            ],
            Self::Gcp => &[
                "checkIntervalSec 5, unhealthyThreshold 2",
                "an unhealthy backend gets no new requests; passthrough balancers keep TCP connections on it",
                "connectionDraining.drainingTimeoutSec of at least DRAIN_TIMEOUT",
            ],
            Self::Netscaler => &[
                "monitor of type HTTP with -respCode 200 and -trofsCode 404 (it asks with HEAD, which is answered)",
                "-trofsPersistence DISABLED, or sticky clients keep coming",
                "downStateFlush is on by default: DOWN resets what runs",
            ],
            Self::F5 => &[
                "monitor http: interval 5, timeout 16",
                "receive string  HTTP/1\\.[01] 200",
                "receive disable string  NO NEW WORK  (equal to LB_DRAIN_BODY)",
                "where both strings match, BIG-IP takes the member for enabled: do not answer the drain with 200",
                "Action On Service Down: None keeps what runs; Reject and Drop cut it",
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    /// BIG-IP's table: receive matches alone -> Up (Enabled); disable matches alone -> Up (Disabled); both -> Up
    /// (Enabled); neither -> Down. Matched over the status line, the headers and the body.
    fn big_ip(answer: &str, receive: &[&str], disable: &str) -> &'static str {
        let up = receive.iter().any(|text| answer.contains(text));
        match (up, answer.contains(disable)) {
            (true, _) => "enabled",
            (false, true) => "disabled",
            (false, false) => "down",
        }
    }

    fn answer(status: &str, etag: &str, body: &str) -> String {
        format!(
            "HTTP/1.1 {status}\r\ncache-control: max-age=1\r\netag: \"{etag}\"\r\ncontent-length: 9\r\n\r\n{body}"
        )
    }

    /// The strings that `plan --balancer f5` prints tell the three answers apart; with the status 200 they do not.
    #[test]
    fn the_receive_strings_of_the_plan_tell_three_answers_apart() {
        let receive = ["HTTP/1.0 200", "HTTP/1.1 200"];
        let (open, out) = (answer("200 OK", "ok", "OK"), answer("503 Service Unavailable", "down", "DRAIN"));
        let draining = answer("404 Not Found", "no-new-work", "NO NEW WORK");
        let seen = [&open, &draining, &out].map(|answer| big_ip(answer, &receive, "NO NEW WORK"));
        assert_eq!(seen, ["enabled", "disabled", "down"]);
        let draining = answer("200 OK", "no-new-work", "NO NEW WORK");
        assert_eq!(big_ip(&draining, &receive, "NO NEW WORK"), "enabled");
    }
}
