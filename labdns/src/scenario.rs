//! The scenario file: YAML comes in, a checked [`Scenario`] goes out, or an error with line, column and remedy.
//! Unknown keys are refused. Called by the server and by everything that lists scenarios.

mod check;
mod error;

pub use error::ScenarioError;

pub use crate::schema::pool::Pool;
pub use crate::schema::problem::Problem;
pub use crate::schema::records::{Cname, Flap, Group, Hold, Order, Pick, RecordSet};
pub use crate::schema::scalar::{Interval, Moment, Take, Ttl};
pub use crate::schema::{Expect, ExpectedClass, ExpectedResolution, NameServer, NameSpec, Scenario, Step};

impl Scenario {
    /// Reads and checks a scenario. Size, depth and references of the YAML are bounded.
    ///
    /// # Errors
    /// [`ScenarioError`]: what is wrong, where, and what to write instead.
    pub fn from_yaml(text: &str) -> Result<Self, ScenarioError> {
        if text.len() > error::MAX_BYTES {
            return Err(ScenarioError::too_big(text.len()));
        }
        let scenario: Self = serde_saphyr::from_str_with_options(text, error::options())
            .map_err(|error| ScenarioError::yaml(&error))?;
        check::check(&scenario).map_err(|problem| ScenarioError::located(&problem, text))?;
        Ok(scenario)
    }
}

#[cfg(test)]
mod tests;
