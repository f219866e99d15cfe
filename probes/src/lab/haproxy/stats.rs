//! HAProxy's words read: `show stat` (CSV with a header line) and the lab's own log format. Called by `haproxy`.

use std::io;
use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// One server of the HTTP backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLine {
    /// Its name.
    pub name: String,
    /// `UP`, `UP 1/2`, `NOLB`, `DOWN`, `DRAIN`, ...
    pub status: String,
    /// Sessions on it now.
    pub sessions: u64,
}

/// A session that did not end by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutSession {
    /// When it ended, ms since the epoch.
    pub at_ms: u64,
    /// HAProxy's termination state: first who ended it, then in which phase.
    pub flags: String,
    /// Status that the client was given.
    pub status: u16,
    /// Name of the server.
    pub server: String,
}

/// `show stat` over the stats socket.
///
/// # Errors
/// No answer.
pub async fn ask(socket: &Path) -> io::Result<Vec<ServerLine>> {
    let mut stream = UnixStream::connect(socket).await?;
    stream.write_all(b"show stat\n").await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(servers(&text))
}

/// The process id that the stats socket itself says.
///
/// # Errors
/// No answer.
pub async fn process(socket: &Path) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket).await?;
    stream.write_all(b"show info\n").await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text.lines().find_map(|line| line.strip_prefix("Pid: ")).unwrap_or_default().to_owned())
}

/// The servers of backend `igw`.
#[must_use]
pub fn servers(csv: &str) -> Vec<ServerLine> {
    let mut lines = csv.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().trim_start_matches("# ").split(',').collect();
    let column = |name: &str| head.iter().position(|column| *column == name);
    let (Some(proxy), Some(server), Some(status), Some(scur)) =
        (column("pxname"), column("svname"), column("status"), column("scur"))
    else {
        return Vec::new();
    };
    lines
        .map(|line| line.split(',').collect::<Vec<_>>())
        .filter(|fields| fields.get(proxy) == Some(&"igw"))
        .filter(|fields| !matches!(fields.get(server), None | Some(&"BACKEND" | &"FRONTEND")))
        .filter_map(|fields| {
            Some(ServerLine {
                name: (*fields.get(server)?).to_owned(),
                status: (*fields.get(status)?).to_owned(),
                sessions: fields.get(scur)?.parse().ok()?,
            })
        })
        .collect()
}

/// The sessions in a log whose server was killed under them (`D` in the first place: server marked down).
#[must_use]
pub fn cut_sessions(log: &str) -> Vec<CutSession> {
    log.lines().filter_map(session).filter(|session| session.flags.starts_with('D')).collect()
}

/// `session <accept s>.<ms> <active ms> <flags> <status> <bytes> <server>`
fn session(line: &str) -> Option<CutSession> {
    let fields: Vec<&str> = line.strip_prefix("session ")?.split(' ').collect();
    let [accepted, active, flags, status, _bytes, server] = fields[..] else { return None };
    let (seconds, millis) = accepted.split_once('.')?;
    let accepted: u64 = seconds.parse::<u64>().ok()? * 1000 + millis.parse::<u64>().ok()?;
    let active: u64 = active.trim_start_matches('+').parse().unwrap_or(0);
    Some(CutSession {
        at_ms: accepted + active,
        flags: flags.to_owned(),
        status: status.parse().unwrap_or(0),
        server: server.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of HAProxy 2.6.12, columns cut short.
    #[test]
    fn servers_are_found_by_the_head_of_the_table() {
        let csv = "# pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,dreq,dresp,ereq,econ,eresp,wretr,wredis,status,\n\
                   h1,FRONTEND,,,1,1,4000,1,0,0,0,0,0,,,,,OPEN,\n\
                   igw,a,0,0,3,3,,9,0,0,,0,,0,0,0,0,NOLB,\n\
                   igw,BACKEND,0,0,3,3,200,9,0,0,0,0,,0,0,0,0,UP,\n\
                   igw-tcp,a,0,0,0,0,,0,0,0,,0,,0,0,0,0,UP,\n";
        let a = ServerLine { name: "a".to_owned(), status: "NOLB".to_owned(), sessions: 3 };
        assert_eq!(servers(csv), [a]);
        assert!(servers("").is_empty());
    }

    #[test]
    fn only_sessions_cut_by_a_server_gone_down_are_cut() {
        let log = "session 1700000000.250 1500 DH 502 209 a\nsession 1700000000.250 20 -- 200 10 b\n\
                   [NOTICE] something else\nsession 1700000001.000 10 SC 503 209 <NOSRV>\n";
        let cut = cut_sessions(log);
        assert_eq!(cut.len(), 1);
        assert_eq!((cut[0].at_ms, cut[0].status), (1_700_000_001_750, 502));
    }
}
