//! Every path of the sidecar, once: which listener has it, which methods, what it answers. `public` and `control`
//! dispatch on this table and `/openapi.json` is printed from it, so the three cannot disagree.

use serde_json::{Map, Value, json};

use crate::drain::Command;

/// The JSON schema of `/drain/status`, made from its types by a test.
pub(crate) const STATUS_SCHEMA: &str = include_str!("../schema/status.json");

/// What a path does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    LbHealth,
    Readiness,
    Liveness,
    Command(Command),
    Prestop,
    Status,
    Preflight,
    Metrics,
    OpenApi,
}

/// One path.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) path: &'static str,
    pub(crate) methods: &'static [&'static str],
    pub(crate) action: Action,
    /// Seen by the load balancer and the kubelet, not only by the pod.
    pub(crate) public: bool,
    /// On the listener for scrapers too, which changes nothing.
    pub(crate) metrics: bool,
    pub(crate) summary: &'static str,
    pub(crate) answers: &'static [(u16, &'static str)],
}

const CONFLICT: (u16, &str) = (409, "Does not fit the state, which is named.");
const DONE: (u16, &str) = (200, "Done, and in the state file.");

/// All of them. The load balancer's comes first because it is asked most.
pub(crate) const ROUTES: &[Route] = &[
    Route {
        path: "/health_check.html",
        methods: &["GET", "HEAD"],
        action: Action::LbHealth,
        public: true,
        metrics: false,
        summary: "Health as the load balancer sees it.",
        answers: &[
            (200, "In service."),
            (404, "No new work; what runs may finish. The status is a setting."),
            (503, "Out of service."),
        ],
    },
    Route {
        path: "/health",
        methods: &["GET", "HEAD"],
        action: Action::Readiness,
        public: true,
        metrics: false,
        summary: "Readiness as the kubelet sees it.",
        answers: &[(200, "Until CLOSED."), (503, "CLOSED, FAULT, or Envoy has not answered yet.")],
    },
    Route {
        path: "/live",
        methods: &["GET", "HEAD"],
        action: Action::Liveness,
        public: true,
        metrics: false,
        summary: "Liveness as the kubelet sees it.",
        answers: &[(200, "In every other state."), (500, "FAULT.")],
    },
    Route {
        path: "/drain",
        methods: &["POST"],
        action: Action::Command(Command::Drain),
        public: false,
        metrics: false,
        summary: "OPEN to DRAINING.",
        answers: &[DONE, CONFLICT],
    },
    Route {
        path: "/close-lb",
        methods: &["POST"],
        action: Action::Command(Command::CloseLb),
        public: false,
        metrics: false,
        summary: "DRAINING to CLOSING, whatever still runs.",
        answers: &[DONE, CONFLICT],
    },
    Route {
        path: "/close",
        methods: &["POST"],
        action: Action::Command(Command::Close),
        public: false,
        metrics: false,
        summary: "CLOSING to CLOSED, acknowledged or not.",
        answers: &[DONE, CONFLICT],
    },
    Route {
        path: "/reopen",
        methods: &["POST"],
        action: Action::Command(Command::Reopen),
        public: false,
        metrics: false,
        summary: "DRAINING or CLOSING back to OPEN. A Warning header says what does not come back at once.",
        answers: &[DONE, CONFLICT],
    },
    Route {
        path: "/fault",
        methods: &["POST"],
        action: Action::Command(Command::Fault),
        public: false,
        metrics: false,
        summary: "Any state to FAULT: the kubelet restarts the sidecar, which takes up the state before.",
        answers: &[DONE, CONFLICT],
    },
    Route {
        path: "/prestop",
        methods: &["GET", "POST"],
        action: Action::Prestop,
        public: false,
        metrics: false,
        summary: "Starts the drain or joins the one that runs, and answers when the pod is out.",
        answers: &[(200, "CLOSED."), (409, "Reopened meanwhile, or FAULT."), (504, "Not CLOSED in time.")],
    },
    Route {
        path: "/drain/status",
        methods: &["GET", "HEAD"],
        action: Action::Status,
        public: false,
        metrics: true,
        summary: "Everything known of the drain.",
        answers: &[(200, "As JSON.")],
    },
    Route {
        path: "/drain/preflight",
        methods: &["GET", "HEAD"],
        action: Action::Preflight,
        public: false,
        metrics: false,
        summary: "Whether a drain would work.",
        answers: &[(200, "Every check passed, or only warns."), (503, "A check failed.")],
    },
    Route {
        path: "/metrics",
        methods: &["GET", "HEAD"],
        action: Action::Metrics,
        public: false,
        metrics: true,
        summary: "Prometheus text.",
        answers: &[(200, "Text exposition format 0.0.4.")],
    },
    Route {
        path: "/openapi.json",
        methods: &["GET", "HEAD"],
        action: Action::OpenApi,
        public: false,
        metrics: false,
        summary: "This document.",
        answers: &[(200, "OpenAPI 3.1.")],
    },
];

/// Whom a listener is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Load balancer and kubelet: the health paths.
    Public,
    /// The pod itself: every path. Also the public listener, where that was asked for.
    Control,
    /// Scrapers: what reads and changes nothing.
    Metrics,
}

impl Route {
    fn on(&self, audience: Audience) -> bool {
        match audience {
            Audience::Public => self.public,
            Audience::Control => true,
            Audience::Metrics => self.metrics,
        }
    }
}

/// The row of a path on a listener.
pub(crate) fn find(path: &str, audience: Audience) -> Option<&'static Route> {
    ROUTES.iter().find(|route| route.path == path && route.on(audience))
}

/// The document of `/openapi.json`.
pub(crate) fn openapi() -> Value {
    let paths: Map<String, Value> =
        ROUTES.iter().map(|route| (route.path.to_owned(), operations(route))).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "drain-sidecar",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Takes a pod out from behind an external load balancer without cutting a request.",
        },
        "tags": [
            {"name": "public", "description": "For the load balancer and the kubelet."},
            {"name": "control", "description": "For the pod itself only."},
            {"name": "metrics", "description": "On the listener for scrapers too; reads only."},
        ],
        "paths": paths,
    })
}

fn tags(route: &Route) -> Vec<&'static str> {
    let own = if route.public { "public" } else { "control" };
    std::iter::once(own).chain(route.metrics.then_some("metrics")).collect()
}

fn operations(route: &Route) -> Value {
    let mut responses: Map<String, Value> = route
        .answers
        .iter()
        .chain(&[(405, "Another method; `Allow` names the right ones.")])
        .map(|(status, text)| (status.to_string(), json!({"description": text})))
        .collect();
    if route.action == Action::Status {
        // The file is this crate's own and a test reads it.
        let schema: Value = serde_json::from_str(STATUS_SCHEMA).unwrap_or_default();
        responses["200"]["content"] = json!({"application/json": {"schema": schema}});
    }
    let operation = json!({
        "summary": route.summary,
        "tags": tags(route),
        "responses": responses,
    });
    let by_method =
        route.methods.iter().map(|method| (method.to_ascii_lowercase(), operation.clone())).collect();
    Value::Object(by_method)
}
