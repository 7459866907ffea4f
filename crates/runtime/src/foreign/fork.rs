//! The child of a `fork`: one thread, without workers.

use crate::arch::segment;
use crate::interpose;
use crate::runtime::Inner;
use crate::thread::raw;

/// Makes the calling thread, the only one of a process that has just been forked, an ordinary kernel thread on the stack and
/// TLS block that it has, and forgets the parent's runtime, whose workers do not exist here. Another runtime may be built.
///
/// # Safety
///
/// Called in the child before anything else of this crate.
pub unsafe fn in_child() {
    if raw::attached() {
        raw::detach();
        // SAFETY: nothing here uses `gs` while the thread is not attached.
        unsafe { segment::set_gs_base(0) };
    }
    Inner::forget();
    // SAFETY: there is no other thread.
    unsafe { interpose::forget_waiters() };
    super::futex::forget_waiters();
}
