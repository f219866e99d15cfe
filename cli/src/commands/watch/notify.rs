//! Webhooks: events go out of the store to a URL, in order, until it accepts them. How far it is lies in the store, so
//! that an event is delivered at least once, over restarts too; receivers tell repeats by the event's id.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use policies::watch::What;
use prometheus_client::metrics::counter::Counter;
use serde_json::{Value, json};
use tokio::sync::watch as signal;

use crate::args::WebhookForm;
use crate::report::Problem;
use crate::store::{Store, Stored};

/// Events of one request.
const TOGETHER: usize = 64;
/// First pause after a failure; it doubles with each further one.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long a receiver may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long an alert stands in Alertmanager: an event is a moment.
const STANDS: Duration = Duration::from_secs(3600);

/// Where events go.
pub(super) struct Webhook {
    url: reqwest::Url,
    form: WebhookForm,
    client: reqwest::Client,
    accepted: Counter,
    failed: Counter,
}

impl Webhook {
    pub(super) fn new(
        url: &str,
        form: WebhookForm,
        (accepted, failed): (Counter, Counter),
    ) -> Result<Self, Problem> {
        let wrong = |what: String| {
            Problem::new("--webhook", what, "write a URL such as http://alerts.example:8080/dns")
        };
        let mut url: reqwest::Url = url.parse().map_err(|error| wrong(format!("is no URL: {error}")))?;
        if url.scheme() != "http" {
            return Err(wrong(format!("is not http but {}, which this build cannot speak", url.scheme())));
        }
        if form == WebhookForm::Alertmanager && url.path() == "/" {
            url.set_path("/api/v2/alerts");
        }
        let client = reqwest::Client::builder().timeout(TIMEOUT).build();
        let client = client.map_err(|error| wrong(format!("cannot be used: {error}")))?;
        Ok(Self { url, form, client, accepted, failed })
    }

    /// Delivers until the task is dropped. A webhook that is new begins with what happens from now on.
    pub(super) async fn run(self, store: Arc<Store>, mut newest: signal::Receiver<u64>) {
        let mark = format!("webhook {}", self.url);
        let (mut at, mut pause) = (None, PAUSE);
        loop {
            let (from, place, name) = (Arc::clone(&store), at, mark.clone());
            let begin = *newest.borrow();
            let next = tokio::task::spawn_blocking(move || {
                let known = if place.is_some() { place } else { from.mark(&name)? };
                let at = known.unwrap_or(begin);
                if known.is_none() {
                    from.set_mark(&name, begin)?;
                }
                from.after(at, TOGETHER).map(|events| (at, events))
            });
            let Ok(Ok((place, events))) = next.await else {
                tokio::time::sleep(pause).await;
                continue;
            };
            at = Some(place);
            let Some(last) = events.last().map(|stored| stored.seq) else {
                if newest.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let sent = self.client.post(self.url.clone()).json(&body(self.form, &events)).send().await;
            if sent.is_ok_and(|response| response.status().is_success()) {
                self.accepted.inc_by(events.len() as u64);
                (at, pause) = (Some(last), PAUSE);
                let (to, name) = (Arc::clone(&store), mark.clone());
                // Where this fails, these events go out again after a restart.
                let _ = tokio::task::spawn_blocking(move || to.set_mark(&name, last)).await;
            } else {
                self.failed.inc();
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

fn body(form: WebhookForm, events: &[Stored]) -> Value {
    match form {
        WebhookForm::Json => json!({"events": events}),
        WebhookForm::Alertmanager => Value::Array(events.iter().map(alert).collect()),
    }
}

/// An alert with the event's id as a label, so that two events are two alerts.
fn alert(Stored { event, .. }: &Stored) -> Value {
    let severity = match &event.what {
        What::Flip { .. } | What::Vanished { .. } | What::LookupsFailing { .. } | What::Unroutable { .. } => {
            "critical"
        }
        What::Withdrawn { .. } | What::ClassChanged { .. } | What::SourcesDisagree { .. } => "warning",
        _ => "info",
    };
    let mut labels = json!({
        "alertname": "EgressDnsEvent",
        "event": event.what.kind(),
        "host": event.host,
        "event_id": event.id,
        "severity": severity,
    });
    if let (Some(family), Some(labels)) = (event.record_type, labels.as_object_mut()) {
        labels.insert("family".to_owned(), json!(family));
    }
    let ends_at: Timestamp = event.at.checked_add(STANDS).unwrap_or(event.at);
    json!({
        "labels": labels,
        "annotations": {
            "summary": format!("{} {}", event.host, event.what),
            "source": event.source.as_deref().unwrap_or_default(),
        },
        "startsAt": event.at,
        "endsAt": ends_at,
    })
}
