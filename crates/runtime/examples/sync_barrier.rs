//! Heat flows along a rod: in every step all parts are computed from the previous step, so the
//! threads meet between steps.

use quaver::sync::{Barrier, Mutex};
use std::sync::Arc;

const PARTS: usize = 8;
const CELLS: usize = 32;
const STEPS: usize = 500;

#[quaver::main]
fn main() {
    let meet = Arc::new(Barrier::new(PARTS));
    // The first cell is hot.
    let rod = Arc::new(Mutex::new(vec![0.0f64; PARTS * CELLS]));
    rod.lock().unwrap()[0] = 1_000.0;

    let threads: Vec<_> = (0..PARTS)
        .map(|part| {
            let (meet, rod) = (meet.clone(), rod.clone());
            quaver::spawn(move || {
                let mut steps_led = 0;
                for _ in 0..STEPS {
                    let old = rod.lock().unwrap().clone();
                    let at = |i: usize| old[i.min(old.len() - 1)];
                    let start = part * CELLS;
                    let new: Vec<_> = (start..start + CELLS)
                        .map(|i| (at(i.saturating_sub(1)) + 2.0 * at(i) + at(i + 1)) / 4.0)
                        .collect();
                    // Nobody writes before all have read, and nobody reads before all have written.
                    meet.wait();
                    rod.lock().unwrap()[start..start + CELLS].copy_from_slice(&new);
                    steps_led += usize::from(meet.wait().is_leader());
                }
                steps_led
            })
        })
        .collect();
    let led: usize = threads.into_iter().map(|t| t.join().unwrap()).sum();
    assert_eq!(led, STEPS, "one leader in every step");

    let rod = rod.lock().unwrap();
    let heat: f64 = rod.iter().sum();
    println!("after {STEPS} steps: heat {heat:.3}, hottest cell {:.3}", rod[0]);
    assert!((heat - 1_000.0).abs() < 1e-6, "heat is conserved");
}
