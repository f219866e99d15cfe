//! A real Envoy: found or installed ([`install`]), configured as istiod would ([`bootstrap`]), run so that it never
//! outlives the lab ([`process`]), and asked over its admin port ([`admin`], [`inspect`]). Called by `lab` and by `envoy install`.

pub mod admin;
pub mod bootstrap;
pub mod inspect;
pub mod install;
pub mod process;
pub mod version;

pub use install::{Binary, InstallError, Source};
pub use process::{Envoy, EnvoyError};
