//! How long the requests take by themselves: the service times that loads are percentages of.
//!
//! Requests run one after the other on an ordinary thread, on a worker's CPU, without a runtime
//! around them. What threads, switches and preemption cost is therefore not part of the service
//! time; it shows as capacity that cannot be reached. The other workers' CPUs serve SCANs
//! meanwhile: they share caches, and perhaps the units of a core. Means are medians over batches,
//! because a batch that the machine interrupted says nothing about the store.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::Serialize;

use quaver_bench_common::affinity;
use quaver_bench_common::store::{Store, Wrong};

/// An odd number of batches has a median.
const BATCHES: usize = 9;

/// How long the batches of one class take together, about.
const EFFORT: Duration = Duration::from_millis(300);

/// Rows of the SCANs that the other CPUs serve.
const BESIDE: usize = 1000;

/// Odd steps of about the golden ratio go everywhere and repeat late.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a SCAN reads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ScanSize {
    /// That many rows.
    Keys(usize),
    /// As many rows as take that long.
    Time(Duration),
}

/// The requests and their measured mean service times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Services {
    /// Keys that a GET looks up.
    pub get_keys: usize,
    /// Rows that a SCAN reads.
    pub scan_keys: usize,
    /// The mean of a GET, in nanoseconds.
    pub get_ns: f64,
    /// The mean of a SCAN, in nanoseconds.
    pub scan_ns: f64,
}

/// Measures the requests on the first of `cpus` while all of them are busy; takes about a second.
///
/// # Errors
///
/// A CPU cannot be used, the store gives a wrong answer, or holds too few rows for a SCAN of the
/// wanted length.
pub fn calibrate(
    store: &Store,
    cpus: &[usize],
    get_keys: usize,
    scan: ScanSize,
) -> Result<Services> {
    let [cpu, others @ ..] = cpus else { bail!("there is no worker") };
    let done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serve = |&cpu| scope.spawn(move || serve_scans(store, cpu, done));
        let busy: Vec<_> = others.iter().map(serve).collect();
        let services = measure(store, *cpu, get_keys, scan);
        done.store(true, Relaxed);
        for thread in busy {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        services
    })
}

/// Keeps `cpu` busy until it is `done`.
fn serve_scans(store: &Store, cpu: usize, done: &AtomicBool) -> Result<()> {
    affinity::on_cpu("calibration", cpu, || {
        let mut random = 0u64;
        while !done.load(Relaxed) {
            random = random.wrapping_add(STEP);
            store.scan(random, BESIDE.min(store.len()))?;
        }
        Ok(())
    })
}

fn measure(store: &Store, cpu: usize, get_keys: usize, scan: ScanSize) -> Result<Services> {
    // A thread of its own, so that the caller's affinity stays as it is.
    affinity::on_cpu("calibration", cpu, || {
        let scan_keys = match scan {
            ScanSize::Keys(keys) if keys <= store.len() => keys,
            ScanSize::Keys(keys) => bail!("{}", too_few(keys, store)),
            ScanSize::Time(time) => fitting_keys(store, time)?,
        };
        Ok(Services {
            get_keys,
            scan_keys,
            get_ns: mean_ns(EFFORT, |random| store.get(random, get_keys))?,
            scan_ns: mean_ns(EFFORT, |random| store.scan(random, scan_keys))?,
        })
    })
}

/// How many rows take `time` to scan.
fn fitting_keys(store: &Store, time: Duration) -> Result<usize> {
    let target = time.as_nanos() as f64;
    // The cost of a row depends a little on their number (the way down the tree, caches): approach
    // it in steps.
    let mut keys = store.len().min(1000);
    for _ in 0..3 {
        let scan_ns = mean_ns(EFFORT / 10, |random| store.scan(random, keys))?;
        keys = ((keys as f64 * target / scan_ns).round() as usize).max(1);
        if keys > store.len() {
            bail!("{}", too_few(keys, store));
        }
    }
    Ok(keys)
}

fn too_few(keys: usize, store: &Store) -> String {
    format!(
        "a SCAN of that size reads {keys} rows, but the store has {}; raise --keys or shorten it",
        store.len()
    )
}

/// The median over batches of the mean time that `request` takes.
fn mean_ns(effort: Duration, request: impl Fn(u64) -> Result<(), Wrong>) -> Result<f64> {
    let mut random = 0u64;
    let mut batch = |count: u32| -> Result<f64, Wrong> {
        let start = Instant::now();
        for _ in 0..count {
            random = random.wrapping_add(STEP);
            request(random)?;
        }
        Ok(start.elapsed().as_nanos() as f64 / f64::from(count))
    };
    // The first requests meet cold caches; they also tell how many fit into a batch.
    let first = batch(16)?;
    let count = (effort.as_nanos() as f64 / BATCHES as f64 / first.max(1.0)).clamp(8.0, 1e6) as u32;
    let mut means = [0.0; BATCHES];
    for mean in &mut means {
        *mean = batch(count)?;
    }
    means.sort_by(f64::total_cmp);
    Ok(means[BATCHES / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_with_too_few_rows_says_so_and_what_to_do() {
        let store = Store::load(200, 1).unwrap();
        let cpu = affinity::allowed().unwrap()[0];
        for scan in [ScanSize::Keys(201), ScanSize::Time(Duration::from_secs(1))] {
            let error = calibrate(&store, &[cpu], 1, scan).unwrap_err().to_string();
            assert!(error.contains("200") && error.contains("--keys"), "{error}");
        }
    }

    #[test]
    fn a_wrong_answer_ends_the_calibration() {
        let calls = std::cell::Cell::new(0);
        let result = mean_ns(Duration::ZERO, |_| {
            calls.set(calls.get() + 1);
            if calls.get() == 20 { Err(Wrong::new("other")) } else { Ok(()) }
        });
        assert!(result.unwrap_err().to_string().contains("other"));
        assert_eq!(calls.get(), 20);
    }

    #[test]
    fn unknown_cpus_are_an_error() {
        let store = Store::load(100, 1).unwrap();
        let cpu = affinity::allowed().unwrap()[0];
        for cpus in [&[100_000][..], &[cpu, 100_000]] {
            let error = calibrate(&store, cpus, 1, ScanSize::Keys(10)).unwrap_err();
            assert!(error.to_string().contains("100000"), "{error}");
        }
    }
}
