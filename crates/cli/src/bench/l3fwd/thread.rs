//! The thread that is measured.

use std::os::unix::thread::JoinHandleExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, ensure};
use quaver_bench_common::affinity;

/// A thread that does its work in rounds until it is dropped.
pub(super) struct Measured {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Measured {
    /// Starts it on a CPU. A round takes at most some milliseconds; an error ends it, and then
    /// nothing comes back to those who make the load.
    pub(super) fn start(
        cpu: usize,
        mut round: impl FnMut() -> Result<()> + Send + 'static,
    ) -> Measured {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let mut work = move || -> Result<()> {
            affinity::pin(&[cpu])?;
            while !stopped.load(Ordering::Relaxed) {
                round()?;
            }
            Ok(())
        };
        let thread = thread::spawn(move || {
            if let Err(error) = work() {
                eprintln!("the measured thread has ended: {error:#}");
            }
        });
        Measured { stop, thread: Some(thread) }
    }

    /// CPU time that it has used.
    pub(super) fn cpu_ns(&self) -> Result<u64> {
        let thread = self.thread.as_ref().context("the thread has ended")?;
        ensure!(!thread.is_finished(), "the measured thread has ended");
        let mut clock = 0;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the thread has not been joined, so it has a handle, and both are written to.
        let result = unsafe {
            match libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut clock) {
                0 => libc::clock_gettime(clock, &raw mut time),
                error => error,
            }
        };
        ensure!(result == 0, "the measured thread has no clock");
        Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed.
            let _ = thread.join();
        }
    }
}
