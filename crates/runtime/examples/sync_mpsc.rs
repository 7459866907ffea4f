//! A pipeline of channels: numbers are generated, squared by several threads, and summed up.
//!
//! The bounded channel in the middle holds the generator back when the workers cannot keep up. The
//! ends of the channels tell every stage when to stop.

use quaver::sync::{Mutex, mpsc};
use std::sync::Arc;

const NUMBERS: u64 = 20_000;

#[quaver::main]
fn main() {
    let (numbers, jobs) = mpsc::sync_channel(64);
    let (results, squares) = mpsc::channel();

    let generator = quaver::spawn(move || {
        for n in 1..=NUMBERS {
            numbers.send(n).unwrap();
        }
    });

    // A receiver has one owner; several threads share it behind a mutex.
    let jobs = Arc::new(Mutex::new(jobs));
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (jobs, results) = (jobs.clone(), results.clone());
            quaver::spawn(move || {
                loop {
                    let job = jobs.lock().unwrap().recv();
                    match job {
                        Ok(n) => results.send(n * n).unwrap(),
                        Err(mpsc::RecvError) => return,
                    }
                }
            })
        })
        .collect();
    drop(results);

    let sum: u64 = squares.iter().sum();
    generator.join().unwrap();
    for worker in workers {
        worker.join().unwrap();
    }
    println!("the first {NUMBERS} squares add up to {sum}");
    assert_eq!(sum, NUMBERS * (NUMBERS + 1) * (2 * NUMBERS + 1) / 6);
}
