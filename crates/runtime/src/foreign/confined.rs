//! Where programs run that a thread starts: not on the CPU of its worker alone.

use crate::sys;
use crate::thread::raw;
use crate::worker::carrier::Carrier;

/// Calls `f`, which starts a program or becomes one. Where the runtime has confined the calling
/// kernel thread to a CPU, the program may run wherever the process could before.
///
/// # Safety
///
/// The caller stays on its kernel thread: it is in a [region](super::region), or in the child of a
/// `vfork`. `f` does not wait as a user thread.
pub unsafe fn outside<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: the caller's contract.
    let confined = raw::attached().then(|| unsafe { Carrier::confinement() }).flatten();
    let Some((cpu, all)) = confined else { return f() };
    // It was allowed once. If it is not any more, the worker's CPU is what there is.
    let _ = sys::pin_to_cpus(all);
    let r = f();
    let _ = sys::pin_to_cpus(&[cpu]);
    r
}
