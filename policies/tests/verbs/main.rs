//! The verbs as their callers meet them: advice and audit, by the public API alone.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::float_cmp, reason = "the figures are exact in binary")]

mod advice;
mod audits;
mod cases;
mod loading;
mod mending;
mod seen;
mod verdicts;
