//! What `Builder::fault_look` buys: threads of one worker that touch pages of a mapped file for the
//! first time, beside threads that compute.
//!
//! The first argument is a file of some megabytes on a disk, the second how many rounds to measure
//! (a fraction of a second each). In each round the file's pages are dropped from memory and then
//! read, once without the looks and once with them, in turns; what the computing threads get done
//! meanwhile is printed, as a share of the time that the pages took, with the hand-overs. Medians,
//! with the least and the most.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
/// Pages of a round: far apart, so that the kernel reads each for itself.
const PAGES: usize = 400;
const QUANTUM: Duration = Duration::from_micros(100);

/// What came of a round.
struct Round {
    /// Milliseconds for all pages.
    pages: f64,
    /// The share of it in which the others computed, in percent.
    others: f64,
    handovers: u64,
}

/// How much is computed between two looks at the clock.
fn work() {
    for i in 0..1000 {
        std::hint::black_box(i);
    }
}

fn round(file: &File, size: usize, look: Option<Duration>) -> Round {
    let fd = file.as_raw_fd();
    // SAFETY: a new mapping; its pages are dropped, so that reading them takes the disk.
    let at = unsafe {
        libc::posix_fadvise(fd, 0, 0, libc::POSIX_FADV_DONTNEED);
        let at = libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ, libc::MAP_SHARED, fd, 0);
        assert_ne!(at, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        libc::madvise(at, size, libc::MADV_RANDOM);
        at as usize
    };
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
            let stride = size / PAGES / PAGE * PAGE;
            for page in 0..PAGES {
                let page = (at + page * stride) as *const u8;
                // SAFETY: in the mapping.
                std::hint::black_box(unsafe { page.read_volatile() });
            }
            done.store(true, Relaxed);
            begun.elapsed()
        })
    });
    let handovers = rt.stats().fault_handovers;
    drop(rt);
    // SAFETY: the mapping, which nobody uses any more.
    unsafe { libc::munmap(at as *mut _, size) };
    let one = Instant::now();
    for _ in 0..1000 {
        work();
    }
    let one = one.elapsed().as_secs_f64() / 1000.0;
    let others = computed.into_inner() as f64 * one / pages.as_secs_f64() * 100.0;
    Round { pages: pages.as_secs_f64() * 1e3, others, handovers }
}

/// Median, least and most.
fn summary(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let [least, most] = [values[0], values[values.len() - 1]];
    format!("{:.1} ({least:.1} to {most:.1})", values[values.len() / 2])
}

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(path), rounds) = (args.next(), args.next()) else {
        eprintln!("usage: page_faults FILE [ROUNDS]");
        std::process::exit(2);
    };
    let file = File::open(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let size = file.metadata().unwrap().len() as usize / PAGE * PAGE;
    assert!(size >= PAGES * PAGE, "{path} has less than {PAGES} pages");
    let rounds: usize = rounds.map_or(9, |n| n.parse().expect("a number of rounds"));
    let looks = [None, Some(Duration::from_micros(50))];
    let mut all = looks.map(|_| Vec::new());
    for _ in 0..rounds {
        for (look, all) in looks.iter().zip(&mut all) {
            all.push(round(&file, size, *look));
        }
    }
    for (look, rounds) in looks.iter().zip(all) {
        let column = |f: fn(&Round) -> f64| summary(rounds.iter().map(f).collect());
        println!(
            "{:<18} pages {} ms, others computed {} % of it, hand-overs {}",
            look.map_or("without looks".into(), |look| format!("looks of {look:?}")),
            column(|r| r.pages),
            column(|r| r.others),
            column(|r| r.handovers as f64),
        );
    }
}
