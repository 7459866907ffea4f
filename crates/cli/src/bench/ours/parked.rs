//! Threads that wait for a semaphore.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quaver::sync::Semaphore;
use quaver_bench_common::Sample;
use quaver_bench_common::parked::Parking;

/// Spawns `threads` threads that wait, wakes and joins them.
pub fn run(threads: u64) -> Sample {
    static ARRIVED: AtomicU64 = AtomicU64::new(0);
    let gate = Arc::new(Semaphore::new(0));
    let parking = Parking::start(threads);
    let handles: Vec<_> = (0..threads)
        .map(|_| {
            let gate = Arc::clone(&gate);
            quaver::spawn(move || {
                ARRIVED.fetch_add(1, Ordering::Relaxed);
                drop(gate.acquire());
            })
        })
        .collect();
    while ARRIVED.load(Ordering::Relaxed) < threads {
        quaver::yield_now();
    }
    let parking = parking.parked();
    gate.add_permits(threads as usize);
    for handle in handles {
        handle.join().expect("nobody panics");
    }
    parking.finish()
}
