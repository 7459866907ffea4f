//! A sleeper comes back in time although the only worker is busy.

use std::time::{Duration, Instant};

#[quaver::main(workers = 1)]
fn main() {
    quaver::spawn_detached(|| {
        loop {
            std::hint::spin_loop();
        }
    });
    for _ in 0..5 {
        let start = Instant::now();
        quaver::sleep(Duration::from_millis(1));
        println!("slept for {:?}", start.elapsed());
    }
}
