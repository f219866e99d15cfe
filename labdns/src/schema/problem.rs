//! A rule of the scenario file that is broken: where, what is wrong, and what to write instead.

use std::fmt;

use crate::name::Name;

/// A rule that is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where in the file.
    pub(crate) place: Place,
    /// What is wrong.
    pub(crate) message: String,
    /// What to write instead.
    pub(crate) hint: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Scenario,
    Name(Name),
    Step(usize),
    Resolver(usize),
    NameServer(usize),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Scenario => {}
            Place::Name(name) => write!(f, "{name}: ")?,
            Place::Step(index) => write!(f, "step {}: ", index + 1)?,
            Place::Resolver(index) => write!(f, "resolver {}: ", index + 1)?,
            Place::NameServer(index) => write!(f, "name server {}: ", index + 1)?,
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}
