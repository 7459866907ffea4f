//! The interface of Intel's patched Linux 6.0, as its documentation describes it. Compiled, and
//! untested: nobody here has such a kernel.
//!
//! Each sender has a table of its own there, so only threads that [attach](KernelInterface::attach)
//! send, clocks' threads, and each looks for a route's new receiver itself. There is no delegated
//! timer.

use super::{KernelInterface, Provider, REQUEST, ROUTES, Receiver};
use crate::sys;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::*};
use std::io;
use std::time::Duration;

/// System calls of that kernel. On others these numbers are other calls'.
const REGISTER_HANDLER: i64 = 471;
const UNREGISTER_HANDLER: i64 = 472;
const CREATE_FD: i64 = 473;
const REGISTER_SENDER: i64 = 474;
const UNREGISTER_SENDER: i64 = 475;

/// The kernel's releases that begin so have the calls, if it shows the processor's flag, too.
const RELEASE: &str = "6.0.";

/// See the module.
pub(super) struct IntelKernel(());

/// That interface, if this is such a kernel. No call is made to find out: on another kernel its
/// number may mean anything.
pub(super) fn open() -> Option<&'static IntelKernel> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let ours = is_such_a_kernel(&read("/proc/sys/kernel/osrelease"), &read("/proc/cpuinfo"));
    ours.then_some(&IntelKernel(()))
}

fn is_such_a_kernel(release: &str, cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    release.starts_with(RELEASE)
        && flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "uintr"))
}

/// For each route the receiver's descriptor, below the number of times that it was changed.
static LEADS_TO: [AtomicU64; ROUTES] = [const { AtomicU64::new(0) }; ROUTES];

/// What an attached thread knows of a route: the state of [`LEADS_TO`], and its own table's entry.
#[derive(Clone, Copy)]
struct Known {
    seen: u64,
    entry: u64,
}

thread_local! {
    /// Null, or the calling thread's table, which is never freed. Without a destructor.
    static TABLE: Cell<*const [Cell<Known>; ROUTES]> = const { Cell::new(core::ptr::null()) };
}

fn call(number: i64, a: u64, b: u64) -> io::Result<u64> {
    // SAFETY: numbers and addresses of code; the kernel writes to no memory.
    match unsafe { sys::syscall3(number, a, b, 0) } {
        error @ ..0 => Err(io::Error::from_raw_os_error(-error as i32)),
        value => Ok(value as u64),
    }
}

impl KernelInterface for IntelKernel {
    fn provider(&self) -> Provider {
        Provider::IntelKernel
    }

    fn register(&self, handler: usize) -> io::Result<Receiver> {
        call(REGISTER_HANDLER, handler as u64, 0)?;
        match call(CREATE_FD, REQUEST.into(), 0) {
            Ok(fd) => Ok(Receiver(fd as i32)),
            Err(error) => {
                let _ = call(UNREGISTER_HANDLER, 0, 0);
                Err(error)
            }
        }
    }

    fn unregister(&self, receiver: Receiver) {
        if receiver.exists() {
            let _ = call(libc::SYS_close, receiver.0 as u64, 0);
        }
        let _ = call(UNREGISTER_HANDLER, 0, 0);
    }

    fn attach(&self) -> io::Result<()> {
        let unknown = [const { Cell::new(Known { seen: 0, entry: 0 }) }; ROUTES];
        TABLE.set(Box::leak(Box::new(unknown)));
        Ok(())
    }

    fn route(&self, number: usize, receiver: Receiver) -> io::Result<()> {
        let route = LEADS_TO.get(number).ok_or(io::ErrorKind::QuotaExceeded)?;
        let changed = |old: u64| Some(((old >> 32) + 1) << 32 | receiver.0 as u64);
        let _ = route.fetch_update(AcqRel, Acquire, changed);
        Ok(())
    }

    fn operand(&self, number: usize) -> Option<u64> {
        // SAFETY: null, or leaked; used by the calling thread only.
        let known = unsafe { TABLE.get().as_ref() }?.get(number)?;
        let (Known { seen, entry }, now) = (known.get(), LEADS_TO[number].load(Acquire));
        if seen == now {
            return (now != 0).then_some(entry);
        }
        if seen != 0 {
            let _ = call(UNREGISTER_SENDER, entry, 0);
        }
        known.set(Known { seen: 0, entry: 0 });
        let entry = call(REGISTER_SENDER, now & 0xffff_ffff, 0).ok()?;
        known.set(Known { seen: now, entry });
        Some(entry)
    }

    fn start_timer(&self, _number: usize, _period: Duration) -> io::Result<Duration> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn stop_timer(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stock_kernels_are_not_taken_for_it() {
        let flags = |flags: &str| format!("processor\t: 0\nflags\t\t: fpu vme {flags}\n");
        assert!(is_such_a_kernel("6.0.0+\n", &flags("uintr avx")));
        assert!(!is_such_a_kernel("6.0.12-amd64\n", &flags("avx")));
        assert!(!is_such_a_kernel("7.0.1\n", &flags("uintr")), "471 is another call there");
        assert!(!is_such_a_kernel("6.0.0", "") && !is_such_a_kernel("", ""));
    }
}
