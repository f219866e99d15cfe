//! Seeds out of seeds: one run's seed and a label give the seed of a part. Stable across Rust releases and
//! platforms (unlike the standard hasher), because "same seed, same answers" is a promise.

/// FNV-1a over the bytes, then one round of `SplitMix64`.
pub(crate) fn seed_of(seed: u64, label: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut z = label.iter().fold(start, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
