//! A library for C, which brings the standard library along.

/// The digits of what `spin` computes, added up.
#[unsafe(no_mangle)]
pub extern "C" fn sample_digits(seed: u64) -> u64 {
    sample_work::spin(seed, 1000).to_string().bytes().map(|byte| u64::from(byte - b'0')).sum()
}
