//! What `Builder::fault_look` buys: a thread of one worker that touches pages of a slow mapped file
//! for the first time, beside a thread that computes.
//!
//! The first argument is how many milliseconds a page takes, the second how many rounds to measure,
//! each once without looks and once with looks of 200 us, in turns. What the other thread gets done
//! meanwhile is printed, in percent of what it does alone, with the time for all pages and the
//! hand-overs: medians, with the least and the most. Must be allowed to mount a file system in user
//! space.

#[path = "../tests/blocking/slow_file.rs"]
mod slow_file;

use slow_file::SlowFile;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const PAGES: usize = 40;
const QUANTUM: Duration = Duration::from_micros(100);
const LOOK: Duration = Duration::from_micros(200);

/// What came of a round.
struct Round {
    /// Milliseconds for all pages.
    pages: f64,
    /// What the other thread did meanwhile, in percent of what it does alone.
    others: f64,
    handovers: u64,
}

/// How much is computed between two looks at the clock.
fn work() {
    for i in 0..1000 {
        std::hint::black_box(i);
    }
}

/// `None`: there can be no slow file here.
fn round(page: Duration, look: Option<Duration>) -> Option<Round> {
    let file = SlowFile::new(PAGES, move |_| std::thread::sleep(page))?;
    let builder = quaver::Builder::new().workers(1).quantum(Some(QUANTUM)).tax(100);
    let rt = builder.fault_look(look).build().unwrap();
    let (done, computed) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Instant::now();
    let pages = rt.run(|| {
        quaver::scope(|s| {
            s.spawn(|| {
                while !done.load(Relaxed) {
                    work();
                    computed.fetch_add(1, Relaxed);
                }
            });
            for page in 0..PAGES {
                std::hint::black_box(file.read(page));
            }
            done.store(true, Relaxed);
            begun.elapsed()
        })
    });
    let handovers = rt.stats().fault_handovers;
    drop(rt);
    let (alone, mut done) = (Instant::now(), 0u64);
    while alone.elapsed() < pages {
        work();
        done += 1;
    }
    let others = computed.into_inner() as f64 / done as f64 * 100.0;
    Some(Round { pages: pages.as_secs_f64() * 1e3, others, handovers })
}

/// Median, least and most.
fn summary(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let [least, most] = [values[0], values[values.len() - 1]];
    format!("{:.1} ({least:.1} to {most:.1})", values[values.len() / 2])
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().expect("a number"));
    let (page, rounds) = (args.next().unwrap_or(5), args.next().unwrap_or(9));
    let looks = [None, Some(LOOK)];
    let mut all = looks.map(|_| Vec::new());
    for _ in 0..rounds {
        for (look, all) in looks.iter().zip(&mut all) {
            let Some(round) = round(Duration::from_millis(page), *look) else { return };
            all.push(round);
        }
    }
    for (look, rounds) in looks.iter().zip(all) {
        let column = |f: fn(&Round) -> f64| summary(rounds.iter().map(f).collect());
        println!(
            "{:<15} pages {} ms; the other thread {} %; hand-overs {}",
            look.map_or("without looks".into(), |look| format!("looks of {look:?}")),
            column(|r| r.pages),
            column(|r| r.others),
            column(|r| r.handovers as f64),
        );
    }
}
