//! A pinned thread that does nothing but look at the clock (Aspen, section 3.2).

use crate::preempt;
use crate::runtime::Inner;
use crate::sys;
use crate::tsc;
use core::sync::atomic::Ordering::*;

/// See the module documentation of [`crate::clock`].
pub(crate) struct TimerCore {}

impl TimerCore {
    pub(crate) fn new() -> TimerCore {
        TimerCore {}
    }
}

/// The thread. Every pass asks the policy about every slot anew, so work that arrives just after a quantum was used is
/// noticed at once and not a quantum later.
pub(crate) fn run(rt: &'static Inner) {
    if let Some(cpu) = rt.config.timer_cpu
        && let Err(e) = sys::pin_to_cpu(cpu)
    {
        eprintln!(
            "quaver: cannot pin the timer core to CPU {cpu}: {}",
            std::io::Error::from_raw_os_error(e)
        );
    }
    while !rt.stopping.load(Relaxed) {
        for slot in rt.slots() {
            if let Some((run, due)) = slot.preempt_due() {
                let now = tsc::now();
                if due <= now {
                    preempt::send(rt, slot, run, now);
                }
            }
        }
        core::hint::spin_loop();
    }
}
