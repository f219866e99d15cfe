//! The part of a kubelet that port-forwards and `pilot-agent request` by exec need, since no pod runs here: TLS and
//! WebSockets. Port 15000 of a pod is the admin port of an Envoy of the test, any other is that of the machine's
//! loopback. The API server in front of it is real, and so are its authorisation and its proxying.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::Context;
use futures_util::{SinkExt as _, StreamExt as _};
use probes::lab::envoy::admin::fetch;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

use crate::objects::Objects;

/// What the kubelet of 1.36 speaks as well; the first byte of a frame is the stream.
const PROTOCOL: &str = "v4.channel.k8s.io";
const NODE: &str = "node";
/// Where Envoy's admin port is in Istio's pods.
const ADMIN_PORT: u16 = 15000;

/// The admin port of each pod's Envoy, by `NAMESPACE/POD`.
type Pods = Arc<Mutex<HashMap<String, SocketAddr>>>;
type Socket = WebSocketStream<TlsStream<TcpStream>>;

/// A node of the cluster.
pub(crate) struct Kubelet {
    pods: Pods,
    _runtime: Runtime,
}

impl Kubelet {
    /// Starts it with the API server's own key pair, and registers its node.
    pub(crate) fn start(keys: &Path, objects: &Objects) -> anyhow::Result<Self> {
        let runtime = Runtime::new()?;
        let certificates =
            CertificateDer::pem_file_iter(keys.join("api.crt"))?.collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_file(keys.join("api.key"))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(certificates, key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let port = listener.local_addr()?.port();
        let pods = Pods::default();
        runtime.spawn(serve(listener, acceptor, Arc::clone(&pods)));
        objects.apply(&format!("apiVersion: v1\nkind: Node\nmetadata: {{name: {NODE}}}\n"))?;
        objects.apply_status(&format!(
            "apiVersion: v1
kind: Node
metadata: {{name: {NODE}}}
status:
  addresses: [{{type: InternalIP, address: 127.0.0.1}}]
  daemonEndpoints: {{kubeletEndpoint: {{Port: {port}}}}}
  declaredFeatures: [ExtendWebSocketsToKubelet]
"
        ))?;
        Ok(Self { pods, _runtime: runtime })
    }

    /// A running pod whose proxy is the Envoy behind `admin`.
    pub(crate) fn run(
        &self,
        objects: &Objects,
        namespace: &str,
        name: &str,
        admin: SocketAddr,
    ) -> anyhow::Result<()> {
        let ip = admin.ip();
        self.run_pod(objects, namespace, name, "{name: istio-proxy, image: 'istio/proxyv2:1.31.0'}", ip)?;
        if let Ok(mut pods) = self.pods.lock() {
            pods.insert(format!("{namespace}/{name}"), admin);
        }
        Ok(())
    }

    /// A running pod with this container, in YAML, and the label `app` of the pod's own name.
    pub(crate) fn run_pod(
        &self,
        objects: &Objects,
        namespace: &str,
        name: &str,
        container: &str,
        ip: IpAddr,
    ) -> anyhow::Result<()> {
        let pod = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}}}}}\n"
        );
        objects.apply(&format!("{pod}spec:\n  nodeName: {NODE}\n  containers:\n  - {container}\n"))?;
        objects.apply_status(&format!(
            "{pod}status: {{phase: Running, podIP: {ip}, podIPs: [{{ip: {ip}}}]}}\n"
        ))?;
        if let Ok(mut pods) = self.pods.lock() {
            pods.insert(format!("{namespace}/{name}"), SocketAddr::new(ip, 0));
        }
        Ok(())
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, pods: Pods) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, pods) = (acceptor.clone(), Arc::clone(&pods));
        // What goes wrong here is seen by the caller: its connection ends.
        tokio::spawn(async move { answer(acceptor.accept(stream).await?, &pods).await });
    }
}

async fn answer(stream: TlsStream<TcpStream>, pods: &Pods) -> anyhow::Result<()> {
    let mut asked = String::new();
    #[expect(clippy::result_large_err, reason = "the library's type")]
    let handshake = |request: &Request, mut response: Response| {
        asked = request.uri().to_string();
        response.headers_mut().insert("sec-websocket-protocol", PROTOCOL.parse().expect("a constant header"));
        Ok(response)
    };
    let socket = accept_hdr_async(stream, handshake).await?;
    // `/portForward/NAMESPACE/POD?..` or `/exec/NAMESPACE/POD/CONTAINER?command=..`.
    let (path, query) = asked.split_once('?').context("no query")?;
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let admin = pods.lock().ok().and_then(|pods| pods.get(&format!("{}/{}", parts[1], parts[2])).copied());
    let admin = admin.context("no such pod")?;
    match parts[0] {
        "portForward" => {
            let port = query.split('&').find_map(|pair| pair.strip_prefix("port=")).context("no port")?;
            forward(socket, port.parse()?, admin).await
        }
        "exec" => request(socket, query, admin).await,
        other => anyhow::bail!("{other}"),
    }
}

/// Stream 0 is the data, stream 1 the errors; each begins with the port.
async fn forward(socket: Socket, port: u16, admin: SocketAddr) -> anyhow::Result<()> {
    let (mut sink, mut stream) = socket.split();
    for channel in [0, 1] {
        let [low, high] = port.to_le_bytes();
        sink.send(Message::binary(vec![channel, low, high])).await?;
    }
    let to = if port == ADMIN_PORT { admin } else { SocketAddr::from(([127, 0, 0, 1], port)) };
    let (mut read, mut write) = TcpStream::connect(to).await?.into_split();
    let to_pod = async {
        while let Some(Ok(message)) = stream.next().await {
            if let Message::Binary(bytes) = message
                && bytes.first() == Some(&0)
            {
                write.write_all(&bytes[1..]).await?;
            }
        }
        Ok::<_, anyhow::Error>(())
    };
    let from_pod = async {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let length = read.read(&mut buffer).await?;
            if length == 0 {
                return Ok::<_, anyhow::Error>(());
            }
            let frame: Vec<u8> = std::iter::once(0).chain(buffer[..length].iter().copied()).collect();
            sink.send(Message::binary(frame)).await?;
        }
    };
    tokio::select! {
        done = to_pod => done,
        done = from_pod => done,
    }
}

/// `pilot-agent request GET PATH`: stream 1 is stdout, stream 3 the status.
async fn request(mut socket: Socket, query: &str, admin: SocketAddr) -> anyhow::Result<()> {
    let decode = |text: &str| -> String {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'+' => b' ',
                b'%' => {
                    let code: String = rest.by_ref().take(2).map(char::from).collect();
                    u8::from_str_radix(&code, 16).unwrap_or(b'?')
                }
                other => other,
            });
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let command: Vec<String> =
        query.split('&').filter_map(|pair| pair.strip_prefix("command=")).map(decode).collect();
    let [agent, verb, method, path] = &command[..] else { anyhow::bail!("{command:?}") };
    anyhow::ensure!((agent.as_str(), verb.as_str(), method.as_str()) == ("pilot-agent", "request", "GET"));
    let body = fetch(TcpStream::connect(admin).await?, &format!("/{path}"))
        .await
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    for chunk in body.chunks(16 << 10) {
        socket.send(Message::binary([&[1], chunk].concat())).await?;
    }
    let status = br#"{"metadata":{},"status":"Success"}"#;
    socket.send(Message::binary([&[3], &status[..]].concat())).await?;
    Ok(socket.close(None).await?)
}
