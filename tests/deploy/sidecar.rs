//! A real sidecar beside an Envoy that has nothing to do, for what reads its listeners.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};

use harness::binaries::workspace_binary;
use serde_json::Value;

/// Dies with the test.
pub(crate) struct Sidecar {
    process: Child,
    listening: Value,
}

impl Sidecar {
    pub(crate) fn start() -> Self {
        let admin = format!("--admin=http://{}", idle_envoy());
        let fixed = ["serve", "--public=127.0.0.1:0", "--control=127.0.0.1:0", "--metrics=127.0.0.1:0"];
        let mut command = workspace_binary("drain-sidecar");
        command.args(fixed).args(["--lb-buffer=200ms", "--fast-poll=10ms", &admin]);
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let listening = loop {
            let mut line = String::new();
            log.read_line(&mut line).unwrap();
            let line: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not listening: {line}"));
            if line["event"] == "listening" {
                break line;
            }
        };
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { process, listening }
    }

    pub(crate) fn at(&self, listener: &str) -> SocketAddr {
        self.listening[listener].as_str().unwrap().parse().unwrap()
    }

    /// The whole answer.
    pub(crate) fn get(&self, listener: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(self.at(listener)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn idle_envoy() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let body = "http.ingress.downstream_rq_active: 0\nlistener.0.0.0.0_8080.downstream_cx_active: 0\n";
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        }
    });
    addr
}
