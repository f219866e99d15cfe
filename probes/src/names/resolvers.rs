//! Which resolvers are asked: those of the system (`/etc/resolv.conf`) or those that a user names. Text comes in,
//! socket addresses go out, or an error that names the text and the remedy. Also says what a search list would do to
//! a name, since names are asked as they stand. Called by the commands before a sweep.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::path::{Path, PathBuf};

use policies::Host;
use resolv_conf::ScopedIp;

/// Where the system keeps its resolvers.
pub const RESOLV_CONF: &str = "/etc/resolv.conf";
const PORT: u16 = 53;

/// The system's resolvers and search list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct System {
    /// In the order of the file, without repetitions.
    pub servers: Vec<SocketAddr>,
    /// Suffixes that clients of this system try.
    pub search: Vec<String>,
    /// A name with fewer dots than this is tried with each suffix first.
    pub ndots: usize,
}

/// Why there are no resolvers. Texts are escaped.
#[derive(Debug, thiserror::Error)]
pub enum ResolverError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file names no usable server.
    #[error("{path} names no resolver")]
    NoServers {
        /// The file.
        path: PathBuf,
    },
    /// The text is no address of a server.
    #[error("{text:?} is no resolver address")]
    Address {
        /// As it was given.
        text: String,
    },
}

impl ResolverError {
    /// What to do instead.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } | Self::NoServers { .. } => "name one with --resolver 10.0.0.53",
            Self::Address { .. } => {
                "write an IP address, with a port where it is not 53: 10.0.0.53:5353, [2001:db8::53]:5353"
            }
        }
    }
}

impl System {
    /// Reads a file in the format of resolv.conf(5).
    ///
    /// # Errors
    /// The file cannot be read or names no server.
    pub fn read(path: &Path) -> Result<Self, ResolverError> {
        let text = std::fs::read(path)
            .map_err(|source| ResolverError::Unreadable { path: path.to_owned(), source })?;
        let system = Self::parse(&text);
        if system.servers.is_empty() {
            return Err(ResolverError::NoServers { path: path.to_owned() });
        }
        Ok(system)
    }

    /// Lines that cannot be read are left out, as the C library leaves them out.
    fn parse(text: &[u8]) -> Self {
        let (config, _) = resolv_conf::Config::parse_with_errors(text);
        let mut servers: Vec<SocketAddr> = Vec::new();
        for server in config.nameservers.iter().filter_map(address) {
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
        let search =
            config.get_last_search_or_domain().filter(|suffix| !matches!(suffix.as_str(), "." | "--"));
        Self { servers, search: search.cloned().collect(), ndots: config.ndots as usize }
    }

    /// The names that a client of this system tries before `host` itself. Empty where the search list changes nothing.
    pub fn tried_first(&self, host: &Host) -> impl Iterator<Item = String> {
        let dots = host.as_str().bytes().filter(|byte| *byte == b'.').count();
        let suffixes = if dots < self.ndots { &*self.search } else { &[] };
        suffixes.iter().map(move |suffix| format!("{host}.{}", suffix.trim_matches('.').escape_default()))
    }
}

fn address(ip: &ScopedIp) -> Option<SocketAddr> {
    match ip {
        ScopedIp::V4(ip) => Some((*ip, PORT).into()),
        ScopedIp::V6(ip, None) => Some((*ip, PORT).into()),
        ScopedIp::V6(ip, Some(scope)) => {
            let index = scope.parse().or_else(|_| nix::net::if_::if_nametoindex(scope.as_str())).ok()?;
            Some(SocketAddrV6::new(*ip, PORT, 0, index).into())
        }
    }
}

/// Reads `10.0.0.53`, `10.0.0.53:5353`, `::1`, `[::1]` or `[::1]:5353`.
///
/// # Errors
/// The text is none of these.
pub fn parse_server(text: &str) -> Result<SocketAddr, ResolverError> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT)).or_else(|_| text.parse());
    address
        .ok()
        .filter(|address| address.port() != 0)
        .ok_or_else(|| ResolverError::Address { text: text.chars().take(60).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> Host {
        Host::parse(name).unwrap()
    }

    #[test]
    fn servers_are_read_as_people_write_them() {
        for (text, server) in [
            ("10.0.0.53", "10.0.0.53:53"),
            (" 10.0.0.53:5353", "10.0.0.53:5353"),
            ("::1", "[::1]:53"),
            ("[::1]", "[::1]:53"),
            ("[2001:db8::1]:5353", "[2001:db8::1]:5353"),
        ] {
            assert_eq!(parse_server(text).unwrap(), server.parse().unwrap(), "{text}");
        }
        for text in
            ["", "dns.example", "10.0.0.53:", "10.0.0.53:70000", "10.0.0.53:0", "10.0.0.0/24", "a\u{1b}[0m"]
        {
            let error = parse_server(text).unwrap_err();
            assert!(!error.to_string().contains('\u{1b}'), "{text}");
        }
    }

    #[test]
    fn a_pod_tries_its_search_list_before_short_names() {
        let pod = "nameserver 10.96.0.10\nnameserver 10.96.0.10\nnameserver fe80::1%2\nnonsense\n\
                   search default.svc.cluster.local svc.cluster.local\noptions ndots:5\n";
        let system = System::parse(pod.as_bytes());
        let scoped = SocketAddrV6::new("fe80::1".parse().unwrap(), 53, 0, 2);
        assert_eq!(system.servers, ["10.96.0.10:53".parse().unwrap(), SocketAddr::from(scoped)]);
        let tried: Vec<_> = system.tried_first(&host("api.partner.example")).collect();
        assert_eq!(
            tried,
            ["api.partner.example.default.svc.cluster.local", "api.partner.example.svc.cluster.local"]
        );
        assert_eq!(system.tried_first(&host("a.b.c.d.e.example")).count(), 0);
        let plain = System::parse(b"nameserver 192.0.2.1\nsearch corp.example\n");
        assert_eq!(plain.tried_first(&host("api.partner.example")).count(), 0);
        assert_eq!(plain.tried_first(&host("intranet")).collect::<Vec<_>>(), ["intranet.corp.example"]);
    }

    #[test]
    fn a_file_without_resolvers_is_an_error_with_a_remedy() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = System::read(file.path()).unwrap_err();
        assert!(error.hint().contains("--resolver"));
        assert!(matches!(System::read(Path::new("/nonexistent")), Err(ResolverError::Unreadable { .. })));
    }
}
