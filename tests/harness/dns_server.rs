//! A real DNS server on a loopback port: a row of a table and a folder of configuration files come in, a server that
//! has answered its first query goes out.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use tempfile::TempDir;

use crate::{Child, eventually, find, ports};

/// How to run one server. In its arguments and configuration files `@DIR@` stands for its folder, `@PORT@` for its
/// port, and `@NAME@` for the port of a peer that was started before it.
#[derive(Debug)]
pub struct Daemon {
    /// How tests and the configuration of its peers call it.
    pub name: &'static str,
    /// The program.
    pub program: &'static str,
    /// Debian's package.
    pub package: &'static str,
    /// Folder of its configuration, beneath the one given to [`DnsServer::start`].
    pub config: &'static str,
    /// Arguments that keep it in the foreground.
    pub args: &'static [&'static str],
    /// A name that it answers with an address once it is ready.
    pub ready: &'static str,
}

/// Where a server is.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// How tests call it.
    pub name: &'static str,
    /// Where it answers, UDP and TCP.
    pub addr: SocketAddr,
    /// Its folder: configuration, state and log.
    pub dir: PathBuf,
}

/// A running server, killed on drop.
#[derive(Debug)]
pub struct DnsServer {
    /// Where it is.
    pub endpoint: Endpoint,
    child: Child,
    _dir: TempDir,
}

impl DnsServer {
    /// Starts a server and waits for its first answer.
    ///
    /// # Errors
    /// When it is not installed, ends, or does not answer; with its log.
    pub fn start(daemon: &Daemon, configs: &Path, peers: &[Self]) -> anyhow::Result<Self> {
        let program = find(daemon.program, daemon.package)?;
        loop {
            let mut server = Self::spawn(daemon, &program, configs, peers)?;
            let ready = eventually(Duration::from_secs(20), daemon.name, || server.answers(daemon.ready));
            match ready {
                Ok(Ok(())) => return Ok(server),
                Ok(Err(_)) if server.child.log().contains("in use") => {}
                Ok(Err(ended)) => bail!("{} {ended}; its log:\n{}", daemon.name, server.child.log()),
                Err(silent) => bail!("{silent}; the log of {}:\n{}", daemon.name, server.child.log()),
            }
        }
    }

    fn spawn(daemon: &Daemon, program: &Path, configs: &Path, peers: &[Self]) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let addr = ports::free_port()?;
        let mut values = vec![
            ("@DIR@".to_owned(), dir.path().display().to_string()),
            ("@PORT@".to_owned(), addr.port().to_string()),
        ];
        values.extend(peers.iter().map(|peer| {
            (format!("@{}@", peer.endpoint.name.to_uppercase()), peer.endpoint.addr.port().to_string())
        }));
        let fill =
            |text: &str| values.iter().fold(text.to_owned(), |text, (key, value)| text.replace(key, value));
        write_configs(&configs.join(daemon.config), dir.path(), &fill)?;
        let child = Child::spawn(program, daemon.args.iter().map(|arg| fill(arg)), dir.path().join("log"))?;
        let endpoint = Endpoint { name: daemon.name, addr, dir: dir.path().to_owned() };
        Ok(Self { endpoint, child, _dir: dir })
    }

    /// Whether it answers with an address. The outer error says "not yet", the inner one that it never will.
    fn answers(&mut self, name: &str) -> anyhow::Result<Result<(), String>> {
        if let Some(status) = self.child.exited()? {
            return Ok(Err(format!("ended with {status}")));
        }
        let reply = ask(self.endpoint.addr, name)?;
        if reply.metadata.response_code != ResponseCode::NoError || reply.answers.is_empty() {
            bail!("{name}: {} with {} answers", reply.metadata.response_code, reply.answers.len());
        }
        Ok(Ok(()))
    }
}

/// One query for an A record over UDP, without a retry.
///
/// # Errors
/// When nothing that can be read comes back within a second.
pub fn ask(server: SocketAddr, name: &str) -> anyhow::Result<Message> {
    let mut query = Message::query();
    query.metadata.recursion_desired = true;
    query.add_query(Query::query(Name::from_ascii(name)?, RecordType::A));
    let socket = UdpSocket::bind((server.ip(), 0))?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    socket.connect(server)?;
    socket.send(&query.to_vec()?)?;
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer)?;
    Ok(Message::from_vec(&buffer[..length])?)
}

/// Copies a folder of configuration files, filled in.
fn write_configs(from: &Path, to: &Path, fill: &impl Fn(&str) -> String) -> anyhow::Result<()> {
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let source = entry?.path();
        let target = to.join(source.file_name().context("a folder's entry has a name")?);
        if source.is_dir() {
            fs::create_dir(&target)?;
            write_configs(&source, &target, fill)?;
        } else {
            fs::write(&target, fill(&fs::read_to_string(&source)?))?;
        }
    }
    Ok(())
}
