//! What `Builder::monitor` buys: short threads beside a process that wants the CPU of one of two
//! workers. Each worker has a thread that computes all the time, and one that makes a short thread
//! every millisecond.
//!
//! The arguments are how many rounds to measure, each once without and once with a monitor, in
//! turns, and for how many seconds. Printed is how long short threads wait until they run, in
//! milliseconds: medians over the rounds, with the least and the most. Needs a monitor and two
//! CPUs.

#[path = "../tests/support/mod.rs"]
#[allow(dead_code, reason = "the tests use all")]
mod support;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const QUANTUM: Duration = Duration::from_micros(200);
const EVERY: Duration = Duration::from_millis(1);

/// p50, p99 and the longest wait in milliseconds; short threads; threads given away.
type Round = [f64; 5];

fn compute() {
    for n in 0..1000 {
        std::hint::black_box(n);
    }
}

/// `None`, with a line: this machine cannot.
fn round(monitored: bool, time: Duration) -> Option<Round> {
    let cpus = support::two_cpus()?;
    let builder =
        quaver::Builder::new().cpus(cpus.to_vec()).policy_str("ws").quantum(Some(QUANTUM));
    let rt = builder.tax(100).monitor(monitored).build().unwrap();
    if rt.is_monitored() != monitored {
        println!("no monitor");
        return None;
    }
    let (end, waits) = (AtomicBool::new(false), Mutex::new(Vec::<f64>::new()));
    std::thread::scope(|s| {
        s.spawn(|| {
            support::pin(cpus[0]);
            while !end.load(Relaxed) {
                compute();
            }
        });
        rt.run(|| {
            quaver::scope(|s| {
                for _ in 0..2 {
                    s.spawn(|| {
                        while !end.load(Relaxed) {
                            compute();
                        }
                    });
                    s.spawn(|| {
                        while !end.load(Relaxed) {
                            let (due, waits) = (Instant::now(), &waits);
                            s.spawn(move || {
                                let wait = due.elapsed().as_secs_f64() * 1e3;
                                waits.lock().unwrap().push(wait);
                            });
                            quaver::sleep(EVERY);
                        }
                    });
                }
                quaver::sleep(time);
                end.store(true, Relaxed);
            });
        });
    });
    let given = rt.stats().taken_over;
    let mut waits = waits.into_inner().unwrap();
    waits.sort_by(f64::total_cmp);
    let at = |part: f64| waits[((waits.len() - 1) as f64 * part) as usize];
    Some([at(0.5), at(0.99), at(1.0), waits.len() as f64, given as f64])
}

fn main() {
    quaver_monitor::provide();
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().expect("a number"));
    let (rounds, seconds) = (args.next().unwrap_or(5), args.next().unwrap_or(2));
    let mut all = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (monitored, all) in [false, true].into_iter().zip(&mut all) {
            let Some(round) = round(monitored, Duration::from_secs(seconds)) else { return };
            all.push(round);
        }
    }
    for (name, rounds) in ["without", "with a monitor"].iter().zip(all) {
        let column = |which: usize| {
            let mut values: Vec<f64> = rounds.iter().map(|round| round[which]).collect();
            values.sort_by(f64::total_cmp);
            let [least, most] = [values[0], values[values.len() - 1]];
            format!("{:.2} ({least:.2} to {most:.2})", values[values.len() / 2])
        };
        println!(
            "{name:<15} p50 {}; p99 {}; longest {}; short threads {}; given away {}",
            column(0),
            column(1),
            column(2),
            column(3),
            column(4),
        );
    }
}
