//! Durations that may be absent, as a JSON number of whole seconds; what Istio's own defaults and TTLs are counted in.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[expect(clippy::ref_option, reason = "serde's `with` hands over a reference to the field")]
pub(crate) fn serialize<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    value.map(|duration| duration.as_secs()).serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_secs))
}
