//! Non-preemptible regions with a begin and an end, as [`crate::no_preempt`].

use crate::thread::raw::current;

/// Begins a region of the calling user thread; nothing on other threads.
#[inline]
pub fn begin() {
    if let Some(t) = current() {
        t.enter_region();
    }
}

/// Ends the innermost region. `false`: there is none.
#[inline]
pub fn end() -> bool {
    match current() {
        Some(t) if t.regions.get() > 0 => {
            t.leave_region();
            true
        }
        Some(_) => false,
        None => true,
    }
}

/// Is the runtime inside a section of its own on the calling kernel thread, where none of it may be called? True where a
/// signal handler has interrupted the scheduler or a lock's list.
pub fn in_runtime() -> bool {
    match current() {
        Some(t) => t.no_preempt.get() > 0,
        None => crate::thread::raw::attached(),
    }
}
