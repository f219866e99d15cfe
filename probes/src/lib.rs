//! Everything that touches the network, in three rooms: `names` measures how names answer, `lab` holds the real parts of
//! a lab, `experiments` puts them together and judges what they do. Called by the commands in `cli`.

pub mod experiments;
pub mod lab;
pub mod names;
