//! Readers of single values: durations, resolvers, client subnets. Text in, a typed value or a message that says what
//! would be right out.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::ValueEnum;
use ipnet::IpNet;
use policies::{Platform, Version, VersionError};

use super::Protocol;
use crate::hint::refusal;

/// `90s`, `5m`, `1h30m`, `250ms`; a bare number is refused because its unit would be a guess.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let explain = || format!("`{}` is no duration: write 90s, 5m or 1h30m", text.escape_default());
    let signed = text.parse::<jiff::SignedDuration>().map_err(|_| explain())?;
    Duration::try_from(signed).map_err(|_| explain()).and_then(|duration| {
        if duration.is_zero() { Err("a duration of 0 leaves nothing to do".to_owned()) } else { Ok(duration) }
    })
}

/// `10.0.0.53`, `10.0.0.53:5353`, `2001:db8::53`, `[2001:db8::53]:5353`.
pub(super) fn server(text: &str) -> Result<SocketAddr, String> {
    probes::names::resolvers::parse_server(text).map_err(|error| refusal(&error))
}

/// `203.0.113.0/24`; a bare address stands for its /24 or /56, as resolvers send it (RFC 7871, section 11.1).
pub(super) fn subnet(text: &str) -> Result<IpNet, String> {
    let net = match text.parse::<IpAddr>() {
        Ok(addr) => {
            IpNet::new(addr, if addr.is_ipv4() { 24 } else { 56 }).map_err(|error| error.to_string())?
        }
        Err(_) => text.parse::<IpNet>().map_err(|_| {
            format!("`{}` is no client subnet: write one such as 203.0.113.0/24", text.escape_default())
        })?,
    };
    Ok(net.trunc())
}

/// `1.38.3`.
pub(super) fn envoy_version(text: &str) -> Result<policies::Version, String> {
    let version: policies::Version =
        text.parse().map_err(|error| format!("{error}; write all three numbers, such as 1.40.0"))?;
    if version.is_release() {
        Ok(version)
    } else {
        Err(format!("{version} is a release line; write all three numbers, such as {version}.0"))
    }
}

/// A name of the lab's zone.
pub(super) fn lab_name(text: &str) -> Result<labdns::Name, String> {
    labdns::Name::parse(text).map_err(|error| error.to_string())
}

/// A record type of the query log.
pub(super) fn lab_type(text: &str) -> Result<labdns::RecordType, String> {
    labdns::RecordType::try_from(text.to_ascii_uppercase()).map_err(|error| error.to_string())
}

/// Name of a namespace or manifest: an RFC 1123 label.
pub(super) fn resource_name(text: &str) -> Result<String, String> {
    if policies::manifest::is_resource_name(text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{}` is no Kubernetes name: at most 63 lower-case letters, digits and inner hyphens",
        text.escape_default()
    ))
}

/// A namespace, or `.` for the entry's own, `*` for all, `~` for none.
pub(super) fn export_to(text: &str) -> Result<String, String> {
    if matches!(text, "." | "*" | "~") { Ok(text.to_owned()) } else { resource_name(text) }
}

/// An egress gateway: `istio-system/istio-egressgateway`.
pub(super) fn gateway(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        Some((namespace, name)) => resource_name(namespace).and(resource_name(name)).map(|_| text.to_owned()),
        None => Err(format!("`{}` is not a gateway: write NAMESPACE/NAME", text.escape_default())),
    }
}

/// `443`, or `8443/HTTPS` with Istio's name of the protocol in any case.
pub(super) fn port(text: &str) -> Result<(u16, Option<Protocol>), String> {
    let (number, protocol) = text.split_once('/').map_or((text, None), |(number, word)| (number, Some(word)));
    let number = number.parse().ok().filter(|number| *number > 0).ok_or_else(|| {
        format!("`{}` is not a port: write 1 to 65535, such as 443 or 8443/HTTPS", number.escape_default())
    })?;
    let protocol = protocol.map(|word| {
        Protocol::from_str(&word.replace('_', "-"), true).map_err(|_| {
            let known: Vec<_> =
                Protocol::value_variants().iter().filter_map(Protocol::to_possible_value).collect();
            let known: Vec<&str> = known.iter().map(clap::builder::PossibleValue::get_name).collect();
            format!("`{}` is not a protocol: write one of {}", word.escape_default(), known.join(", "))
        })
    });
    Ok((number, protocol.transpose()?))
}

/// An admin port: `127.0.0.1:15000`, or an address alone for Istio's port.
pub(super) fn admin_port(text: &str) -> Result<SocketAddr, String> {
    let alone = || text.parse::<IpAddr>().map(|addr| SocketAddr::new(addr, 15000));
    text.parse()
        .or_else(|_| alone())
        .map_err(|_| format!("`{}` is no admin port: write 127.0.0.1:15000", text.escape_default()))
}

/// `POD.NAMESPACE`, as `istioctl` writes it; the name of a pod may hold dots.
pub(super) fn proxy_pod(text: &str) -> Result<(String, String), String> {
    let is_pod = |name: &str| !name.is_empty() && name.split('.').all(policies::manifest::is_resource_name);
    match text.rsplit_once('.') {
        Some((pod, namespace)) if is_pod(pod) && policies::manifest::is_resource_name(namespace) => {
            Ok((pod.to_owned(), namespace.to_owned()))
        }
        _ => Err(format!("`{}` is no proxy: write POD.NAMESPACE", text.escape_default())),
    }
}

/// A version of Istio that the table knows something of.
pub(super) fn known_istio(text: &str) -> Result<Version, String> {
    known("Istio", version(text)?, Platform::nearest_istio)
}

/// A version of Envoy that the table knows something of.
pub(super) fn known_envoy(text: &str) -> Result<Version, String> {
    known("Envoy", version(text)?, Platform::nearest_envoy)
}

fn version(text: &str) -> Result<Version, String> {
    text.parse().map_err(|error: VersionError| format!("{error}; {}", error.hint()))
}

/// What a release does that nobody has read of is not guessed.
fn known(what: &str, version: Version, nearest: fn(Version) -> Option<Version>) -> Result<Version, String> {
    match nearest(version) {
        None => Ok(version),
        Some(nearest) => {
            Err(format!("nothing is known of {what} {version}; the nearest that is known is {nearest}"))
        }
    }
}

/// `24h` back from now, or a time.
pub(super) fn time(text: &str) -> Result<jiff::Timestamp, String> {
    crate::serve::since(text)
        .ok_or_else(|| format!("`{}` is no time: write 24h or 2026-07-01T00:00:00Z", text.escape_default()))
}

/// A host name.
pub(super) fn external_host(text: &str) -> Result<policies::Host, String> {
    policies::Host::parse(text).map_err(|error| refusal(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_nothing_is_known_of_are_refused_with_the_nearest() {
        assert_eq!(known_istio("v1.31.2").unwrap().to_string(), "1.31.2");
        assert_eq!(known_envoy("1.41").unwrap().to_string(), "1.41");
        for (result, nearest) in [
            (known_istio("1.45"), "1.32"),
            (known_istio("1.6.8"), "1.20"),
            (known_envoy("1.99.0"), "1.41"),
            (known_envoy("2.0"), "1.41"),
        ] {
            let error = result.unwrap_err();
            assert!(error.contains("nearest") && error.ends_with(nearest), "{error}");
        }
        assert!(known_istio("new").unwrap_err().contains("major.minor"));
    }

    #[test]
    fn ports_carry_their_protocol_in_any_case() {
        assert_eq!(port("443"), Ok((443, None)));
        assert_eq!(port("8443/HTTPS"), Ok((8443, Some(Protocol::Https))));
        assert_eq!(port("27017/mongo"), Ok((27017, Some(Protocol::Mongo))));
        assert_eq!(port("80/Tls_Origination"), Ok((80, Some(Protocol::TlsOrigination))));
        for (text, said) in
            [("0", "1 to 65535"), ("70000/TLS", "1 to 65535"), ("443/QUIC", "one of tls, https")]
        {
            assert!(port(text).unwrap_err().contains(said), "{text}");
        }
    }

    #[test]
    fn values_people_type() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(server("10.0.0.53").unwrap().to_string(), "10.0.0.53:53");
        assert_eq!(server("10.0.1.53:5353").unwrap().to_string(), "10.0.1.53:5353");
        assert_eq!(server("[2001:db8::53]").unwrap().to_string(), "[2001:db8::53]:53");
        assert_eq!(server("2001:db8::53").unwrap().to_string(), "[2001:db8::53]:53");
        assert_eq!(admin_port("127.0.0.1").unwrap().to_string(), "127.0.0.1:15000");
        assert_eq!(admin_port("[::1]:9901").unwrap().to_string(), "[::1]:9901");
        assert_eq!(proxy_pod("api-0.v1.shop"), Ok(("api-0.v1".to_owned(), "shop".to_owned())));
        assert_eq!(subnet("203.0.113.77").unwrap().to_string(), "203.0.113.0/24");
        assert_eq!(subnet("2001:db8::/48").unwrap().to_string(), "2001:db8::/48");
    }

    #[test]
    fn wrong_values_say_what_is_right() {
        for text in ["90", "-5s", "soon", ""] {
            assert!(duration(text).unwrap_err().contains("90s, 5m"), "{text}");
        }
        assert!(duration("0s").unwrap_err().contains("duration of 0"));
        for text in ["dns.example", "10.0.0.53:x", "10.0.0\u{1b}[31m"] {
            let error = server(text).unwrap_err();
            assert!(error.contains("10.0.0.53") && !error.contains('\u{1b}'), "{error}");
        }
        for text in ["api", "api.", ".shop", "Api.shop", "api.shop\u{1b}[0m"] {
            let error = proxy_pod(text).unwrap_err();
            assert!(error.contains("POD.NAMESPACE") && !error.contains('\u{1b}'), "{error}");
        }
        assert!(server("10.0.0.53:0").is_err());
        assert!(subnet("203.0.113.0/40").unwrap_err().contains("203.0.113.0/24"));
    }
}
