//! A lab whose parts are pods: where each of them is, and the HTTP of their control APIs. Filled by whoever can see
//! the pods, used by the bench in the client's pod.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::LabError;

/// A control API answers at once, or not at all.
const PATIENCE: Duration = Duration::from_secs(5);

/// A query string without parameters.
pub(super) const NOTHING: [(&str, &str); 0] = [];

/// The lab's pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Control API of the lab DNS.
    pub dns: SocketAddr,
    /// The backends, `backend-a` first.
    pub backends: Vec<Place>,
}

/// A backend's pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// What it calls itself.
    pub name: String,
    /// The address that DNS answers.
    pub addr: IpAddr,
    /// Its control API.
    pub control: SocketAddr,
}

/// One control API.
#[derive(Debug, Clone)]
pub(super) struct Part {
    addr: SocketAddr,
    http: reqwest::Client,
}

impl Part {
    pub(super) fn new(addr: SocketAddr) -> Result<Self, LabError> {
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build();
        let failed =
            |error: reqwest::Error| LabError::Part { addr, path: String::new(), said: error.to_string() };
        Ok(Self { addr, http: http.map_err(failed)? })
    }

    pub(super) const fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
    ) -> Result<T, LabError> {
        let asked = self.http.get(self.url(path)).query(query);
        let answer = self.sent(path, asked).await?;
        answer.json().await.map_err(|error| self.failed(path, &error))
    }

    pub(super) async fn text(&self, path: &str) -> Result<String, LabError> {
        let answer = self.sent(path, self.http.get(self.url(path))).await?;
        answer.text().await.map_err(|error| self.failed(path, &error))
    }

    pub(super) async fn post(&self, path: &str, body: &impl Serialize) -> Result<(), LabError> {
        self.sent(path, self.http.post(self.url(path)).json(body)).await.map(drop)
    }

    async fn sent(
        &self,
        path: &str,
        request: reqwest::RequestBuilder,
    ) -> Result<reqwest::Response, LabError> {
        let answer = request.send().await.map_err(|error| self.failed(path, &error))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let said = format!("{status}: {}", answer.text().await.unwrap_or_default());
        Err(LabError::Part { addr: self.addr, path: path.to_owned(), said })
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    fn failed(&self, path: &str, error: &reqwest::Error) -> LabError {
        LabError::Part { addr: self.addr, path: path.to_owned(), said: policies::chain(error) }
    }
}
