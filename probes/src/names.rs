//! Names: DNS in, observations out. Whom to ask, how to ask politely, what came back, and how often the verdict is right.
//! Imports neither of the other rooms. Called by `classify`, `audit`, `generate` and `lab score`.

pub mod authority;
pub mod budget;
pub mod diagnosis;
mod exchange;
pub mod resolvers;
pub mod sample;
pub mod score;
pub mod sweep;
pub mod watching;
pub mod window;
mod wire;
