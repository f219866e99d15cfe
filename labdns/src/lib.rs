//! The lab's authoritative DNS. A scenario file comes in; answers go out, over UDP and TCP or straight from the pure
//! zone in simulated time. Knows nothing of Envoy or Istio. Called by `probes` and the `lab` commands.
