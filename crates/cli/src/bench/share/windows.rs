//! The tail of the latency where the machine itself does not disturb.
//!
//! A machine that stops a CPU for a millisecond now and then has a p99 of its own. So requests are
//! also looked at in windows, one after the other: a stop spoils the windows in which it falls, and
//! the median of the windows' p99 says what the others are like.

use quaver_load::Recorder;

/// Requests in a window, of which the fifth slowest is the p99.
const WINDOW: usize = 500;

/// Of a request that was not served: slower than any other.
const NEVER: u64 = u64::MAX;

/// The median of the windows' p99, in nanoseconds. `None`: there are too few requests for a window,
/// or so many were not served that it has no end.
pub fn p99_ns(recorder: &Recorder) -> Option<u64> {
    let served = recorder.samples().filter(|sample| !sample.warm_up);
    let latencies: Vec<u64> = served.map(|sample| sample.latency_ns().unwrap_or(NEVER)).collect();
    median_p99(&latencies)
}

fn median_p99(latencies: &[u64]) -> Option<u64> {
    let p99 = |window: &[u64]| {
        let mut window = window.to_vec();
        window.sort_unstable();
        window[WINDOW - WINDOW.div_ceil(100)]
    };
    let mut all: Vec<u64> = latencies.chunks_exact(WINDOW).map(p99).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().filter(|&p99| p99 != NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_fifth_slowest_of_a_window() {
        let latencies: Vec<u64> = (1..=WINDOW as u64).rev().collect();
        assert_eq!(median_p99(&latencies), Some(496));
        assert_eq!(median_p99(&latencies[1..]), None);
    }

    /// One stop, in which a fiftieth of all requests wait.
    #[test]
    fn a_stop_spoils_its_own_window_only() {
        let mut latencies = vec![10; 10 * WINDOW];
        latencies[2_000..2_100].fill(5_000_000);
        assert_eq!(median_p99(&latencies), Some(10));
    }

    #[test]
    fn what_is_never_served_has_no_latency() {
        let mut latencies = vec![10; 4 * WINDOW];
        latencies[..WINDOW].fill(NEVER);
        assert_eq!(median_p99(&latencies), Some(10));
        latencies[..3 * WINDOW].fill(NEVER);
        assert_eq!(median_p99(&latencies), None);
    }

    /// A delay that belongs to the mechanism falls into all windows.
    #[test]
    fn what_comes_often_is_seen() {
        let latencies: Vec<u64> =
            (0..10 * WINDOW).map(|i| if i % 50 == 0 { 900 } else { 10 }).collect();
        assert_eq!(median_p99(&latencies), Some(900));
    }
}
