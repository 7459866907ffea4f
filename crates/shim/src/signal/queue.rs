//! Signals that are pending, for the process and for each thread, and the list of threads.
//!
//! One lock guards all of it ([`locked`]). `kill` and its relatives may be called by handlers,
//! which may have interrupted anything of the program's: so no handler runs on a thread that holds
//! the lock, and nothing here calls `malloc`.

use super::{Section, bit};
use crate::state::{self, Thread};
use crate::sys::call;
use core::cell::Cell;
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use libc::siginfo_t;
use quaver::foreign::futex::Limits;
use quaver::foreign::lock;

static GUARD: AtomicU32 = AtomicU32::new(lock::FREE);

/// The lock is held.
pub(crate) struct Locked(#[allow(dead_code, reason = "ends after the lock")] Section);

pub(crate) fn locked() -> Locked {
    let section = Section::enter();
    lock::lock(&GUARD, &Limits::NONE);
    Locked(section)
}

impl Drop for Locked {
    fn drop(&mut self) {
        lock::unlock(&GUARD);
    }
}

/// Under the lock.
struct Guarded<T>(Cell<T>);

// SAFETY: under the lock.
unsafe impl<T> Sync for Guarded<T> {}

struct Node {
    info: siginfo_t,
    next: *mut Node,
}

/// Nodes that are free.
static FREE: Guarded<*mut Node> = Guarded(Cell::new(ptr::null_mut()));
/// Signals that are pending, in all queues.
static LENGTH: AtomicUsize = AtomicUsize::new(0);
/// Those of the process.
pub(crate) static PROCESS: Pending = Pending::new();
static FIRST: Guarded<*const Thread> = Guarded(Cell::new(ptr::null()));
static SOUGHT: Guarded<*const Thread> = Guarded(Cell::new(ptr::null()));

const SIGRTMIN: c_int = 32;

/// A queue, oldest first.
pub(crate) struct Pending {
    bits: AtomicU64,
    first: Cell<*mut Node>,
    last: Cell<*mut Node>,
}

// SAFETY: cells are under the lock.
unsafe impl Sync for Pending {}

impl Pending {
    pub(crate) const fn new() -> Pending {
        Pending {
            bits: AtomicU64::new(0),
            first: Cell::new(ptr::null_mut()),
            last: Cell::new(ptr::null_mut()),
        }
    }

    /// What it holds. Out of date at once without the lock.
    pub(crate) fn bits(&self) -> u64 {
        self.bits.load(SeqCst)
    }

    /// Adds a signal; one without a queue in the kernel only once.
    pub(super) fn push(&self, _: &Locked, info: &siginfo_t) {
        let signal = info.si_signo;
        if signal < SIGRTMIN && self.bits() & bit(signal) != 0 {
            return;
        }
        let node = new_node();
        // SAFETY: a free node.
        unsafe { node.write(Node { info: *info, next: ptr::null_mut() }) };
        // SAFETY: null or a node of this queue.
        match unsafe { self.last.replace(node).as_mut() } {
            Some(last) => last.next = node,
            None => self.first.set(node),
        }
        LENGTH.fetch_add(1, Relaxed);
        self.bits.fetch_or(bit(signal), SeqCst);
    }

    /// Takes the oldest of those with the lowest number among `allowed`; faults first, as in the
    /// kernel.
    pub(super) fn take(&self, _: &Locked, allowed: u64) -> Option<siginfo_t> {
        let found = self.bits() & allowed;
        if found == 0 {
            return None;
        }
        let faults = found & super::FAULTS;
        let signal = (if faults != 0 { faults } else { found }).trailing_zeros() as c_int + 1;
        let (mut before, mut at) = (ptr::null_mut::<Node>(), self.first.get());
        // SAFETY: nodes of this queue; the bit says that there is one.
        unsafe {
            while (*at).info.si_signo != signal {
                (before, at) = (at, (*at).next);
            }
            let (info, next) = ((*at).info, (*at).next);
            self.unlink(before, at);
            let mut rest = next;
            while !rest.is_null() && (*rest).info.si_signo != signal {
                rest = (*rest).next;
            }
            if rest.is_null() {
                self.bits.fetch_and(!bit(signal), SeqCst);
            }
            Some(info)
        }
    }

    /// Takes a node out, which comes after `before`, and frees it.
    ///
    /// # Safety
    ///
    /// Nodes of this queue; null: it is the first.
    unsafe fn unlink(&self, before: *mut Node, at: *mut Node) {
        // SAFETY: the caller's contract.
        unsafe {
            let next = (*at).next;
            match before.as_mut() {
                Some(before) => before.next = next,
                None => self.first.set(next),
            }
            if next.is_null() {
                self.last.set(before);
            }
            (*at).next = FREE.0.replace(at);
        }
        LENGTH.fetch_sub(1, Relaxed);
    }

    /// Calls `f` for each, oldest first.
    pub(super) fn each(&self, _: &Locked, mut f: impl FnMut(&siginfo_t)) {
        // SAFETY: null or a node of this queue.
        let at = |node: *mut Node| unsafe { node.as_ref() };
        let mut next = at(self.first.get());
        while let Some(node) = next {
            f(&node.info);
            next = at(node.next);
        }
    }

    /// Forgets all of `set`.
    pub(super) fn discard(&self, locked: &Locked, set: u64) {
        while self.take(locked, set).is_some() {}
    }
}

/// How many signals are pending.
pub(super) fn length() -> usize {
    LENGTH.load(Relaxed)
}

/// Under the lock.
fn new_node() -> *mut Node {
    const SIZE: usize = 64 * 1024;
    if FREE.0.get().is_null() {
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        // SAFETY: new memory.
        let at = unsafe { call(libc::SYS_mmap, [0, SIZE, access, flags, usize::MAX, 0]) };
        if (-4095..0).contains(&at) {
            crate::say::fatal(format_args!("no memory for a pending signal"));
        }
        let nodes = at as *mut Node;
        for i in 0..SIZE / size_of::<Node>() {
            // SAFETY: within the new memory.
            unsafe {
                let node = nodes.add(i);
                (*node).next = FREE.0.replace(node);
            }
        }
    }
    let node = FREE.0.get();
    // SAFETY: not null.
    FREE.0.set(unsafe { (*node).next });
    node
}

/// From now on signals may be for `t`.
pub(crate) fn add(t: &'static Thread) {
    let _locked = locked();
    let first = FIRST.0.replace(t);
    t.signals.next.set(first);
    // SAFETY: null or a thread of the list, which exists.
    if let Some(first) = unsafe { first.as_ref() } {
        first.signals.previous.set(t);
    }
}

/// `t` ends: no signal is for it any more, and those that were are gone. `false`: it is the calling
/// thread, and there is one that it must take first.
pub(crate) fn remove(t: &'static Thread) -> bool {
    let locked = locked();
    if t.ended.load(Relaxed) == 0 && super::deliver::is_due(t) {
        return false;
    }
    let (next, previous) = (t.signals.next.get(), t.signals.previous.get());
    // SAFETY: null or threads of the list, which exist.
    unsafe {
        match previous.as_ref() {
            Some(previous) => previous.signals.next.set(next),
            None => FIRST.0.set(next),
        }
        if let Some(next) = next.as_ref() {
            next.signals.previous.set(previous);
        }
    }
    t.signals.pending.discard(&locked, !0);
    // Nobody chooses it any more.
    t.signals.mask.store(!0, SeqCst);
    true
}

/// Calls `f` for each thread until it says so; returns that one.
pub(super) fn find(_: &Locked, f: impl Fn(&'static Thread) -> bool) -> Option<&'static Thread> {
    // SAFETY: threads of the list exist.
    unsafe {
        let mut at = FIRST.0.get();
        while let Some(t) = at.as_ref() {
            if f(t) {
                return Some(t);
            }
            at = t.signals.next.get();
        }
    }
    None
}

/// Does something with the thread to which `gettid` gives this number, which exists as long as that
/// takes. `None`: there is none.
pub(crate) fn with_numbered<T>(number: u32, f: impl FnOnce(&'static Thread) -> T) -> Option<T> {
    let locked = locked();
    let found = find(&locked, |t| t.tid() == number)?;
    found.references.fetch_add(1, Relaxed);
    drop(locked);
    let result = f(found);
    found.release();
    Some(result)
}

/// From now on the courier makes `t` look up, until there is nothing any more that it should look
/// up for.
pub(super) fn seek(_: &Locked, t: &'static Thread) {
    if !t.signals.is_sought.replace(true) {
        t.references.fetch_add(1, Relaxed);
        t.signals.next_sought.set(SOUGHT.0.replace(t));
    }
}

/// Calls `f` for each that is sought; `false`: not any more. Those that may have been the last to
/// be interested in are returned through `found`, to be released without the lock.
pub(super) fn each_sought(
    _: &Locked,
    f: impl Fn(&'static Thread) -> bool,
) -> Option<&'static Thread> {
    // SAFETY: those that are sought are referred to.
    unsafe {
        let mut link = &SOUGHT.0;
        while let Some(t) = link.get().as_ref() {
            if f(t) {
                link = &t.signals.next_sought;
            } else {
                link.set(t.signals.next_sought.get());
                t.signals.is_sought.set(false);
                return Some(t);
            }
        }
    }
    None
}

/// In the child of a fork, which has one thread: nothing is pending. What the parent was doing to
/// the lists is not known, so nodes are not used again.
pub(super) fn in_child() {
    GUARD.store(lock::FREE, Relaxed);
    FREE.0.set(ptr::null_mut());
    LENGTH.store(0, Relaxed);
    let forget = |pending: &Pending| {
        pending.bits.store(0, Relaxed);
        pending.first.set(ptr::null_mut());
        pending.last.set(ptr::null_mut());
    };
    forget(&PROCESS);
    SOUGHT.0.set(ptr::null());
    FIRST.0.set(ptr::null());
    if let Some(me) = state::me() {
        forget(&me.signals.pending);
        me.signals.is_sought.set(false);
        for link in [&me.signals.next, &me.signals.previous, &me.signals.next_sought] {
            link.set(ptr::null());
        }
        FIRST.0.set(me);
    }
}
