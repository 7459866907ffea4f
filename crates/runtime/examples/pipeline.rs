//! A pipeline whose last stage waits with a timeout: numbers -> squares, of which some take long ->
//! their sum.

use quaver::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

fn square(n: u64) -> u64 {
    // Every tenth is hard work: it is preempted, and the others pass by.
    let rounds = if n.is_multiple_of(10) { 100_000 } else { 1_000 };
    (0..rounds).fold(n * n, |a, b| std::hint::black_box(a ^ b ^ b))
}

#[quaver::main(workers = 1, quantum = "50us")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (numbers, to_square) = mpsc::sync_channel(8);
    let (squares, to_sum) = mpsc::channel();

    let source = quaver::spawn(move || {
        for n in 1..=100u64 {
            // Blocks while the channel is full, and lets the next stage run.
            if numbers.send(n).is_err() {
                break;
            }
        }
    });

    let stage = quaver::spawn(move || {
        for n in to_square {
            let squares = squares.clone();
            // A thread for each: the hard ones do not stand before the easy ones.
            quaver::spawn_detached(move || _ = squares.send((n, square(n))));
        }
    });

    let start = Instant::now();
    let (mut sum, mut count, mut silences) = (0, 0, 0);
    loop {
        match to_sum.recv_timeout(Duration::from_millis(5)) {
            Ok((_, square)) => {
                sum += square;
                count += 1;
            }
            Err(RecvTimeoutError::Timeout) => silences += 1,
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    source.join().map_err(|_| "the source panicked")?;
    // It has ended: it was the last that had a sender.
    let stage = stage.join_timeout(Duration::from_secs(60));
    stage.map_err(|_| "the stage still runs")?.map_err(|_| "the stage panicked")?;
    assert_eq!((count, sum), (100, (1..=100).map(|n| n * n).sum()));
    println!(
        "{count} squares, sum {sum}, {silences} times nothing for 5 ms, {:?}",
        start.elapsed()
    );
    Ok(())
}
