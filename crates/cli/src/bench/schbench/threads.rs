//! The message and worker threads.
//!
//! The same code runs on kernel threads and on user threads: `park` and `unpark` of the standard
//! library are futex calls, which the runtime turns into waits of the user thread.
//!
//! ```text
//! worker:   put itself on its message thread's list, unpark that; park until there is a message
//!           wakeup = now - message; multiply; request = now - begin
//! message:  take the list; for each worker on it: message = now, unpark;
//!           park while the list is empty
//! ```

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, Thread};

use anyhow::ensure;
use quaver_bench_common::clock::monotonic_ns;
use quaver_bench_common::{Outcome, Sample};

use super::Flags;

/// Rows, metrics and units.
pub const METRICS: [(&str, &str, &str); 6] = [
    ("wakeup p50", "wakeup_p50_us", "us"),
    ("wakeup p99", "wakeup_p99_us", "us"),
    ("wakeup p99.9", "wakeup_p999_us", "us"),
    ("request p50", "request_p50_us", "us"),
    ("request p99", "request_p99_us", "us"),
    ("rps", "rps", "1/s"),
];

/// Joins a thread that was started; was all well?
pub type Join = Box<dyn FnOnce() -> bool>;

/// What one thread does.
pub type Body = Box<dyn FnOnce() + Send>;

struct Message {
    thread: OnceLock<Thread>,
    waiting: Mutex<Vec<usize>>,
    /// Worker threads that have not ended.
    workers: AtomicUsize,
}

struct Worker {
    thread: OnceLock<Thread>,
    /// When the message was sent; 0: there is none.
    sent: AtomicU64,
}

/// Times in nanoseconds.
#[derive(Default)]
struct Times {
    wakeup: Vec<u64>,
    request: Vec<u64>,
}

struct Bench {
    messages: Vec<Message>,
    workers: Vec<Worker>,
    /// What counts, from and to.
    from: u64,
    to: u64,
    rows: usize,
    operations: u32,
    times: Mutex<Times>,
}

/// Runs the threads, each of which `start` starts, and returns what they measured.
///
/// # Errors
///
/// A thread cannot be started or has panicked, or nothing was served in time.
pub fn run(
    flags: &Flags,
    mut start: impl FnMut(Body) -> std::io::Result<Join>,
) -> anyhow::Result<Outcome> {
    let per_message = usize::from(flags.threads);
    let from = monotonic_ns() + (flags.warmuptime * 1e9) as u64;
    let message = || Message {
        thread: OnceLock::new(),
        waiting: Mutex::new(Vec::with_capacity(per_message)),
        workers: AtomicUsize::new(per_message),
    };
    let worker = || Worker { thread: OnceLock::new(), sent: AtomicU64::new(0) };
    let messages = usize::from(flags.messages);
    let bench = Arc::new(Bench {
        messages: std::iter::repeat_with(message).take(messages).collect(),
        workers: std::iter::repeat_with(worker).take(messages * per_message).collect(),
        from,
        to: from + (flags.runtime * 1e9) as u64,
        rows: flags.rows(),
        operations: flags.operations,
        times: Mutex::default(),
    });
    let mut joins = Vec::new();
    for number in 0..messages {
        let bench = Arc::clone(&bench);
        joins.push(start(Box::new(move || bench.message(number)))?);
    }
    for number in 0..messages * per_message {
        let bench = Arc::clone(&bench);
        joins.push(start(Box::new(move || bench.worker(number, number / per_message)))?);
    }
    // All of them, also if one has panicked.
    let panicked = joins.into_iter().filter_map(|join| (!join()).then_some(())).count();
    ensure!(panicked == 0, "{panicked} threads panicked");
    let times = std::mem::take(&mut *bench.times.lock().unwrap_or_else(PoisonError::into_inner));
    ensure!(!times.wakeup.is_empty(), "no request was served in {} s", flags.runtime);
    Ok(times.into_sample(flags.runtime).into())
}

impl Bench {
    fn message(&self, number: usize) {
        let me = &self.messages[number];
        let _ = me.thread.set(thread::current());
        while me.workers.load(Acquire) > 0 {
            let waiting = std::mem::take(&mut *me.list());
            if waiting.is_empty() {
                thread::park();
            }
            for worker in waiting {
                let worker = &self.workers[worker];
                worker.sent.store(monotonic_ns(), Release);
                if let Some(thread) = worker.thread.get() {
                    thread.unpark();
                }
            }
        }
    }

    fn worker(&self, number: usize, message: usize) {
        let (me, message) = (&self.workers[number], &self.messages[message]);
        let _ = me.thread.set(thread::current());
        let mut matrices = Matrices::new(self.rows, number as u64 + 1);
        let mut times = Times::default();
        loop {
            message.list().push(number);
            message.wake();
            let sent = loop {
                match me.sent.swap(0, Acquire) {
                    0 => thread::park(),
                    sent => break sent,
                }
            };
            let begin = monotonic_ns();
            (0..self.operations).for_each(|_| matrices.multiply());
            let end = monotonic_ns();
            if sent >= self.from && end <= self.to {
                times.wakeup.push(begin - sent);
                times.request.push(end - begin);
            }
            if end >= self.to {
                break;
            }
        }
        let mut all = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        all.wakeup.append(&mut times.wakeup);
        all.request.append(&mut times.request);
        drop(all);
        message.workers.fetch_sub(1, Release);
        message.wake();
    }
}

impl Message {
    fn list(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread that has not begun yet looks at its list first.
    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// Two matrices and their product.
struct Matrices {
    rows: usize,
    left: Vec<u64>,
    right: Vec<u64>,
    product: Vec<u64>,
}

impl Matrices {
    fn new(rows: usize, seed: u64) -> Self {
        let numbers = |from: u64| (0..(rows * rows) as u64).map(|i| i * 7 + from).collect();
        Matrices {
            rows,
            left: numbers(seed),
            right: numbers(seed * 3),
            product: vec![0; rows * rows],
        }
    }

    fn multiply(&mut self) {
        let rows = self.rows;
        for (row, line) in self.product.chunks_exact_mut(rows).enumerate() {
            for (column, entry) in line.iter_mut().enumerate() {
                let pairs = self.left[row * rows..][..rows]
                    .iter()
                    .zip(self.right[column..].iter().step_by(rows));
                *entry = pairs.fold(0, |sum, (a, b)| sum.wrapping_add(a.wrapping_mul(*b)));
            }
        }
        black_box(&self.product);
    }
}

impl Times {
    fn into_sample(mut self, seconds: f64) -> Sample {
        self.wakeup.sort_unstable();
        self.request.sort_unstable();
        let us = |sorted: &[u64], quantile: f64| {
            let rank = (quantile * sorted.len() as f64).ceil() as usize;
            sorted[rank.clamp(1, sorted.len()) - 1] as f64 / 1e3
        };
        Sample { ops: self.request.len() as u64, ..Sample::default() }
            .with("wakeup_p50_us", us(&self.wakeup, 0.5))
            .with("wakeup_p99_us", us(&self.wakeup, 0.99))
            .with("wakeup_p999_us", us(&self.wakeup, 0.999))
            .with("request_p50_us", us(&self.request, 0.5))
            .with("request_p99_us", us(&self.request, 0.99))
            .with("rps", self.request.len() as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_are_multiplied() {
        let mut matrices = Matrices::new(2, 1);
        // 1 8 15 22 and 3 10 17 24.
        matrices.multiply();
        assert_eq!(matrices.product, [3 + 8 * 17, 10 + 8 * 24, 15 * 3 + 22 * 17, 150 + 22 * 24]);
    }

    #[test]
    fn every_metric_is_measured_on_kernel_threads() {
        let flags: Flags = "-m 2 -t 3 -r 0.5 -w 0 -n 1 -F 8".parse().unwrap();
        let outcome = run(&flags, |body| {
            let thread = std::thread::Builder::new().spawn(body)?;
            Ok(Box::new(move || thread.join().is_ok()))
        });
        let Outcome::Sample(sample) = outcome.unwrap() else { panic!("no sample") };
        for (_, metric, _) in METRICS {
            assert!(sample.metrics[metric] > 0.0, "{metric}: {sample:?}");
        }
        assert!(sample.ops > 6, "every thread was woken again and again: {sample:?}");
    }
}
