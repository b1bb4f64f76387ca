//! Independent streams of random numbers.
//!
//! Each part of a run that decides something has a stream of its own, derived from the seed of the run and the name of the part. A change of
//! one part (a fault less, a call more) does not move the numbers of the others.

/// The stream of one part of a run, or of its `index`-th element.
pub fn stream(seed: u64, part: &str, index: u64) -> fastrand::Rng {
    let mut state = mix(seed ^ 0x9e37_79b9_7f4a_7c15);
    for byte in part.bytes() {
        state = mix(state ^ u64::from(byte));
    }
    fastrand::Rng::with_seed(mix(state ^ index))
}

/// The finalizer of splitmix64, which spreads each bit of its argument over all bits.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
