//! The exit codes, all of them. Commands return one, `main` hands it to the shell, the book's reference prints this
//! table.

/// What the shell is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// The work was done and nothing stood out.
    Clean = 0,
    /// Findings at or above `--fail-on`, or an experiment was refuted.
    Findings = 1,
    /// Some of the work could not be done: bad input, a dead name, a resolver that does not answer.
    CouldNot = 2,
}

impl Exit {
    /// The worse of the two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.max(other)
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
