//! User interrupts without the hardware: the instructions trap, signals carry them. It does what
//! the processor does, instruction by instruction, some microseconds each: for tests of the code
//! that is the same with hardware, and for nothing else.
//!
//! An undefined instruction raises SIGILL, so the runtime's own instructions are executed as they
//! are ([`trap`]). Some processors ignore the prefix of an encoding and run `rdrand` for
//! `senduipi`, or, where there are protection keys, `rdpkru` and `wrpkru` for `clui` and `stui`.
//! There the runtime's own are marked `ud2`s. [`undefined`] finds that out by execution, in a child
//! process.

mod cpu;
mod decode;
#[cfg(feature = "inspect")]
pub mod inspect;
mod trap;

use super::{KernelInterface, Provider, Receiver};
use crate::arch::user_interrupt;
use crate::sys;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use cpu::{Cpu, Upid, Vector};
use std::io;
use std::sync::Mutex;
use std::time::Duration;

/// Kernel threads that can be registered at a time.
const MOST: usize = 1024;
/// Of the timer's periods: handling a tick takes tens of microseconds.
const SHORTEST_TICK: Duration = Duration::from_micros(100);
/// Entries of the UITT, which is one for the process.
const ROUTES: usize = super::ROUTES;

static CPUS: [Cpu; MOST] = [const { Cpu::new() }; MOST];
/// No more than these have ever been used.
static USED: AtomicUsize = AtomicUsize::new(0);

/// The UITT: 0, or the number of a [`Cpu`] and one, and its vector above bit 32.
static UITT: [AtomicU64; ROUTES] = [const { AtomicU64::new(0) }; ROUTES];

/// The emulated processor that the calling kernel thread is on, with its number. Async-signal-safe.
fn position() -> Option<(usize, &'static Cpu)> {
    let tid = sys::gettid();
    CPUS[..USED.load(Acquire)].iter().enumerate().find(|(_, cpu)| cpu.tid.load(Acquire) == tid)
}

fn current() -> Option<&'static Cpu> {
    position().map(|(_, cpu)| cpu)
}

/// Lets an entry of the UITT lead to a vector of `receiver`.
fn lead(number: usize, receiver: Receiver, vector: u32) -> io::Result<()> {
    let entry = UITT.get(number).ok_or(io::ErrorKind::QuotaExceeded)?;
    let cpu = u32::try_from(receiver.0).map_err(|_| io::ErrorKind::InvalidInput)?;
    entry.store(u64::from(vector) << 32 | u64::from(cpu + 1), Release);
    Ok(())
}

/// Where `senduipi` with this operand leads.
fn target(operand: u64) -> Option<(&'static Upid, u32)> {
    let entry = UITT.get(usize::try_from(operand).ok()?)?.load(Acquire);
    let cpu = &CPUS[(entry as u32).checked_sub(1)? as usize];
    Some((&cpu.upid, (entry >> 32) as u32))
}

/// An entry that is not valid, where hardware raises #GP.
#[cold]
fn protection_fault() -> ! {
    const MESSAGE: &[u8] = b"quaver: senduipi with an entry that leads nowhere\n";
    // SAFETY: a constant buffer; then the process ends.
    unsafe {
        sys::syscall3(libc::SYS_write, 2, MESSAGE.as_ptr() as u64, MESSAGE.len() as u64);
        libc::abort()
    }
}

#[cfg(feature = "inspect")]
use inspect::{keeps_trap_flag, returned};

#[cfg(not(feature = "inspect"))]
fn keeps_trap_flag() -> bool {
    false
}

#[cfg(not(feature = "inspect"))]
fn returned(_: &mut libc::ucontext_t) {}

/// The encodings of the five, as assemblers make them: `senduipi` with `rdi`.
pub(super) const ENCODINGS: [(&str, [u8; 4]); 5] = [
    ("uiret", [0xf3, 0x0f, 0x01, 0xec]),
    ("testui", [0xf3, 0x0f, 0x01, 0xed]),
    ("clui", [0xf3, 0x0f, 0x01, 0xee]),
    ("stui", [0xf3, 0x0f, 0x01, 0xef]),
    ("senduipi", [0xf3, 0x0f, 0xc7, 0xf7]),
];

/// Those that the runtime has in one place, where they may be marked.
pub(super) const MARKABLE: [&str; 3] = ["senduipi", "clui", "stui"];

/// Is this encoding an undefined instruction here? A child process executes it.
pub(super) fn undefined(code: [u8; 4]) -> io::Result<bool> {
    const SIZE: usize = 4096;
    // SAFETY: a mapping of our own, written before it is executed, in a child that makes system
    // calls only: no allocation, no lock, no return.
    unsafe {
        let page = libc::mmap(
            core::ptr::null_mut(),
            SIZE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // The instruction, and `ret`.
        page.cast::<[u8; 4]>().write(code);
        page.cast::<u8>().add(4).write(0xc3);
        let result = match libc::mprotect(page, SIZE, libc::PROT_READ | libc::PROT_EXEC) {
            0 => {
                signal_of_child(core::mem::transmute::<*mut libc::c_void, extern "C" fn(u64)>(page))
            }
            _ => Err(io::Error::last_os_error()),
        };
        libc::munmap(page, SIZE);
        Ok(result? == libc::SIGILL)
    }
}

/// The signal that ends a child which calls `code`; 0 if none does.
///
/// # Safety
///
/// Whatever `code` does ends with the child.
unsafe fn signal_of_child(code: extern "C" fn(u64)) -> io::Result<i32> {
    // SAFETY: the caller's contract; the child allocates nothing and does not return. `fork` by the
    // system call: handlers for forks are for children that go on.
    unsafe {
        let child = match sys::syscall3(libc::SYS_fork, 0, 0, 0) {
            error @ ..0 => return Err(io::Error::from_raw_os_error(-error as i32)),
            0 => {
                let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core);
                libc::signal(libc::SIGILL, libc::SIG_DFL);
                code(0);
                libc::_exit(0)
            }
            child => child as i32,
        };
        let mut status = 0;
        while libc::waitpid(child, &raw mut status, 0) == -1 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(if libc::WIFSIGNALED(status) { libc::WTERMSIG(status) } else { 0 })
    }
}

/// The emulator, with its handlers in place. Looks at the encodings the first time.
///
/// # Errors
///
/// `Unsupported` where one that cannot be marked is defined: the processor executes it itself. The
/// kernel's.
pub(super) fn install() -> io::Result<&'static Emulator> {
    static READY: Mutex<bool> = Mutex::new(false);
    let mut ready = READY.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !*ready {
        for (name, code) in ENCODINGS {
            match (undefined(code)?, name) {
                (true, _) => {}
                (false, name) if MARKABLE.contains(&name) => user_interrupt::mark(),
                (false, _) => {
                    let message = format!("this processor executes {name} itself");
                    return Err(io::Error::new(io::ErrorKind::Unsupported, message));
                }
            }
        }
        *ready = true;
    }
    trap::install()?;
    Ok(&Emulator(()))
}

/// See the module.
pub(super) struct Emulator(());

impl KernelInterface for Emulator {
    fn provider(&self) -> Provider {
        Provider::Emulator
    }

    fn register(&self, handler: usize) -> io::Result<Receiver> {
        let tid = sys::gettid();
        let found = CPUS.iter().position(|cpu| cpu.claim(tid, handler));
        let number = found.ok_or(io::ErrorKind::QuotaExceeded)?;
        USED.fetch_max(number + 1, AcqRel);
        // SAFETY: a complete signal set for the calling thread.
        unsafe {
            let mut set: libc::sigset_t = core::mem::zeroed();
            libc::sigaddset(&mut set, trap::INTERRUPT);
            sys::change_signal_mask(libc::SIG_UNBLOCK, Some(&set), None);
        }
        Ok(Receiver(number as i32))
    }

    fn unregister(&self, receiver: Receiver) {
        if let Some(cpu) = CPUS.get(receiver.0 as usize).filter(|_| receiver.exists()) {
            cpu.release();
        }
    }

    fn attach(&self) -> io::Result<()> {
        Ok(())
    }

    fn route(&self, number: usize, receiver: Receiver) -> io::Result<()> {
        lead(number, receiver, super::REQUEST)
    }

    fn operand(&self, number: usize) -> Option<u64> {
        Some(number as u64)
    }

    fn start_timer(&self, number: usize, period: Duration) -> io::Result<Duration> {
        let (at, cpu) = position().ok_or(io::ErrorKind::NotFound)?;
        let error = io::Error::from_raw_os_error;
        lead(number, Receiver(at as i32), super::TICK)?;
        if cpu.timer.load(Relaxed) < 0 {
            let timer = sys::timer_create(sys::gettid(), trap::INTERRUPT).map_err(error)?;
            cpu.timer.store(timer, Relaxed);
        }
        let period = period.max(SHORTEST_TICK);
        cpu.upid.suppress(true);
        cpu.recognise(Vector::Timer);
        sys::timer_settime_periodic(cpu.timer.load(Relaxed), period).map_err(error)?;
        Ok(period)
    }

    fn stop_timer(&self) {
        let Some(cpu) = current() else { return };
        let timer = cpu.timer.swap(-1, Relaxed);
        if timer >= 0 {
            sys::timer_delete(timer);
        }
        cpu.recognise(Vector::Notification);
        cpu.upid.suppress(false);
    }
}

/// In the child of a fork: no thread of it is registered.
///
/// # Safety
///
/// There is no other thread.
pub(crate) unsafe fn in_child() {
    for cpu in &CPUS[..USED.load(Acquire)] {
        // The parent's timers are not the child's.
        cpu.timer.store(-1, Relaxed);
        cpu.release();
    }
}

#[cfg(test)]
mod tests;
