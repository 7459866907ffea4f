//! Mutexes that are robust *and* process-shared: other processes, which know nothing of user
//! threads, may lock them too.
//!
//! # What the kernel knows
//!
//! ```text
//!   mutex   0 word: owner's kernel thread | WAITERS | OWNER_DIED
//!           4 count   8 owner   12 users   16 kind   32 next
//!   head of a kernel thread's list -> next of a mutex -> next of another -> head
//!           (futex(2), set_robust_list(2))
//! ```
//!
//! When a kernel thread ends, the kernel walks its list; where the word names that kernel thread it
//! says `OWNER_DIED` and wakes somebody. So the word must name a kernel thread in whose list the
//! mutex is and that lives as long as the owner may. A user thread has none of its own: it moves,
//! and the kernel threads that carry it outlive it or end before it.
//!
//! # What is done
//!
//! All such mutexes that this process has locked belong, to the kernel, to its *keeper*: the
//! process's first kernel thread, which runs no user thread and ends with the process (in the child
//! of a fork, its only thread). It registers a list of ours in place of the C library's. Which user
//! thread has locked one is written down in a table here.
//!
//! * The process dies: so does the keeper, and the kernel does the rest.
//! * A user thread ends: [`abandon_all`] does what the kernel would do.
//! * The list and its `pending` entry belong to whoever holds the table's lock; so the kernel finds
//!   them in order at any time.
//! * Who waits does so in the kernel, outside the workers, on a kernel thread whose own `pending`
//!   entry names the mutex meanwhile: if the process dies when it has been woken, the kernel wakes
//!   another in its place.
//!
//! The fields' values are those of the C library, so that processes with and without the shim share
//! mutexes.

use crate::io::off_worker;
use crate::say::{Once, once};
use crate::state::{self, Thread};
use crate::sys::{call, kernel_tid};
use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering::*};
use libc::{clockid_t, pthread_mutex_t, timespec};
use quaver::foreign::futex::Limits;
use quaver::foreign::lock as word_lock;

#[repr(C)]
struct Mutex {
    word: AtomicU32,
    count: AtomicU32,
    owner: AtomicU32,
    users: AtomicU32,
    kind: AtomicI32,
    spins: u32,
    previous: usize,
    next: AtomicUsize,
}

/// `struct robust_list_head`.
#[repr(C)]
struct Head {
    list: AtomicUsize,
    offset: isize,
    pending: AtomicUsize,
}

/// From `next` to the word.
const OFFSET: isize =
    core::mem::offset_of!(Mutex, word) as isize - core::mem::offset_of!(Mutex, next) as isize;

const TYPE: i32 = 3;
const RECURSIVE: i32 = 1;
const ERRORCHECK: i32 = 2;

const WAITERS: u32 = libc::FUTEX_WAITERS;
const OWNER_DIED: u32 = libc::FUTEX_OWNER_DIED;
const TID: u32 = libc::FUTEX_TID_MASK;

/// Values of `owner`: a new owner has not said that the state is consistent; nobody did.
const INCONSISTENT: u32 = i32::MAX as u32;
const LOST: u32 = i32::MAX as u32 - 1;

/// The keeper's list.
static HEAD: Head =
    Head { list: AtomicUsize::new(0), offset: OFFSET, pending: AtomicUsize::new(0) };
/// The keeper; 0: there is none.
static KEEPER: AtomicU32 = AtomicU32::new(0);

/// The kernel thread that the mutexes belong to.
#[derive(Clone, Copy)]
struct Keeper {
    tid: u32,
}

#[derive(Default)]
struct Table {
    /// (the owner's number, the mutex)
    held: Vec<(u32, usize)>,
}

struct Shared(UnsafeCell<Table>);

// SAFETY: under `GUARD`.
unsafe impl Sync for Shared {}

static TABLE: Shared = Shared(UnsafeCell::new(Table { held: Vec::new() }));
static GUARD: AtomicU32 = AtomicU32::new(word_lock::FREE);

/// The table, locked. A thread that is preempted here keeps other user threads waiting as user
/// threads.
fn with<T>(f: impl FnOnce(&mut Table) -> T) -> T {
    word_lock::lock(&GUARD, &Limits::NONE);
    // SAFETY: the lock is held.
    let result = f(unsafe { &mut *TABLE.0.get() });
    word_lock::unlock(&GUARD);
    result
}

/// The calling kernel thread, which lives as long as the process, is the keeper from now on.
pub(crate) fn be_keeper() {
    let end = &raw const HEAD.list as usize;
    HEAD.list.store(end, Relaxed);
    HEAD.pending.store(0, Relaxed);
    let args = [&raw const HEAD as usize, size_of::<Head>(), 0, 0, 0, 0];
    // SAFETY: a list without entries, which is there for ever.
    let registered = unsafe { call(libc::SYS_set_robust_list, args) } == 0;
    KEEPER.store(if registered { kernel_tid() as u32 } else { 0 }, Release);
}

/// In the child of a fork, which owns none of its parent's mutexes and is a keeper of its own.
pub(crate) fn in_child() {
    // SAFETY: there is no other thread. What the parent's thread was doing to the table is not
    // known, so it is not freed.
    unsafe { TABLE.0.get().write(Table::default()) };
    GUARD.store(word_lock::FREE, Relaxed);
    be_keeper();
}

/// The list of the calling kernel thread.
fn own_list() -> Option<&'static Head> {
    let (mut head, mut length) = (0usize, 0usize);
    // SAFETY: writes the two words; the list is there for as long as the kernel thread.
    unsafe {
        let args = [0, &raw mut head as usize, &raw mut length as usize, 0, 0, 0];
        let found = call(libc::SYS_get_robust_list, args) == 0;
        (head as *const Head).as_ref().filter(|head| found && head.offset == OFFSET)
    }
}

impl Keeper {
    fn find() -> Option<Keeper> {
        let tid = KEEPER.load(Acquire);
        if tid == 0 {
            once(
                Once::Robust,
                format_args!(
                    "mutexes that are robust and process-shared cannot be used here: before main, \
                     or without set_robust_list (ENOTSUP)"
                ),
            );
        }
        (tid != 0).then_some(Keeper { tid })
    }

    /// Something is about to happen to `m`, or nothing any more.
    fn announce(self, m: Option<&Mutex>) {
        HEAD.pending.store(m.map_or(0, |m| &raw const m.next as usize), SeqCst);
    }

    fn enqueue(self, m: &Mutex) {
        m.next.store(HEAD.list.load(Relaxed), SeqCst);
        HEAD.list.store(&raw const m.next as usize, SeqCst);
    }

    fn dequeue(self, m: &Mutex) {
        let mut at = &HEAD.list;
        let end = &raw const HEAD.list as usize;
        while at.load(Relaxed) != end {
            if at.load(Relaxed) == &raw const m.next as usize {
                at.store(m.next.load(Relaxed), SeqCst);
                return;
            }
            // SAFETY: the `next` of a mutex that is locked, hence exists.
            at = unsafe { &*(at.load(Relaxed) as *const AtomicUsize) };
        }
    }
}

/// What an attempt came to.
enum Attempt {
    /// 0 or an error.
    Over(c_int),
    /// The word has this value, which says that somebody waits.
    Wait(u32),
}

impl Table {
    fn holds(&self, me: u32, m: &Mutex) -> bool {
        self.held.contains(&(me, core::ptr::from_ref(m) as usize))
    }

    fn forget(&mut self, m: &Mutex) {
        let at = core::ptr::from_ref(m) as usize;
        self.held.retain(|&(_, held)| held != at);
    }

    /// Tries to lock. `sharing`: [`WAITERS`] if the caller has waited, for others may have been
    /// waiting with it.
    fn attempt(&mut self, m: &Mutex, me: u32, sharing: u32, waits: bool) -> Attempt {
        let Some(keeper) = Keeper::find() else { return Attempt::Over(libc::ENOTSUP) };
        keeper.announce(Some(m));
        let result = self.announced(keeper, m, me, sharing, waits);
        keeper.announce(None);
        result
    }

    fn announced(
        &mut self,
        keeper: Keeper,
        m: &Mutex,
        me: u32,
        sharing: u32,
        waits: bool,
    ) -> Attempt {
        let mut word = m.word.load(Relaxed);
        loop {
            let dead = word & OWNER_DIED != 0;
            if word == 0 || dead {
                let new = keeper.tid | word & WAITERS | sharing;
                if let Err(now) = m.word.compare_exchange(word, new, AcqRel, Relaxed) {
                    word = now;
                    continue;
                }
                if !dead && m.owner.load(Relaxed) == LOST {
                    release(m);
                    return Attempt::Over(libc::ENOTRECOVERABLE);
                }
                m.count.store(1, Relaxed);
                keeper.enqueue(m);
                self.held.push((me, core::ptr::from_ref(m) as usize));
                if dead {
                    // The dead one is among the users still.
                    m.owner.store(INCONSISTENT, Relaxed);
                    return Attempt::Over(libc::EOWNERDEAD);
                }
                m.owner.store(keeper.tid, Relaxed);
                m.users.fetch_add(1, Relaxed);
                return Attempt::Over(0);
            }
            if word & TID == keeper.tid && self.holds(me, m) {
                match m.kind.load(Relaxed) & TYPE {
                    RECURSIVE => return Attempt::Over(deeper(m)),
                    ERRORCHECK if waits => return Attempt::Over(libc::EDEADLK),
                    _ => {}
                }
            }
            if !waits {
                return Attempt::Over(libc::EBUSY);
            }
            match m.word.compare_exchange(word, word | WAITERS, AcqRel, Relaxed) {
                Ok(_) => return Attempt::Wait(word | WAITERS),
                Err(now) => word = now,
            }
        }
    }

    fn unlock(&mut self, m: &Mutex, me: u32) -> c_int {
        let Some(keeper) = Keeper::find() else { return libc::ENOTSUP };
        if m.word.load(Relaxed) & TID != keeper.tid || !self.holds(me, m) {
            return libc::EPERM;
        }
        let depth = m.count.load(Relaxed);
        if m.kind.load(Relaxed) & TYPE == RECURSIVE && depth > 1 {
            m.count.store(depth - 1, Relaxed);
            return 0;
        }
        keeper.announce(Some(m));
        keeper.dequeue(m);
        let lost = m.owner.load(Relaxed) == INCONSISTENT;
        m.owner.store(if lost { LOST } else { 0 }, Relaxed);
        m.count.store(0, Relaxed);
        m.users.fetch_sub(1, Relaxed);
        self.forget(m);
        release(m);
        keeper.announce(None);
        0
    }
}

fn deeper(m: &Mutex) -> c_int {
    match m.count.load(Relaxed).checked_add(1) {
        Some(depth) => {
            m.count.store(depth, Relaxed);
            0
        }
        None => libc::EAGAIN,
    }
}

fn release(m: &Mutex) {
    if m.word.swap(0, AcqRel) & WAITERS != 0 {
        wake(m);
    }
}

/// Wakes one thread of whatever process.
fn wake(m: &Mutex) {
    let args = [m.word.as_ptr() as usize, libc::FUTEX_WAKE as usize, 1, 0, 0, 0];
    // SAFETY: wakes by address.
    unsafe { call(libc::SYS_futex, args) };
}

/// Waits in the kernel while the word has the value `word`. `false`: the time has come.
fn wait(m: &Mutex, word: u32, until: Option<(clockid_t, &timespec)>) -> bool {
    let (clock, at) = until.map_or((0, 0), |(clock, at)| (clock, at as *const timespec as usize));
    let mut operation = libc::FUTEX_WAIT_BITSET as usize;
    if clock == libc::CLOCK_REALTIME {
        operation |= libc::FUTEX_CLOCK_REALTIME as usize;
    }
    let all = libc::FUTEX_BITSET_MATCH_ANY as u32 as usize;
    off_worker(|| {
        // Of the kernel thread that carries the caller until it has returned.
        let own = own_list();
        let announce = |at: usize| own.inspect(|head| head.pending.store(at, SeqCst));
        announce(&raw const m.next as usize);
        let args = [m.word.as_ptr() as usize, operation, word as usize, at, 0, all];
        // SAFETY: waits by address; the time is valid.
        let r = unsafe { call(libc::SYS_futex, args) };
        announce(0);
        r != -(libc::ETIMEDOUT as isize)
    })
}

unsafe fn of<'a>(m: *mut pthread_mutex_t) -> &'a Mutex {
    // SAFETY: the caller's mutex.
    unsafe { &*m.cast::<Mutex>() }
}

/// Can such a mutex be used here? 0 or an error.
pub(crate) fn check() -> c_int {
    if Keeper::find().is_some() { 0 } else { libc::ENOTSUP }
}

/// `pthread_mutex_lock`, with a limit.
///
/// # Safety
///
/// As there; `until` is valid.
pub(crate) unsafe fn lock(m: *mut pthread_mutex_t, until: Option<(clockid_t, &timespec)>) -> c_int {
    // SAFETY: the caller's contract.
    let (m, me) = (unsafe { of(m) }, state::my_number());
    let mut sharing = 0;
    loop {
        match with(|table| table.attempt(m, me, sharing, true)) {
            Attempt::Over(result) => return result,
            Attempt::Wait(word) => {
                let valid = until.is_none_or(|(clock, at)| {
                    matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC)
                        && (0..1_000_000_000).contains(&at.tv_nsec)
                });
                if !valid {
                    return libc::EINVAL;
                }
                sharing = WAITERS;
                if !wait(m, word, until) {
                    return libc::ETIMEDOUT;
                }
            }
        }
    }
}

/// `pthread_mutex_trylock`.
///
/// # Safety
///
/// As there.
pub(crate) unsafe fn try_lock(m: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    let m = unsafe { of(m) };
    match with(|table| table.attempt(m, state::my_number(), 0, false)) {
        Attempt::Over(result) => result,
        Attempt::Wait(_) => libc::EBUSY,
    }
}

/// `pthread_mutex_unlock`.
///
/// # Safety
///
/// As there.
pub(crate) unsafe fn unlock(m: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    let m = unsafe { of(m) };
    with(|table| table.unlock(m, state::my_number()))
}

/// `pthread_mutex_consistent`.
///
/// # Safety
///
/// As there.
pub(crate) unsafe fn make_consistent(m: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    let m = unsafe { of(m) };
    with(|_| match Keeper::find() {
        Some(keeper) if m.owner.load(Relaxed) == INCONSISTENT => {
            m.owner.store(keeper.tid, Relaxed);
            0
        }
        _ => libc::EINVAL,
    })
}

/// The thread ends: whoever locks its mutexes next, in whatever process, is told.
pub(crate) fn abandon_all(t: &Thread) {
    if KEEPER.load(Relaxed) == 0 {
        return;
    }
    with(|table| {
        let Some(keeper) = Keeper::find() else { return };
        table.held.retain(|&(owner, at)| {
            if owner != t.number {
                return true;
            }
            // SAFETY: a locked mutex exists.
            let m = unsafe { &*(at as *const Mutex) };
            keeper.announce(Some(m));
            keeper.dequeue(m);
            let before = m.word.load(Relaxed);
            // Others only add WAITERS to the word of a mutex that is locked.
            let died = m.word.fetch_update(AcqRel, Relaxed, |w| Some(w & WAITERS | OWNER_DIED));
            if died.unwrap_or(before) & WAITERS != 0 {
                wake(m);
            }
            keeper.announce(None);
            false
        });
    });
}
