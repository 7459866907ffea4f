//! What sends signals to a thread: a spinning thread with `tgkill`, or a POSIX timer.
//!
//! The handler reports each event with [`event`] and [`resumed`]; both are safe in a signal
//! handler.

use std::mem;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use quaver_bench_common::affinity;
use serde::{Deserialize, Serialize};

/// The signal.
pub const SIGNAL: libc::c_int = libc::SIGUSR1;

/// How many events there were.
static EVENTS: AtomicU64 = AtomicU64::new(0);

/// When a thread began or went on to compute, in TSC ticks.
static RESUMED: AtomicU64 = AtomicU64::new(0);

/// Who sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A thread that spins on another core and sends a signal when the quantum after the last event
    /// is over.
    Tgkill,
    /// A periodic kernel timer with the quantum as its period.
    PosixTimer,
}

/// For the handler: there was an event.
pub fn event() {
    EVENTS.fetch_add(1, Ordering::Relaxed);
}

/// For the handler, at its end: a thread goes on to compute.
pub fn resumed() {
    RESUMED.store(ticks(), Ordering::Release);
}

/// How many events there were in this process.
pub fn events() -> u64 {
    EVENTS.load(Ordering::Relaxed)
}

/// The time-stamp counter.
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux lets programs use it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Makes `handler` the handler of [`SIGNAL`]. No alternate stack; the signal is blocked while it
/// runs.
pub fn install(handler: extern "C" fn(libc::c_int)) -> std::io::Result<()> {
    // SAFETY: all zeros is a valid sigaction: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `action` is complete, and the handler has the signature that goes with the flags.
    let result = unsafe { libc::sigaction(SIGNAL, &action, ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Sends signals to the thread that made it, until dropped. One signal may still come after that.
pub enum Ticker {
    /// See [`Source::Tgkill`].
    Thread {
        /// Ends it.
        stop: Arc<AtomicBool>,
        /// Taken when dropped.
        thread: Option<JoinHandle<()>>,
    },
    /// See [`Source::PosixTimer`].
    Timer(libc::timer_t),
}

impl Ticker {
    /// Starts to signal the calling thread.
    ///
    /// # Errors
    ///
    /// When the thread or the timer cannot be made; a thread needs `cpu`, a core of its own.
    pub fn start(source: Source, quantum: Duration, cpu: Option<usize>) -> anyhow::Result<Self> {
        resumed();
        match source {
            Source::Tgkill => Self::thread(quantum, cpu.context("tgkill takes a second CPU")?),
            Source::PosixTimer => Self::timer(quantum),
        }
    }

    fn thread(quantum: Duration, cpu: usize) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let target = rustix::thread::gettid().as_raw_nonzero().get();
        let quantum = (ticks_per_ns() * quantum.as_nanos() as f64) as u64;
        let thread = std::thread::spawn(move || {
            // Where it is not pinned the kernel moves it away from the busy core.
            let _ = affinity::pin(&[cpu]);
            send(target, quantum, &stopped);
        });
        Ok(Self::Thread { stop, thread: Some(thread) })
    }

    fn timer(period: Duration) -> anyhow::Result<Self> {
        // SAFETY: all zeros is a valid sigevent, filled in below.
        let mut event: libc::sigevent = unsafe { mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = SIGNAL;
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut timer: libc::timer_t = ptr::null_mut();
        // SAFETY: both pointers are to live values of the right types.
        if unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) } != 0 {
            bail!("timer_create: {}", std::io::Error::last_os_error());
        }
        let ticker = Self::Timer(timer);
        set(timer, period).context("timer_settime")?;
        Ok(ticker)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        match self {
            Self::Thread { stop, thread } => {
                stop.store(true, Ordering::Relaxed);
                // It does not panic, and if it did there would be nothing left to stop.
                let _ = thread.take().map(JoinHandle::join);
            }
            // SAFETY: the timer was made by `timer` and is deleted once.
            Self::Timer(timer) => unsafe {
                libc::timer_delete(*timer);
            },
        }
    }
}

fn set(timer: libc::timer_t, period: Duration) -> std::io::Result<()> {
    let time = libc::timespec {
        tv_sec: period.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(period.subsec_nanos() as i32),
    };
    let times = libc::itimerspec { it_interval: time, it_value: time };
    // SAFETY: the timer exists, and `times` is complete.
    let result = unsafe { libc::timer_settime(timer, 0, &times, ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Sends a signal to `thread` whenever it has computed for `quantum` ticks; never two at a time.
fn send(thread: i32, quantum: u64, stop: &AtomicBool) {
    let process = std::process::id();
    while !stop.load(Ordering::Relaxed) {
        let resumed = RESUMED.load(Ordering::Acquire);
        if ticks().saturating_sub(resumed) < quantum {
            std::hint::spin_loop();
            continue;
        }
        // SAFETY: the call has no memory effects here; the handler is installed.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, SIGNAL) };
        while RESUMED.load(Ordering::Relaxed) == resumed && !stop.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }
}

/// The rate of the time-stamp counter, measured for some milliseconds.
fn ticks_per_ns() -> f64 {
    let (time, count) = (Instant::now(), ticks());
    std::thread::sleep(Duration::from_millis(5));
    (ticks() - count) as f64 / time.elapsed().as_nanos() as f64
}
