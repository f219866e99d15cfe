//! What every tier's tests share: starting real servers on loopback ports, waiting with a deadline, running the
//! built binaries. Tests in, children torn down on drop.
