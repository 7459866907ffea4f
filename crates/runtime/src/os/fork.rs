//! The child of a `fork`: one thread, without workers.
//!
//! `fork` copies one kernel thread. If that carried a user thread, its copy is an ordinary thread
//! from then on, on the stack and the TLS block that it has; the copies of the other user threads
//! never run. The parent's runtime has ended there like one that was shut down, so that nobody
//! waits for its workers, and another may be built.

use crate::arch::segment;
use crate::calls;
use crate::interpose;
use crate::overlay;
use crate::park;
use crate::reactor::{REACTOR, heard};
use crate::runtime::Inner;
use crate::sys;
use crate::thread::raw;
use crate::uintr;
use crate::worker::carrier::Carrier;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> libc::c_int;
}

/// Sees to it that every child of a fork begins with [`in_child`].
pub(crate) fn watch() -> std::io::Result<()> {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    extern "C" fn child() {
        // SAFETY: libc calls it before `fork` returns in the child.
        unsafe { in_child() };
    }
    extern "C" fn parent() {
        heard::are_shared();
    }
    if WATCHED.swap(true, Relaxed) {
        return Ok(());
    }
    // SAFETY: handlers that may run in any process, and any child.
    match unsafe { pthread_atfork(Some(parent), None, Some(child)) } {
        0 => Ok(()),
        error => {
            WATCHED.store(false, Relaxed);
            Err(std::io::Error::from_raw_os_error(error))
        }
    }
}

/// Makes the calling thread, the only one of a process that has just been forked, an ordinary
/// kernel thread on the stack and TLS block that it has, and forgets the parent's runtime, whose
/// workers do not exist here. Another runtime may be built. The second time it does nothing.
///
/// # Safety
///
/// Called in the child before anything else of this crate.
pub unsafe fn in_child() {
    if raw::attached() {
        if let Some(t) = raw::current() {
            // Of a request that came during a critical section: there is nobody to give the worker
            // to.
            t.deferred.set(crate::thread::control::deferred::NONE);
        }
        // SAFETY: this is the copy of a carrier, and the process's only thread.
        if let Some((_, all)) = unsafe { Carrier::confinement() } {
            let _ = sys::pin_to_cpus(all);
        }
        raw::detach();
        // SAFETY: nothing here uses `gs` while the thread is not attached.
        unsafe { segment::set_gs_base(0) };
    }
    Inner::forget();
    // SAFETY: there is no other thread.
    unsafe {
        park::in_child();
        uintr::in_child();
        REACTOR.in_child();
        interpose::forget_waiters();
        overlay::in_child();
        calls::forget_all();
    }
}
