//! Handlers of the application, on the thread's stack and on the alternate one.

use super::{Scenario, mix};
use crate::boundaries::stepper::{begin, step};
use core::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::Once;

pub(super) const ALL: &[Scenario] =
    &[Scenario::plain("signal-handler", plain), Scenario::plain("signal-altstack", alternate)];

static SUM: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(signal: i32) {
    // The kernel has cleared the trap flag.
    begin();
    let values: [u64; 6] = core::array::from_fn(|i| core::hint::black_box(i as u64 + 1));
    SUM.store(values.into_iter().fold(signal as u64, mix), SeqCst);
}

fn raise(signal: i32) -> u64 {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        for (signal, flags) in [(libc::SIGUSR1, 0), (libc::SIGUSR2, libc::SA_ONSTACK)] {
            // SAFETY: a complete sigaction; the handler only computes. It masks nothing: masks
            // belong to kernel threads.
            unsafe {
                let mut action: libc::sigaction = core::mem::zeroed();
                action.sa_sigaction = handler as *const () as usize;
                action.sa_flags = flags | libc::SA_NODEFER;
                libc::sigaction(signal, &action, core::ptr::null_mut());
            }
        }
    });
    SUM.store(0, SeqCst);
    // SAFETY: the signal has a handler.
    let result = step(|| unsafe { libc::raise(signal) });
    mix(SUM.load(SeqCst), result as u64)
}

fn plain() -> u64 {
    raise(libc::SIGUSR1)
}

/// There a thread may not be switched out: the stack belongs to the worker.
fn alternate() -> u64 {
    raise(libc::SIGUSR2)
}
