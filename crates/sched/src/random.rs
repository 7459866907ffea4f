//! Pseudo-random numbers for workloads of tests and simulations.

/// The next number of the generator SplitMix64 (Steele, Lea and Flood, OOPSLA '14), whose state is
/// any number. Integer arithmetic only: a seed means the same on every machine.
///
/// ```
/// let mut state = 0;
/// assert_eq!(quaver_sched::random::splitmix64(&mut state), 0xe220_a839_7b1d_cdaf);
/// ```
pub fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
