//! Counting spans of time by their order of magnitude: four steps to each doubling.
//!
//! A span's step is its highest bit and the two below. So a step is at most a quarter of its
//! power of two long, and a histogram of all 64-bit spans has [`COUNT`] counters.

/// Steps in each doubling.
const IN_DOUBLING: usize = 4;
/// How many steps there are.
pub const COUNT: usize = 64 * IN_DOUBLING;

/// The step of a span; 0 counts as 1.
pub const fn of(span: u64) -> usize {
    let span = if span == 0 { 1 } else { span };
    let high = span.ilog2();
    let below = if high >= 2 { span >> (high - 2) } else { span << (2 - high) };
    high as usize * IN_DOUBLING + below as usize % IN_DOUBLING
}

/// The least span of a step, or what it would be if spans were no whole numbers, rounded down.
pub const fn start(step: usize) -> u64 {
    let quarters = (IN_DOUBLING + step % IN_DOUBLING) as u128;
    ((quarters << (step / IN_DOUBLING)) / IN_DOUBLING as u128) as u64
}

/// The start of the next step; of the last, the greatest span.
pub const fn end(step: usize) -> u64 {
    if step + 1 < COUNT { start(step + 1) } else { u64::MAX }
}

/// The middle of a step.
pub fn middle(step: usize) -> f64 {
    let power = (1u64 << (step / IN_DOUBLING)) as f64;
    power * (1.0 + ((step % IN_DOUBLING) as f64 + 0.5) / IN_DOUBLING as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_lie_within_their_steps() {
        let mut last = 0;
        for span in (1..5_000).chain([1 << 40, (1 << 40) + (1 << 39), 1 << 63, u64::MAX]) {
            let here = of(span);
            assert!(here >= last && here < COUNT, "{span}");
            last = here;
            // Steps of less than 1 have no whole number to end with.
            let ends = span < end(here) || span < 4 || span == u64::MAX;
            assert!(start(here) <= span && ends, "{span}");
            assert!((middle(here) / span as f64 - 1.0).abs() <= 0.5, "{span}");
            assert!(span < 4 || end(here) as f64 <= start(here) as f64 * 1.25, "{span}");
        }
        assert_eq!((of(0), of(u64::MAX)), (0, COUNT - 1));
    }
}
