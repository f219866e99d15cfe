//! Hosts of entries that are not host names, or do not show what they are: EA510, whose row is in `ports`. The mesh comes
//! in, findings go out.

use super::Findings;
use super::mesh::Mesh;
use crate::finding::Severity;
use crate::{Host, HostError};

pub(super) fn no_host_name(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for entry in &mesh.entries {
        for other in entry.spec.list("hosts").iter().filter(|host| host.text().is_none()) {
            found
                .add(entry.resource, other.at, "a host is a text, and this is none")
                .hint("write a bare name");
        }
        for host in &entry.hosts {
            match Host::parse(host.name.strip_prefix("*.").unwrap_or(host.name)) {
                Err(HostError::Wildcard { .. }) => {}
                Ok(asked) => {
                    if let Some(doubt) = asked.doubt(host.name) {
                        let hint = "type the name anew, or keep it if it is meant so";
                        found
                            .add(
                                entry.resource,
                                host.at,
                                format!("the host is asked for as {asked}: {doubt}"),
                            )
                            .about(host.name)
                            .severity(Severity::Warning)
                            .hint(hint);
                    }
                }
                Err(error) => {
                    found.add(entry.resource, host.at, error.to_string()).about(host.name).hint(error.hint());
                }
            }
        }
    }
}
