//! One file a command. Each takes its arguments and the console, builds what it has to say, has it rendered and
//! returns the exit code.

pub mod advise;
pub mod audit;
pub mod classify;
pub mod generate;
pub mod lab;
pub mod measure;
pub mod reference;
pub mod report;
