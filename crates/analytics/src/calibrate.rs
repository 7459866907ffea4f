//! How many rows an analysis takes for the time that it should take.
//!
//! The time is in proportion to the rows but for a constant. So it is measured, the rows are
//! corrected by the ratio, and again. Of each measurement the quickest of several counts: what
//! else runs on the machine only makes them longer.

use std::time::{Duration, Instant};

use super::history::History;
use super::kernels::KERNELS;
use super::{KINDS, MAX_ROWS, MICROSECONDS, Rows};

/// Corrections; the second one finds little to do.
const STEPS: usize = 4;
/// A measurement takes the quickest of so many.
const TRIES: usize = 40;
/// To begin with.
const FIRST: usize = 2_000;
/// Enough for the shortest analysis on a machine of the future.
const HISTORY: usize = 1 << 18;

/// The rows with which each analysis takes its time on this machine, on the calling thread.
pub fn calibrate() -> Rows {
    let history = History::new(HISTORY);
    Rows(std::array::from_fn(|kind| rows_for(&history, kind, MICROSECONDS[kind])))
}

fn rows_for(history: &History, kind: usize, microseconds: u64) -> usize {
    let wanted = Duration::from_micros(microseconds).as_secs_f64();
    let mut rows = FIRST;
    for _ in 0..STEPS {
        let took = quickest(history, kind, rows).as_secs_f64().max(1e-9);
        let next = rows as f64 * wanted / took;
        rows = (next.round() as usize).clamp(16, HISTORY.min(MAX_ROWS));
    }
    rows
}

fn quickest(history: &History, kind: usize, rows: usize) -> Duration {
    let once = |_| {
        let begun = Instant::now();
        std::hint::black_box(KERNELS[kind](history, std::hint::black_box(rows)));
        begun.elapsed()
    };
    (0..TRIES).map(once).min().unwrap_or_default()
}

const _: () = assert!(KINDS == KERNELS.len());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_analyses_get_rows_that_take_longer() {
        let history = History::new(20_000);
        for kind in 0..KINDS {
            let (few, many) = (quickest(&history, kind, 1_000), quickest(&history, kind, 20_000));
            assert!(many > few, "{kind}: {few:?}, {many:?}");
        }
    }

    #[test]
    fn all_rows_are_within_the_history() {
        let Rows(rows) = calibrate();
        assert!(rows.iter().all(|rows| (16..=HISTORY).contains(rows)), "{rows:?}");
    }
}
