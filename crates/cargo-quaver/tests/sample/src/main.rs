//! Two threads that compute, a panic that is caught, a backtrace through code with probes.

use std::backtrace::Backtrace;
use std::panic::catch_unwind;
use std::thread;

use sample_work::{deep, mix, spin};

sample_macros::constant!(ROUNDS, 3);

fn main() {
    let rounds: u64 = std::env::args().nth(1).map_or(20_000_000, |text| text.parse().unwrap());
    let threads: Vec<_> = (1..=2).map(|seed| thread::spawn(move || spin(seed, rounds))).collect();
    for thread in threads {
        println!("{:x}", thread.join().unwrap());
    }
    println!("{} {} {}", env!("SCRIPT_HAS_RUN"), ROUNDS, mix(&[3u32, 4, 5]));

    std::panic::set_hook(Box::new(|_| {
        let trace = Backtrace::force_capture().to_string();
        let frames = trace.lines().filter(|line| line.ends_with("deep")).count();
        let lines = trace.matches("work/src/lib.rs:").count();
        println!("{frames} frames, {lines} lines");
    }));
    let caught = catch_unwind(|| deep(40)).unwrap_err();
    println!("caught: {}", caught.downcast_ref::<&str>().unwrap());
}
