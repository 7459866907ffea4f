//! What threads block.

use super::{RESERVED, UNBLOCKABLE, action, bits, courier, deliver, file, managed, queue, set_of};
use crate::cancel::{self, Point};
use crate::interrupt::Call;
use crate::real::real;
use crate::state::{self, Thread};
use crate::{memory, sys, time};
use core::ffi::c_int;
use core::sync::atomic::Ordering::*;
use libc::sigset_t;

/// The calling thread blocks `mask` from now on. Nothing is delivered.
pub(super) fn set(me: &Thread, mask: u64) {
    me.signals.mask.store(mask, SeqCst);
    if me.signals.kernel_tid() != 0 {
        // SAFETY: what the thread blocks.
        unsafe { super::set_kernel_mask(mask & !RESERVED) };
    }
}

/// [`set`], after which somebody else may have to take what `me` was to, or `me` something that is
/// pending.
fn change(me: &'static Thread, before: u64, after: u64) {
    set(me, after);
    file::changed(before ^ after);
    if after & !before != 0 {
        action::are_blocked(after & !before);
        if queue::PROCESS.bits() & after & !before != 0 {
            courier::tell();
        }
    }
    if before & !after != 0 {
        deliver::deliver_here(me);
    }
}

/// The calling thread blocks again what it did where it jumps to.
pub(super) fn restore(me: &'static Thread, mask: u64) {
    change(me, me.signals.mask.load(Relaxed), mask);
}

/// What becomes of `before`, and whether that can be asked for.
fn combined(how: c_int, before: u64, set: u64) -> Option<u64> {
    let set = set & !UNBLOCKABLE & !RESERVED;
    Some(match how {
        libc::SIG_BLOCK => before | set,
        libc::SIG_UNBLOCK => before & !set,
        libc::SIG_SETMASK => set,
        _ => return None,
    })
}

/// What the new image of an `exec` blocks.
pub(crate) fn for_exec(me: &Thread) -> u64 {
    match me.signals.child.get() {
        (pid, mask) if pid == super::process() => mask,
        _ => me.signals.mask.load(Relaxed),
    }
}

/// See `pthread_sigmask(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_sigmask(
    how: c_int,
    new: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(me) = state::me() else {
            return real!(pthread_sigmask(how => c_int, new => *const sigset_t,
                old => *mut sigset_t) -> c_int);
        };
        let is_child = super::in_child_of_vfork();
        let before = if is_child { for_exec(me) } else { me.signals.mask.load(Relaxed) };
        if !new.is_null() {
            let Some(after) = combined(how, before, bits(new)) else { return libc::EINVAL };
            if is_child {
                // The parent's is not to be touched.
                me.signals.child.set((super::process(), after));
                super::set_kernel_mask(after);
            } else {
                change(me, before, after);
            }
        }
        if !old.is_null() {
            old.write(set_of(before));
        }
    }
    0
}

/// The calling thread blocks the signals of a mask of the kernel's and no others.
pub(crate) fn inherit(me: &'static Thread, mask: u64) {
    change(me, 0, mask & !UNBLOCKABLE & !RESERVED);
}

/// See `sigprocmask(2)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigprocmask(
    how: c_int,
    new: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    // SAFETY: handed on.
    match unsafe { pthread_sigmask(how, new, old) } {
        0 => 0,
        errno => {
            sys::set_errno(errno);
            -1
        }
    }
}

/// Changes one signal.
fn change_one(how: c_int, signal: c_int) -> c_int {
    if !super::valid(signal) {
        sys::set_errno(libc::EINVAL);
        return -1;
    }
    // SAFETY: a complete set.
    unsafe {
        let mut set: sigset_t = core::mem::zeroed();
        libc::sigaddset(&mut set, signal);
        sigprocmask(how, &set, core::ptr::null_mut())
    }
}

/// See `sighold(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn sighold(signal: c_int) -> c_int {
    change_one(libc::SIG_BLOCK, signal)
}

/// See `sigrelse(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn sigrelse(signal: c_int) -> c_int {
    change_one(libc::SIG_UNBLOCK, signal)
}

/// A mask for the time of a call, as `pselect` and its relatives have one. At its end signals that
/// were allowed by it alone are pending again.
pub(crate) struct Temporary(Option<Masked>);

struct Masked {
    thread: &'static Thread,
    before: u64,
    /// The thread's count of handlers before any ran that the mask has allowed.
    handled: u32,
}

impl Temporary {
    /// Begins. Null: none. An error if the mask cannot be read.
    ///
    /// # Safety
    ///
    /// Null or a valid set, if anything can be read there.
    pub(crate) unsafe fn begin(mask: *const sigset_t) -> Result<Temporary, c_int> {
        let Some(me) = managed().filter(|_| !mask.is_null()) else { return Ok(Temporary(None)) };
        // SAFETY: the caller's contract; the first word of a set is the kernel's signals.
        Ok(Temporary::of(me, unsafe { memory::get(mask.cast())? }))
    }

    fn of(me: &'static Thread, mask: u64) -> Temporary {
        let (before, handled) = (me.signals.mask.load(Relaxed), me.signals.handled.get());
        let after = mask & !UNBLOCKABLE & !RESERVED;
        set(me, after);
        file::changed(before ^ after);
        action::are_blocked(after & !before);
        Temporary(Some(Masked { thread: me, before, handled }))
    }

    /// The call for which the mask is, from the beginning of the mask on: a handler may run before
    /// the call does anything, and interrupts it all the same. `None`: there is no mask.
    pub(crate) fn call(&self) -> Option<Call> {
        self.0.as_ref().map(|masked| Call::since(masked.thread, masked.handled))
    }

    /// What the kernel is to be told: nothing, where the mask is the shim's affair.
    pub(crate) fn for_kernel(&self, mask: *const sigset_t) -> usize {
        if self.0.is_some() { 0 } else { mask as usize }
    }

    /// The call has found nothing: has a handler run, at last?
    pub(crate) fn is_interrupted(&self) -> bool {
        self.0.as_ref().is_some_and(|Masked { thread, handled, .. }| {
            deliver::deliver_here(thread);
            thread.signals.handled.get() != *handled
        })
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(Masked { thread, before, .. }) = self.0 {
            change(thread, thread.signals.mask.load(Relaxed), before);
        }
    }
}

/// Waits, as a user thread, until a handler has run on the calling thread since `call` began.
fn wait_for_handler(call: &Call) {
    loop {
        deliver::deliver_here(call.thread());
        cancel::test();
        if call.is_broken() {
            return;
        }
        time::wait_for(call, None);
    }
}

/// See `sigsuspend(2)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigsuspend(set: *const sigset_t) -> c_int {
    let Some(me) = managed() else {
        // SAFETY: handed on.
        return unsafe { real!(sigsuspend(set => *const sigset_t) -> c_int) };
    };
    // SAFETY: the caller's contract.
    let set = match unsafe { memory::get(set.cast::<u64>()) } {
        Ok(set) => set,
        Err(errno) => return sys::failed(errno),
    };
    let point = Point::enter();
    // What the mask allows ends it.
    let call = Call::begin(me, false);
    let temporary = Temporary::of(me, set);
    wait_for_handler(&call);
    drop(temporary);
    point.leave();
    sys::set_errno(libc::EINTR);
    -1
}

/// See `pause(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn pause() -> c_int {
    let Some(me) = managed() else {
        // SAFETY: handed on.
        return unsafe { real!(pause() -> c_int) };
    };
    let point = Point::enter();
    wait_for_handler(&Call::begin(me, false));
    point.leave();
    sys::set_errno(libc::EINTR);
    -1
}

/// What `sigpause` is to programs that ask for X/Open's.
///
/// # Safety
///
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __xpg_sigpause(signal: c_int) -> c_int {
    if !super::valid(signal) {
        sys::set_errno(libc::EINVAL);
        return -1;
    }
    // SAFETY: complete sets.
    unsafe {
        let mut set: sigset_t = core::mem::zeroed();
        sigprocmask(libc::SIG_BLOCK, core::ptr::null(), &mut set);
        libc::sigdelset(&mut set, signal);
        sigsuspend(&set)
    }
}

/// See `sigpause(3)`: BSD's, which takes a mask.
///
/// # Safety
///
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigpause(mask: c_int) -> c_int {
    // SAFETY: a complete set.
    unsafe { sigsuspend(&set_of(u64::from(mask as u32))) }
}

/// See `sigpending(2)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigpending(set: *mut sigset_t) -> c_int {
    let Some(me) = managed() else {
        // SAFETY: handed on.
        return unsafe { real!(sigpending(set => *mut sigset_t) -> c_int) };
    };
    courier::synchronise();
    let all = me.signals.pending.bits() | queue::PROCESS.bits() | file::pending();
    let found = set_of(all & me.signals.mask.load(Relaxed));
    // SAFETY: the caller's contract.
    unsafe { memory::put(set, found) }.map_or_else(sys::failed, |()| 0)
}

/// Runs `f`, which makes a process, with what the calling thread blocks told to the kernel:
/// processes inherit that.
pub(crate) fn told_to_kernel<R>(f: impl FnOnce() -> R) -> R {
    let Some(me) = managed().filter(|_| !super::in_child_of_vfork()) else { return f() };
    let section = super::Section::enter();
    let r = crate::exec::in_place(|| {
        // SAFETY: what the thread blocks; what is delivered meanwhile goes to the courier.
        unsafe { super::with_kernel_mask(for_exec(me), f) }
    });
    drop(section);
    deliver::deliver_here(me);
    r
}
