//! Thresholds and settings of the classifier and its sampling. A policy file (YAML, every key optional, unknown keys
//! refused) comes in; a checked [`Policy`] goes out, or an error that names the key and the remedy.
//! [`Policy::default`] equals the shipped `policy/default.yaml`. Read by `classify` and `plan`.

use serde::{Deserialize, Serialize};
use serde_saphyr::MessageFormatter as _;

/// The policy file that is shipped, with a comment for every key.
pub const DEFAULT_YAML: &str = include_str!("../policy/default.yaml");

/// Bytes that a policy file may have.
const MAX_BYTES: usize = 64 * 1024;

/// Thresholds and settings. Figures without a source were chosen by simulation (`lab score`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// What counts as small and as large.
    pub pool: PoolPolicy,
    /// When the sequential test decides.
    pub test: TestPolicy,
    /// What is assumed before anything was seen; moves the confidence, never a decision.
    pub prior: PriorPolicy,
    /// When and how often to ask.
    pub sampling: SamplingPolicy,
}

/// What counts as small and as large, with k the addresses per answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolPolicy {
    /// A pool of up to this many addresses is small (default 16).
    pub small: usize,
    /// ... or of up to this many times k, if that is more (default 1.5).
    pub small_per_answer: f64,
    /// A pool of at least this many addresses is large (default 48).
    pub large: usize,
    /// ... or of at least this many times k, if that is more (default 4).
    pub large_per_answer: f64,
}

/// When the sequential test decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TestPolicy {
    /// Chance of a wrong decision that the likelihood-ratio test allows itself, either way (default 0.01).
    pub error_rate: f64,
    /// Different answers that a rotating pool must have shown (default 4).
    pub min_sets: usize,
    /// ... if no two of them overlap in part, so that they might be a few fixed groups (default 5).
    pub min_disjoint_sets: usize,
    /// Different addresses that a rotating pool must have shown: a small pool in strict turn shows that many in a
    /// row too (default 13).
    pub min_addresses: usize,
    /// Greatest share of draws that may still go to addresses seen once, by Good and Turing, before a pool counts
    /// as seen (default 0.15).
    pub max_unseen: f64,
    /// Successive answers that share at least this much (Jaccard) are one set that changes slowly (default 0.5).
    pub drift_overlap: f64,
    /// Seconds without a new address before a small pool is settled (default 180: at 60 a pool that is drawn anew
    /// every two minutes was missed).
    pub quiet_s: u32,
    /// ... and this many times the TTL where only caches were asked, if that is more (default 2).
    pub quiet_ttls: u32,
    /// Below this confidence the class is `InsufficientData` (default 0.85).
    pub min_confidence: f64,
}

/// What is assumed before anything was seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PriorPolicy {
    /// Share of names with a rotating pool (default 0.3).
    pub rotating: f64,
    /// Share of rotating pools that hold a draw for longer than the TTL (default 0.3).
    pub held: f64,
    /// Share of rotating pools that give a favourite more often than the rest (default 0.15).
    pub favourite: f64,
    /// Share of small pools with favourites (default 0.2).
    pub weighted: f64,
}

/// When and how often to ask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SamplingPolicy {
    /// Longest window when none is asked for, seconds (default 180).
    pub max_window_s: u32,
    /// Window of a quick look, milliseconds (default 3000).
    pub quick_window_ms: u32,
    /// Queries that one server gets without a pause (default 14).
    pub burst: u32,
    /// Pause between queries to one server after the burst, milliseconds (default 1000).
    pub pace_ms: u32,
    /// Queries with which a source is first asked, if it can be asked without waiting (default 3).
    pub opening: u32,
    /// Further looks over `quiet_s` at a name that seems settled (default 5); one less at a pool that varies at once.
    pub checks: u32,
    /// Lookups without an address before a name counts as unresolvable (default 3).
    pub give_up: u32,
}

/// Why a text is no policy.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file is larger than any policy.
    #[error("policy of {bytes} bytes is too large")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Not YAML, an unknown key, or a value of the wrong kind.
    #[error("{place}{message}")]
    Yaml {
        /// `line L, column C: `, or empty.
        place: String,
        /// What is wrong there.
        message: String,
    },
    /// A value that makes no sense.
    #[error("{key} is {value}, but {rule}")]
    Value {
        /// The key, such as `test.error_rate`.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it has to be.
        rule: &'static str,
    },
}

impl PolicyError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "check that this is the policy file",
            Self::Yaml { .. } => {
                "compare with the shipped policies/policy/default.yaml; every key is optional"
            }
            Self::Value { .. } => "leave the key out to use its default",
        }
    }
}

impl Policy {
    /// Reads and checks a policy file. Size and depth of the YAML are bounded.
    ///
    /// # Errors
    /// [`PolicyError`]: what is wrong, and where.
    pub fn from_yaml(text: &str) -> Result<Self, PolicyError> {
        if text.len() > MAX_BYTES {
            return Err(PolicyError::TooLarge { bytes: text.len() });
        }
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_depth: 8, max_nodes: 1000, max_aliases: 0, max_documents: 1 },
            with_snippet: false,
        };
        let policy: Option<Self> =
            serde_saphyr::from_str_with_options(text, options).map_err(|error| PolicyError::yaml(&error))?;
        let policy = policy.unwrap_or_default();
        policy.check()?;
        Ok(policy)
    }

    fn check(&self) -> Result<(), PolicyError> {
        let Self { pool, test, prior, sampling } = self;
        let share =
            |key, value: f64| rule(key, value, value > 0.0 && value < 1.0, "it must lie between 0 and 1");
        let positive = |key, value: u32| rule(key, value, value > 0, "it must be at least 1");
        rule(
            "pool.small",
            pool.small,
            pool.small > 0 && pool.small < pool.large,
            "it must be at least 1 and less than pool.large",
        )?;
        rule("pool.large", pool.large, pool.large <= 10_000, "it must be at most 10000")?;
        rule(
            "pool.small_per_answer",
            pool.small_per_answer,
            pool.small_per_answer >= 1.0 && pool.small_per_answer < pool.large_per_answer,
            "it must be at least 1 and less than pool.large_per_answer",
        )?;
        rule(
            "pool.large_per_answer",
            pool.large_per_answer,
            pool.large_per_answer <= 1000.0,
            "it must be at most 1000",
        )?;
        rule(
            "test.error_rate",
            test.error_rate,
            test.error_rate > 0.0 && test.error_rate <= 0.2,
            "it must be above 0 and at most 0.2",
        )?;
        share("test.max_unseen", test.max_unseen)?;
        share("test.drift_overlap", test.drift_overlap)?;
        rule(
            "test.min_confidence",
            test.min_confidence,
            (0.5..1.0).contains(&test.min_confidence),
            "it must be at least 0.5 and less than 1",
        )?;
        share("prior.rotating", prior.rotating)?;
        share("prior.held", prior.held)?;
        share("prior.favourite", prior.favourite)?;
        share("prior.weighted", prior.weighted)?;
        rule(
            "prior.held + prior.favourite",
            prior.held + prior.favourite,
            prior.held + prior.favourite < 1.0,
            "it must be less than 1",
        )?;
        positive("sampling.max_window_s", sampling.max_window_s)?;
        positive("sampling.quick_window_ms", sampling.quick_window_ms)?;
        positive("sampling.burst", sampling.burst)?;
        positive("sampling.pace_ms", sampling.pace_ms)?;
        positive("sampling.opening", sampling.opening)?;
        positive("sampling.checks", sampling.checks)?;
        positive("sampling.give_up", sampling.give_up)
    }
}

fn rule(
    key: &'static str,
    value: impl std::fmt::Display + Copy,
    holds: bool,
    rule: &'static str,
) -> Result<(), PolicyError> {
    if holds { Ok(()) } else { Err(PolicyError::Value { key, value: value.to_string(), rule }) }
}

impl PolicyError {
    fn yaml(error: &serde_saphyr::Error) -> Self {
        let place = error.location().map(|at| format!("line {}, column {}: ", at.line(), at.column()));
        let message = serde_saphyr::DefaultMessageFormatter.format_message(error.without_snippet());
        let message = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Self::Yaml { place: place.unwrap_or_default(), message }
    }
}

impl Default for PoolPolicy {
    fn default() -> Self {
        Self { small: 16, small_per_answer: 1.5, large: 48, large_per_answer: 4.0 }
    }
}

impl Default for TestPolicy {
    fn default() -> Self {
        Self {
            error_rate: 0.01,
            min_sets: 4,
            min_disjoint_sets: 5,
            min_addresses: 13,
            max_unseen: 0.15,
            drift_overlap: 0.5,
            quiet_s: 180,
            quiet_ttls: 2,
            min_confidence: 0.85,
        }
    }
}

impl Default for PriorPolicy {
    fn default() -> Self {
        Self { rotating: 0.3, held: 0.3, favourite: 0.15, weighted: 0.2 }
    }
}

impl Default for SamplingPolicy {
    fn default() -> Self {
        Self {
            max_window_s: 180,
            quick_window_ms: 3000,
            burst: 14,
            pace_ms: 1000,
            opening: 3,
            checks: 5,
            give_up: 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_file_is_the_default() {
        assert_eq!(Policy::from_yaml(DEFAULT_YAML).unwrap(), Policy::default());
        assert_eq!(Policy::from_yaml("").unwrap(), Policy::default());
    }

    #[test]
    fn the_shipped_file_names_every_key() {
        let json = serde_json::to_value(Policy::default()).unwrap();
        for (section, keys) in json.as_object().unwrap() {
            for key in keys.as_object().unwrap().keys() {
                assert!(
                    DEFAULT_YAML.contains(&format!("\n  {key}: ")),
                    "{section}.{key} is not in default.yaml"
                );
            }
        }
    }

    #[test]
    fn one_key_changes_one_value() {
        let policy = Policy::from_yaml("test: {quiet_s: 600}").unwrap();
        let mut wanted = Policy::default();
        wanted.test.quiet_s = 600;
        assert_eq!(policy, wanted);
    }

    #[test]
    fn bad_files_are_told_what_and_where() {
        let deep = format!("pool: {}{}", "[".repeat(2000), "]".repeat(2000));
        for (text, wanted) in [
            ("pool:\n  smal: 3\n", "line 2, column 3: unknown field `smal`"),
            ("sampling: {burst: many}", "line 1, column 19"),
            ("sampling: {burst: 0}", "sampling.burst is 0, but it must be at least 1"),
            ("pool: {small: 60}", "pool.small is 60, but it must be at least 1 and less than pool.large"),
            ("test: {error_rate: .nan}", "test.error_rate is NaN"),
            ("prior: {held: 0.7, favourite: 0.7}", "prior.held + prior.favourite is 1.4"),
            ("a: &a [*a, *a]", "line 1"),
            (deep.as_str(), "line 1"),
            (&" ".repeat(MAX_BYTES + 1), "too large"),
        ] {
            let error = Policy::from_yaml(text).unwrap_err();
            assert!(error.to_string().contains(wanted), "{:?}: {error}", text.get(..40).unwrap_or(text));
            assert!(!error.hint().is_empty());
        }
    }
}
