//! What the API server refused, in words that help: an error of kube and what was being done come in, a [`Problem`]
//! with its remedy goes out. A missing right names the verb, the resource and the manifest that grants it.

use kube::Error;
use kube::config::{InferConfigError, KubeconfigError};
use kube::core::Status;
use policies::chain;

use super::{Scope, contexts};
use crate::report::Problem;

/// The rights that the tool may need, one manifest each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Right {
    /// What the mesh has deployed.
    Read,
    /// `generate --apply`.
    Apply,
    /// Admin ports of proxies.
    Proxies,
    /// `lab run --in-cluster`.
    Lab,
}

/// One request, as RBAC sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) verb: &'a str,
    /// `serviceentries.networking.istio.io`.
    pub(super) resource: &'a str,
    pub(super) scope: &'a Scope,
    /// The namespace of the context.
    pub(super) default: &'a str,
    pub(super) right: Right,
}

impl Right {
    const fn manifest(self) -> &'static str {
        match self {
            Self::Read => "manifests/rbac/read.yaml",
            Self::Apply => "manifests/rbac/apply.yaml",
            Self::Proxies => "manifests/rbac/proxies.yaml",
            Self::Lab => "manifests/rbac/lab.yaml",
        }
    }

    const fn role(self) -> &'static str {
        match self {
            Self::Read => "egress-audit-read",
            Self::Apply => "egress-audit-apply",
            Self::Proxies => "egress-audit-proxies",
            Self::Lab => "egress-audit-lab",
        }
    }
}

impl Request<'_> {
    /// Why it was refused.
    pub(super) fn refused(&self, error: &Error) -> Problem {
        let Self { verb, resource, .. } = self;
        let place = self.scope.words(self.default);
        match status(error) {
            Some(status) if status.code == 403 => Problem::new(
                resource,
                format!("may not {} {resource} {place}", denied_verb(&status.message).unwrap_or(verb)),
                format!(
                    "`kubectl apply -f {}` holds the right as ClusterRole {}; bind it to whoever runs this",
                    self.right.manifest(),
                    self.right.role()
                ),
            ),
            Some(status) if is_missing_namespace(status) => Problem::new(
                resource,
                format!("there is no such namespace ({verb} {place})"),
                "make it with `kubectl create namespace`, or name another with `--namespace`",
            ),
            Some(status) if status.code == 404 => Problem::new(
                resource,
                format!("not served by this cluster ({verb} {place})"),
                "install Istio's CRDs, or name another cluster with `--context`",
            ),
            _ => of(resource, error),
        }
    }
}

/// `User "x" cannot create resource "pods/portforward" in API group ""` names the verb that is missing, which for an
/// upgraded connection is not the one of the request.
fn denied_verb(message: &str) -> Option<&str> {
    message.split_once(" cannot ")?.1.split(' ').next()
}

fn is_missing_namespace(status: &Status) -> bool {
    status.code == 404 && status.details.as_ref().is_some_and(|details| details.kind == "namespaces")
}

/// The API server's own words, where it was the one that refused.
pub(super) fn status(error: &Error) -> Option<&Status> {
    match error {
        Error::Api(status) => Some(status),
        _ => None,
    }
}

/// Any other failure.
pub(super) fn of(subject: &str, error: &Error) -> Problem {
    match status(error) {
        Some(status) if status.code == 401 => Problem::new(
            subject,
            "the API server does not accept the credentials of this context",
            "log in again, or name another context with `--context`",
        ),
        Some(status) => Problem::new(
            subject,
            format!("the API server says: {}", status.message),
            "see `kubectl` with the same context for the same request",
        ),
        None => Problem::new(
            subject,
            format!("cannot be reached: {}", chain(error)),
            "check that `kubectl version` reaches the API server with the same context",
        ),
    }
}

pub(super) fn no_config(error: &InferConfigError) -> Problem {
    Problem::new(
        "the cluster",
        format!("no kubeconfig and not inside of a pod: {}", chain(error)),
        "point KUBECONFIG at a kubeconfig, or run in a pod with a service account",
    )
}

pub(super) fn no_context(context: &str, error: &KubeconfigError) -> Problem {
    let known = contexts();
    let hint = if known.is_empty() {
        "`kubectl config get-contexts` lists them; KUBECONFIG names the file".to_owned()
    } else {
        format!("the kubeconfig knows {}", known.join(", "))
    };
    Problem::new(format!("context {context}"), chain(error), hint)
}
