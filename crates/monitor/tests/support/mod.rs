//! A process that takes a worker's CPU away, and who may do so.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

/// Nobody has called.
const NOBODY: i64 = -1;

/// A child process that takes a CPU at once and keeps it for a while, by a real-time priority. Its
/// words lie in memory that both share.
pub struct Hog {
    words: &'static Words,
    pid: i32,
}

#[derive(Default)]
#[repr(C)]
struct Words {
    /// Which CPU to take.
    cpu: AtomicI64,
    /// When it has taken it, and when it gave it back: nanoseconds of the monotonic clock.
    from: AtomicU64,
    until: AtomicU64,
    /// It may give it back.
    enough: AtomicU64,
}

fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The calling thread stays on this CPU.
pub fn pin(cpu: usize) {
    // SAFETY: a set of this size, filled here.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

impl Hog {
    /// `None`, with a line, if this process may not have such a child. It keeps the CPU for `long`
    /// at most, which must be less than a second: the kernel would interrupt it.
    pub fn new(long: Duration) -> Option<Hog> {
        // SAFETY: a new mapping of zeros, which are a value of `Words`.
        let words: &'static Words = unsafe {
            let (both, shared) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
            let at = libc::mmap(std::ptr::null_mut(), size_of::<Words>(), both, shared, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            &*at.cast()
        };
        words.cpu.store(NOBODY, SeqCst);
        // SAFETY: the child uses its own stack, the shared words, and system calls.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: system calls only.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                let param = libc::sched_param { sched_priority: 1 };
                if libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) != 0 {
                    words.until.store(u64::MAX, SeqCst);
                    libc::_exit(0);
                }
                words.from.store(u64::MAX, SeqCst);
                while words.cpu.load(SeqCst) == NOBODY {
                    libc::usleep(200);
                }
                pin(words.cpu.load(SeqCst) as usize);
                let begin = now();
                words.from.store(begin, SeqCst);
                let end = begin + long.as_nanos() as u64;
                while words.enough.load(SeqCst) == 0 && now() < end {
                    std::hint::spin_loop();
                }
                words.until.store(now(), SeqCst);
                libc::_exit(0);
            }
        }
        assert!(pid > 0);
        let hog = Hog { words, pid };
        while words.from.load(SeqCst) == 0 && words.until.load(SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        if words.until.load(SeqCst) != 0 {
            println!("skipped: no real-time priority (CAP_SYS_NICE)");
            return None;
        }
        Some(hog)
    }

    /// Takes the CPU on which the caller is, which must not wait for that.
    pub fn take_this_cpu(&self) {
        // SAFETY: no arguments.
        self.words.cpu.store(unsafe { libc::sched_getcpu() }.into(), SeqCst);
    }

    /// It has had its CPU and given it back.
    pub fn has_gone(&self) -> bool {
        self.words.until.load(SeqCst) != 0
    }

    /// It gives the CPU back.
    pub fn enough(&self) {
        self.words.enough.store(1, SeqCst);
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        // SAFETY: a child of ours that nobody else waits for.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// Two CPUs that this process may use, or none, with a line.
pub fn two_cpus() -> Option<[usize; 2]> {
    // SAFETY: a set of this size, filled by the call.
    let allowed: Vec<usize> = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&set), &mut set);
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
    };
    if allowed.len() < 2 {
        println!("skipped: one CPU");
        return None;
    }
    Some([allowed[0], allowed[1]])
}

/// Waits until something is so, by computing; gives up after a while.
pub fn spin_until(what: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !what() {
        if begun.elapsed() > Duration::from_secs(20) {
            return false;
        }
        std::hint::spin_loop();
    }
    true
}
