//! Barriers: `pthread_barrier_init` is glibc's, which writes how many threads belong to it, and
//! whether it is shared; a shared one is glibc's altogether.
//!
//! ```text
//!   0 arrived | 4 round | 8 threads | 12 shared | 16 threads inside
//! ```
//!
//! Arrivals and the round change together, in one 64-bit word. The last one to arrive begins the
//! next round; the others wait for that. They spin if there are CPUs for all of them and nobody is
//! preempted; a thread that is preempted while it spins here counts like a holder of a lock,
//! because it shows that CPUs are short. (FlexGuard 5.3 leaves barriers as future work.)

use crate::real::real;
use libc::pthread_barrier_t;
use quaver_lock::parts::{self, Spin};
use std::ffi::c_int;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

#[repr(C)]
struct Barrier {
    arrivals: AtomicU64,
    threads: AtomicU32,
    shared: AtomicU32,
    inside: AtomicU32,
}

const _: () = assert!(size_of::<Barrier>() <= size_of::<pthread_barrier_t>());

/// # Safety
///
/// `b` is an initialised barrier and stays so.
unsafe fn of<'a>(b: *mut pthread_barrier_t) -> &'a Barrier {
    // SAFETY: the caller's, of at least that size.
    unsafe { &*b.cast::<Barrier>() }
}

/// How many CPUs the process may use; asked once.
fn cpus() -> u32 {
    static CPUS: AtomicU32 = AtomicU32::new(0);
    match CPUS.load(Relaxed) {
        0 => {
            // SAFETY: zeros are an empty set; the kernel fills it.
            let known = unsafe {
                let mut set = std::mem::zeroed::<libc::cpu_set_t>();
                match libc::sched_getaffinity(0, size_of_val(&set), &mut set) {
                    0 => libc::CPU_COUNT(&set) as u32,
                    _ => 1,
                }
            };
            CPUS.store(known.max(1), Relaxed);
            known.max(1)
        }
        known => known,
    }
}

impl Barrier {
    fn is_theirs(&self) -> bool {
        self.shared.load(Relaxed) != 0
    }

    fn round(&self) -> &AtomicU32 {
        let words = self.arrivals.as_ptr().cast::<u32>();
        // SAFETY: the upper half of the word, which is behind the lower one.
        unsafe { AtomicU32::from_ptr(words.add(1)) }
    }

    /// Arrives. `Ok`: as the last one; `Err`: the round that is to end.
    fn arrive(&self) -> Result<(), u32> {
        let threads = self.threads.load(Relaxed);
        let mut now = self.arrivals.load(Relaxed);
        loop {
            let (arrived, round) = (now as u32 + 1, (now >> 32) as u32);
            let last = arrived >= threads;
            let next = match last {
                true => u64::from(round.wrapping_add(1)) << 32,
                false => u64::from(round) << 32 | u64::from(arrived),
            };
            match self.arrivals.compare_exchange_weak(now, next, AcqRel, Relaxed) {
                Ok(_) if last => return Ok(()),
                Ok(_) => return Err(round),
                Err(other) => now = other,
            }
        }
    }

    fn wait_for_next(&self, round: u32) {
        let ended = || self.round().load(Acquire) != round;
        let mut spin = Spin::new();
        if spin.is_monitored() && self.threads.load(Relaxed) <= cpus() {
            parts::enter();
            while !ended() && spin.again() {}
            parts::leave();
        }
        while !ended() {
            parts::wait_as(self.round(), round, None, parts::ANYONE);
        }
    }

    fn wait(&self) -> c_int {
        self.inside.fetch_add(1, Relaxed);
        let result = match self.arrive() {
            Ok(()) => {
                parts::wake_as(self.round().as_ptr(), i32::MAX, parts::ANYONE);
                libc::PTHREAD_BARRIER_SERIAL_THREAD
            }
            Err(round) => {
                self.wait_for_next(round);
                0
            }
        };
        self.inside.fetch_sub(1, Release);
        result
    }
}

/// See `pthread_barrier_wait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_wait(b: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller's contract.
    match unsafe { of(b) } {
        barrier if barrier.is_theirs() => {
            real!("GLIBC_2.2.5", pthread_barrier_wait(b => *mut pthread_barrier_t) -> c_int)
        }
        barrier => barrier.wait(),
    }
}

/// See `pthread_barrier_destroy(3)`. Waits for threads that are on their way out.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_destroy(b: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller's contract.
    let barrier = unsafe { of(b) };
    if barrier.is_theirs() {
        return real!("GLIBC_2.2.5", pthread_barrier_destroy(b => *mut pthread_barrier_t) -> c_int);
    }
    while barrier.inside.load(Acquire) != 0 {
        std::thread::yield_now();
    }
    0
}
