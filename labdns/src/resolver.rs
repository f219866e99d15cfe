//! Caching resolvers in front of the zone, in process. A [`ResolverSpec`] and a seed make a [`Farm`] of caches behind
//! one address; a query goes in, an answer out of one of the caches comes back, or nothing where it was lost. Time is
//! an argument: the server gives it real time, `lab score` simulated time.

mod cache;
mod farm;

pub use farm::Farm;

pub use crate::schema::resolver::{CachePick, Override, ResolverSpec, ServeStale};

#[cfg(test)]
mod tests;
