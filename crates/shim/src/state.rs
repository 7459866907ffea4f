//! What the shim knows of a thread: the block behind a `pthread_t`.
//!
//! `pthread_self` stays the C library's: it returns the address of the thread's TLS block. The shim
//! keeps a pointer to its own block in a thread-local variable, so `pthread_t` leads to it by a
//! constant offset, for the calling thread and for others. Kernel threads (the runtime's own, and
//! those that the C library makes for itself) have a null pointer there, and all functions hand
//! them on to the C library.

use crate::affinity::Cpus;
use crate::nice::Nice;
use crate::signal::OfThread;
use crate::unwind::{Base, OwnBuffer, UnwindBuffer};
use core::cell::{Cell, UnsafeCell};
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*,
};
use libc::pthread_t;
use quaver::JoinHandle;
use quaver::foreign::futex::{self, Limits};
use quaver::foreign::lock;
use quaver::foreign::thread::{self as uthread, UserThread};

pub(crate) type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// Who sees to the end of a thread.
pub(crate) mod fate {
    pub(crate) const JOINABLE: u32 = 0;
    pub(crate) const DETACHED: u32 = 1;
    pub(crate) const JOINING: u32 = 2;
}

/// Bits of [`Thread::cancel`].
pub(crate) mod cancel {
    /// `pthread_cancel` was called.
    pub(crate) const PENDING: u32 = 1;
    /// `PTHREAD_CANCEL_DISABLE`.
    pub(crate) const DISABLED: u32 = 2;
    /// `PTHREAD_CANCEL_ASYNCHRONOUS`.
    pub(crate) const ASYNC: u32 = 4;
    /// The thread is ending: no more cancellation.
    pub(crate) const ENDING: u32 = 8;
}

/// A thread of the program.
pub(crate) struct Thread {
    /// Who owns its mutexes, in the child of a fork as before.
    pub(crate) number: u32,
    pub(crate) start: Start,
    pub(crate) argument: *mut c_void,
    /// The runtime's thread; set before any code of the program runs on it.
    pub(crate) uthread: Cell<Option<UserThread>>,
    /// 1 when the creator is done with it; a futex word.
    pub(crate) published: AtomicU32,
    /// 1 when the thread has ended but for its last instructions; a futex word.
    pub(crate) ended: AtomicU32,
    /// See [`fate`].
    pub(crate) fate: AtomicU32,
    pub(crate) handle: UnsafeCell<Option<JoinHandle<()>>>,
    pub(crate) result: Cell<*mut c_void>,
    /// See [`cancel`].
    pub(crate) cancel: AtomicU32,
    /// The kernel thread in which it is blocked, or 0.
    pub(crate) blocked_in: AtomicI32,
    /// The kernel thread on which it makes a call of the C library's outside the workers, or 0.
    /// Handlers may run on it there.
    pub(crate) away_in: AtomicI32,
    /// There it waits for a futex in a cancellation point of the C library's.
    pub(crate) is_cancellable: AtomicBool,
    /// When it was last sent a signal to look up that it has not got yet, in ns; 0: it has.
    pub(crate) kicked: AtomicU64,
    /// What the C library had to clean up when that call began.
    pub(crate) own_buffer: Cell<*mut OwnBuffer>,
    /// How many calls that may wait it is in; more than one in handlers.
    pub(crate) calls: Cell<u32>,
    pub(crate) signals: OfThread,
    /// Where it began.
    pub(crate) base: Base,
    /// `pthread_cleanup_push` of C programs.
    pub(crate) cleanup: Cell<*mut UnwindBuffer>,
    pub(crate) name: UnsafeCell<[u8; 16]>,
    /// As asked for; advisory. Under [`META`].
    pub(crate) affinity: UnsafeCell<Option<Cpus>>,
    /// Its stack, if that is the program's.
    pub(crate) own_stack: Cell<Option<(usize, usize)>>,
    /// What `pthread_getschedparam` says: [`Schedule::word`](crate::schedule::Schedule::word).
    pub(crate) schedule: AtomicU32,
    /// See [`nice`](crate::nice).
    pub(crate) nice: Nice,
    pub(crate) references: AtomicU32,
}

// SAFETY: cells belong to the thread itself, or to its creator before `published`, or are under
// `META`.
unsafe impl Sync for Thread {}
// SAFETY: as above.
unsafe impl Send for Thread {}

thread_local! {
    /// The calling thread's block. Const-initialised and without a destructor: reading it calls
    /// nothing.
    static ME: Cell<*const Thread> = const { Cell::new(ptr::null()) };
    /// Nobody may look at `ME` any more but those who join.
    static ENDS: Cell<bool> = const { Cell::new(false) };
    /// This kernel thread belongs to the runtime: what it asks for it gets from the C library.
    static INTERNAL: Cell<bool> = const { Cell::new(false) };
}

/// Distance from a thread pointer to its `ME`.
static OFFSET: AtomicUsize = AtomicUsize::new(0);
/// The thread that runs `main`.
static MAIN: AtomicPtr<Thread> = AtomicPtr::new(ptr::null_mut());
/// Threads that have not ended.
pub(crate) static LIVE: AtomicUsize = AtomicUsize::new(0);
/// Guards names and affinities.
pub(crate) static META: AtomicU32 = AtomicU32::new(0);

/// The calling thread of the program; `None` on kernel threads.
#[inline]
pub(crate) fn me() -> Option<&'static Thread> {
    // SAFETY: null or the calling thread's own block, which lives as long as it runs.
    unsafe { ME.get().as_ref() }
}

pub(crate) fn set_me(t: &Thread) {
    ME.set(t);
}

/// [`me`], for signal handlers, which may come when others have freed the block of a thread that
/// ends.
pub(crate) fn me_in_handler() -> Option<&'static Thread> {
    if ENDS.get() { None } else { me() }
}

/// The calling thread ends, and its block is the joiner's from now on.
pub(crate) fn end() {
    ENDS.set(true);
}

pub(crate) fn internal() -> bool {
    INTERNAL.get()
}

pub(crate) fn set_internal(internal: bool) {
    INTERNAL.set(internal);
}

pub(crate) fn main_thread() -> Option<&'static Thread> {
    // SAFETY: null or the main thread's block, which is never freed.
    unsafe { MAIN.load(Acquire).as_ref() }
}

pub(crate) fn set_main(t: &'static Thread) {
    MAIN.store(ptr::from_ref(t).cast_mut(), Release);
}

/// Who the caller is to mutexes and read-write locks: never 0.
#[inline]
pub(crate) fn my_number() -> u32 {
    match me() {
        Some(me) => me.number,
        None => crate::sys::kernel_tid() as u32,
    }
}

/// Finds the offset of `ME`; once, before there are threads.
pub(crate) fn init() {
    // SAFETY: pthread_self has no requirements.
    let own = unsafe { libc::pthread_self() } as usize;
    let at = ME.with(|me| me.as_ptr() as usize);
    OFFSET.store(at.wrapping_sub(own), Relaxed);
}

/// The block behind `t`; `None` for threads that are not the program's.
///
/// # Safety
///
/// `t` is a thread that has not been joined, or 0.
pub(crate) unsafe fn of(t: pthread_t) -> Option<&'static Thread> {
    let offset = OFFSET.load(Relaxed);
    if t == 0 || offset == 0 {
        return None;
    }
    // SAFETY: static TLS of the shim lies at the same offset in all blocks.
    unsafe { (*((t as usize).wrapping_add(offset) as *const *const Thread)).as_ref() }
}

/// Is `t`, of which [`of`] knows nothing, a thread that has been joined? That is no thread of the C
/// library's either.
pub(crate) fn is_gone(t: pthread_t) -> bool {
    uthread::is_fs_base(t as usize)
}

/// Sets the block of a thread that has not run yet.
///
/// # Safety
///
/// `fs_base` is the thread's, which waits for `published`.
pub(crate) unsafe fn install(fs_base: usize, t: &'static Thread) {
    // SAFETY: as in `of`.
    unsafe { *(fs_base.wrapping_add(OFFSET.load(Relaxed)) as *mut *const Thread) = t };
}

impl Thread {
    pub(crate) fn new(start: Start, argument: *mut c_void, number: u32) -> Thread {
        Thread {
            number,
            start,
            argument,
            uthread: Cell::new(None),
            published: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            fate: AtomicU32::new(fate::JOINABLE),
            handle: UnsafeCell::new(None),
            result: Cell::new(ptr::null_mut()),
            cancel: AtomicU32::new(0),
            blocked_in: AtomicI32::new(0),
            away_in: AtomicI32::new(0),
            is_cancellable: AtomicBool::new(false),
            kicked: AtomicU64::new(0),
            own_buffer: Cell::new(ptr::null_mut()),
            calls: Cell::new(0),
            signals: OfThread::new(),
            base: Base::new(),
            cleanup: Cell::new(ptr::null_mut()),
            name: UnsafeCell::new([0; 16]),
            affinity: UnsafeCell::new(None),
            own_stack: Cell::new(None),
            schedule: AtomicU32::new(0),
            nice: Nice::new(),
            references: AtomicU32::new(2),
        }
    }

    /// What `gettid` returns: of the main thread the process's number.
    pub(crate) fn tid(&self) -> u32 {
        let main = main_thread().map_or(ptr::null(), ptr::from_ref);
        if ptr::eq(self, main) { std::process::id() } else { self.number }
    }

    /// It is a new one of `maker`'s, and has what that has until it gets its own.
    pub(crate) fn inherit(&mut self, maker: &Thread) {
        self.signals.mask.store(maker.signals.mask.load(Relaxed), Relaxed);
        self.nice.inherit(&maker.nice);
        lock::lock(&META, &Limits::NONE);
        // SAFETY: under `META`.
        unsafe {
            *self.name.get_mut() = *maker.name.get();
            *self.affinity.get_mut() = *maker.affinity.get();
        }
        lock::unlock(&META);
    }

    /// Should it be cancelled now?
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.load(Acquire) & !cancel::ASYNC == cancel::PENDING
    }

    /// Should it be cancelled now, whatever it is doing?
    pub(crate) fn is_cancelled_anywhere(&self) -> bool {
        self.cancel.load(Acquire) == cancel::PENDING | cancel::ASYNC
    }

    /// Makes it look up from whatever it waits for.
    pub(crate) fn interrupt(&self) {
        if let Some(uthread) = self.uthread.get() {
            uthread.interrupt();
        }
    }

    /// The creator is done. The thread may have ended, and been freed, when this returns.
    pub(crate) fn publish(&self) {
        let word = &raw const self.published;
        self.published.store(1, Release);
        futex::wake(word, 1);
    }

    /// Gives up one of the two references: the thread's own, and that of whoever joins.
    pub(crate) fn release(&'static self) {
        if self.references.fetch_sub(1, AcqRel) == 1 {
            // SAFETY: made by Box::leak, and nobody refers to it any more.
            drop(unsafe { Box::from_raw(ptr::from_ref(self).cast_mut()) });
        }
    }
}
