//! Who sees which workers the kernel has descheduled.
//!
//! A clock interrupts threads that run. It is of no use to a worker whose kernel thread has lost
//! its CPU to another process, or sleeps in a page fault: what waits there stands still with it.
//! Only the kernel knows. A program in the kernel (eBPF; package `quaver-monitor`, by `quaver
//! lockd` or in this process) can tell; this module is what it must offer, and how the runtime gets
//! it.

use core::sync::atomic::{AtomicI64, AtomicU32};
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

/// A monitor of the carriers of this process.
///
/// It knows a carrier by the words at its kernel thread's gs base: the address of the first word
/// itself; one of no meaning; the address of the worker, 0 while the carrier is none; and a `u32`,
/// which word of [`states`](Monitor::states) is the carrier's.
///
/// It may be wrong, or end, at any time: that costs what it is for, and a little time.
pub trait Monitor: Send + Sync {
    /// A word for each carrier. 0: it runs, or sleeps of its own will, or is no worker. 1: it is
    /// preempted. 2: it sleeps in a page fault. Carriers with a higher number are not seen.
    fn states(&self) -> &[AtomicU32];

    /// How many words are not 0.
    fn away(&self) -> &AtomicI64;

    /// Becomes readable when a carrier is preempted by another process, or has fallen asleep in a
    /// page fault.
    fn bell(&self) -> BorrowedFd<'_>;

    /// The bell is not readable before it rings again.
    fn silence(&self);
}

/// How a runtime gets its monitor. The error says why there is none.
pub type Find = fn() -> Result<&'static dyn Monitor, String>;

static FIND: OnceLock<Find> = OnceLock::new();

/// Runtimes of this process that [want](crate::Builder::monitor) a monitor get it from `find` from
/// now on. Only the first call counts.
pub fn provide(find: Find) {
    let _ = FIND.set(find);
}

/// The monitor, or `None` with a line on standard error, once.
pub(crate) fn find() -> Option<&'static dyn Monitor> {
    let none = || Err("this program has none (package quaver-monitor)".to_owned());
    match FIND.get().map_or_else(none, |find| find()) {
        Ok(monitor) => Some(monitor),
        Err(why) => {
            static SAID: std::sync::Once = std::sync::Once::new();
            SAID.call_once(|| {
                eprintln!("quaver: workers that lose their CPU are not seen: {why}");
            });
            None
        }
    }
}
