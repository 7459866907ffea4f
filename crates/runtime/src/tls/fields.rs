//! What makes a thread complete to glibc: the fields of `struct pthread`, and who gives them their
//! values.
//!
//! `pthread_create` and `start_thread` fill a descriptor that everything in libc relies on. A user
//! thread's is filled here. Below: the fields in their order, from glibc 2.34 to 2.43; *found* says
//! how their place is learnt.
//!
//! | field | libc needs it for | a user thread's | found |
//! |---|---|---|---|
//! | `header` (`tcbhead_t`) | `pthread_self`, TLS, stack protector, pointer mangling | its own addresses, the process's guards, "several threads" | psABI |
//! | `list` | `dlopen`, children of forks | linked to itself, or in libc's list ([`list`](super::list)) | libthread_db |
//! | `tid` | owners of mutexes and read-write locks | a [number](super::number) that no kernel thread and no other process uses | libthread_db, and must be `gettid` |
//! | `robust_prev`, `robust_head` | robust mutexes | an empty list; what is on it at the end is [abandoned](Fields::abandon) | `get_robust_list`, and must be empty |
//! | `cleanup`, `cleanup_jmp_buf` | `pthread_exit` | none: a user thread ends by returning | |
//! | `cancelhandling`, `cancelstate` (some of 2.34 and 2.35) | `pthread_cancel` | cancellation disabled: libc cannot end a user thread | the only byte that obeys `pthread_setcancelstate` |
//! | `flags` | `pthread_getschedparam` | "policy and priority are known" | follows `cancelhandling`, and must obey `pthread_getschedparam` |
//! | `specific_1stblock`, `specific`, `specific_used` | `pthread_setspecific` | empty, the first pointer set | libthread_db, [tried](super::keys) |
//! | `report_events`, `eventbuf`, `nextevent` | debuggers | zero: no events | |
//! | `user_stack`, `stack_mode` (2.42) | freeing and protecting stacks of its own | zero: libc frees only what is in its lists | |
//! | `stopped_start`, `setup_failed`, `lock`, `setxid_futex` | starting, locking the descriptor | zero: started, free | |
//! | `joinid` | `pthread_join`, `pthread_detach` | itself: detached, so joining is `EINVAL` and not endless | the only word that is the address of a detached thread |
//! | `joinstate` (2.43, for `joinid`) | the same | 3: detached | the only word that `pthread_detach` makes 3 |
//! | `result`, `start_routine`, `arg`, `exc`, `sigmask`, `c11` | starting and ending | zero | |
//! | `schedparam`, `schedpolicy` | `pthread_getschedparam` | zero: `SCHED_OTHER` | |
//! | `stackblock`, `stackblock_size`, `guardsize`, `reported_guardsize` | `pthread_getattr_np` | the thread's region | by their values in a thread of known size |
//! | `tpp` | `PTHREAD_PRIO_PROTECT` | zero; such mutexes fail with `ESRCH` on user threads, which have no priorities | |
//! | `res`, and the variable `__resp` | the resolver | its own state, closed at the end | `__res_state`, and `__resp` must point there |
//! | `exiting`, `exit_lock` (2.35) | `pthread_kill` | zero: alive | |
//! | `rtld_catch`, `tls_state`, `getrandom_buf` (2.41) | caches | zero; kept for the next thread on the block | |
//! | `rseq_area` (2.35; 2.41: static TLS) | `sched_getcpu` | not registered: the kernel is asked | `__rseq_offset` |
//!
//! Besides, `start_thread` sets the pointers to the locale's tables (`__ctype_init`).
//!
//! The list of robust mutexes is not the kernel's list of the carrier, because the thread moves. So
//! the kernel does not see it: if the *process* dies, processes that share a robust mutex with it
//! are not told. `quaver run` can do that.
//!
//! # Nothing is guessed
//!
//! The offsets are found once, on a kernel thread that is made for it ([`Fields::find`]): known
//! values must be where they are expected. A glibc where one is not is refused when the runtime is
//! built; the error names the field and the version.

use super::functions::Functions;
use super::{Unsupported, descriptors, symbol};
use crate::arch::segment;
use crate::kernel_thread;
use crate::sys;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering::*};

/// `struct robust_list_head`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RobustHead {
    list: usize,
    /// From an entry to the mutex's word.
    offset: isize,
    pending: usize,
}

/// From `__list.__next` to `__lock` in `pthread_mutex_t`.
const TO_WORD: isize = -32;

/// `stackblock` and what follows it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
struct StackFields {
    block: usize,
    size: usize,
    guard: usize,
    reported_guard: usize,
}

/// Size of `struct __res_state`.
const RES_STATE: usize = 568;
/// Its `options`, and `nscount`: 0 if the state was never initialised.
const RES_OPTIONS: usize = 8;
const RES_SERVERS: usize = 16;

/// Bits of `flags`: the scheduling parameters and the policy in the descriptor are right.
const SCHEDULING_KNOWN: u32 = 0x20 | 0x40;

/// Offsets in `struct pthread`.
pub(super) struct Fields {
    robust: usize,
    stack: usize,
    res: usize,
    /// Distance from `__resp` up to the thread pointer.
    resp_below_tp: usize,
    /// A byte: 1 in a thread that does not want to be cancelled.
    cancel: usize,
    flags: usize,
    detached: Detached,
    close_resolver: unsafe extern "C" fn(*mut c_void),
}

/// How a thread is marked as detached, and where.
enum Detached {
    /// By its own address.
    Address(usize),
    /// By the number [`DETACHED`].
    State(usize),
}

const JOINABLE: u32 = 2;
const DETACHED: u32 = 3;

/// What the thread on which [`Fields`] are looked for is given, and where it leaves them.
struct Probe {
    size: usize,
    tid: usize,
    flags: usize,
    /// What the kernel changes at any time.
    rseq: core::ops::Range<usize>,
    /// Room for what the descriptor was, because nothing is allocated on that thread.
    before: core::cell::UnsafeCell<Vec<u8>>,
    resp_below_tp: usize,
    libc: Functions,
    found: core::cell::UnsafeCell<Result<Fields, &'static str>>,
    /// A futex word: 1 when `found` is there.
    done: AtomicU32,
}

/// Guard of the probing thread: a size that nothing else has.
const GUARD: usize = 5 * 4096;

impl Fields {
    /// Looks at a descriptor of `size` bytes, in which the thread's number is at `tid`. `rseq`:
    /// offset from the thread pointer.
    ///
    /// # Errors
    ///
    /// Names the field that is not where it should be.
    pub(super) fn find(
        size: usize,
        tid: usize,
        rseq: Option<isize>,
    ) -> Result<Fields, Unsupported> {
        let resp = symbol(c"__resp")? as usize;
        let flags = 4 + descriptors::offset(c"_thread_db_pthread_cancelhandling")
            .ok_or_else(|| Unsupported::no_field("cancellation state"))?;
        let rseq = rseq.and_then(|at| usize::try_from(at).ok()).map_or(0..0, |at| at..at + 32);
        // Leaked if the thread cannot be made, and never used by two.
        let probe = Box::leak(Box::new(Probe {
            size,
            tid,
            flags,
            rseq,
            before: core::cell::UnsafeCell::new(vec![0; size]),
            resp_below_tp: segment::fs_base().wrapping_sub(resp),
            libc: Functions::find()?,
            found: core::cell::UnsafeCell::new(Err("thread")),
            done: AtomicU32::new(0),
        }));
        // SAFETY: `run` has the type of a thread's function, and `probe` is there for ever.
        if !unsafe { start(probe) } {
            return Err(Unsupported::no_field("thread to look at (none could be started)"));
        }
        while probe.done.load(Acquire) == 0 {
            let _ = sys::futex_wait(&probe.done, 0, None);
        }
        core::mem::replace(probe.found.get_mut(), Err("")).map_err(Unsupported::no_field)
    }

    /// Completes the descriptor at `tp`, which is zeroed but for its TLS. `region`: its stack and
    /// everything around it, of which the lowest `guard` bytes cannot be used.
    ///
    /// # Safety
    ///
    /// The block is complete, and nobody uses it yet.
    pub(super) unsafe fn init(&self, tp: usize, region: core::ops::Range<usize>, guard: usize) {
        let head = tp + self.robust;
        // SAFETY: fields of the descriptor, and a variable in its static TLS.
        unsafe {
            (head as *mut RobustHead).write(RobustHead { list: head, offset: TO_WORD, pending: 0 });
            ((head - 8) as *mut usize).write(head);
            self.set_stack(tp, region, guard);
            ((tp + self.cancel) as *mut u8).write(1);
            ((tp + self.flags) as *mut u32).write(SCHEDULING_KNOWN);
            match self.detached {
                Detached::Address(at) => ((tp + at) as *mut usize).write(tp),
                Detached::State(at) => ((tp + at) as *mut u32).write(DETACHED),
            }
            ((tp - self.resp_below_tp) as *mut usize).write(tp + self.res);
        }
    }

    /// Says where the stack of the thread at `tp` is: `region`, of which the lowest `guard` bytes
    /// cannot be used.
    ///
    /// # Safety
    ///
    /// The descriptor of a user thread that does not run.
    pub(super) unsafe fn set_stack(
        &self,
        tp: usize,
        region: core::ops::Range<usize>,
        guard: usize,
    ) {
        let (block, size) = (region.start, region.end - region.start);
        let stack = StackFields { block, size, guard, reported_guard: guard };
        // SAFETY: the caller's contract.
        unsafe { ((tp + self.stack) as *mut StackFields).write(stack) };
    }

    /// Marks the robust mutexes that the calling thread holds as having lost their owner, as the
    /// kernel does it for a thread that ends.
    pub(super) fn abandon(&self, tp: usize, tid: u32) {
        let head = tp + self.robust;
        // SAFETY: the calling thread's own list.
        let mut at = unsafe { (*(head as *const RobustHead)).list };
        if at == head {
            return;
        }
        // As long as the kernel would follow it.
        for _ in 0..2048 {
            let entry = at & !1;
            if entry == head {
                break;
            }
            // SAFETY: the `__next` of a mutex that is locked, hence exists.
            at = unsafe { (entry as *const usize).read() };
            let word = entry.wrapping_add_signed(TO_WORD) as *const AtomicU32;
            // SAFETY: the word of that mutex.
            let word = unsafe { &*word };
            let died = word.fetch_update(AcqRel, Relaxed, |w| {
                let owned = w & libc::FUTEX_TID_MASK == tid;
                owned.then_some(w & libc::FUTEX_WAITERS | libc::FUTEX_OWNER_DIED)
            });
            if died.is_ok_and(|w| w & libc::FUTEX_WAITERS != 0) {
                sys::futex_wake_shared(word, 1);
            }
        }
        // SAFETY: as above.
        unsafe {
            (head as *mut RobustHead).write(RobustHead { list: head, offset: TO_WORD, pending: 0 });
        }
    }

    /// Gives the resolver's state of the calling thread back, if it was used.
    pub(super) fn end_resolver(&self, tp: usize) {
        let res = tp + self.res;
        // SAFETY: the calling thread's own state, which is used again as if it were new.
        unsafe {
            let initialised = ((res + RES_SERVERS) as *const i32).read() != 0;
            if initialised {
                (self.close_resolver)(res as *mut c_void);
            }
            if initialised || ((res + RES_OPTIONS) as *const u64).read() != 0 {
                core::ptr::write_bytes(res as *mut u8, 0, RES_STATE);
            }
        }
    }

    /// The stack of the thread at `tp`, with all that lies around it, and the size of its guard.
    ///
    /// # Safety
    ///
    /// The descriptor of a user thread.
    pub(super) unsafe fn stack(&self, tp: usize) -> (core::ops::Range<usize>, usize) {
        // SAFETY: the caller's contract.
        let s = unsafe { ((tp + self.stack) as *const StackFields).read() };
        (s.block + s.guard..s.block + s.size, s.guard)
    }
}

/// Starts a thread that looks at its own descriptor: detached, with a guard of known size, and no
/// signals.
///
/// # Safety
///
/// `probe` is nobody else's until `done` is set.
unsafe fn start(probe: &Probe) -> bool {
    extern "C" fn run(probe: *mut c_void) -> *mut c_void {
        // SAFETY: the argument given below, which is there for ever.
        let probe = unsafe { &*probe.cast::<Probe>() };
        let found = probe.look();
        // SAFETY: nobody else looks before `done`.
        unsafe { probe.found.get().write(found) };
        let word = &raw const probe.done;
        probe.done.store(1, Release);
        sys::futex_wake(word, 1);
        core::ptr::null_mut()
    }
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    let mut id = MaybeUninit::uninit();
    // SAFETY: attributes are initialised first and destroyed last; the signal set is complete.
    unsafe {
        let mut all: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_attr_init(attributes);
        libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setguardsize(attributes, GUARD);
        let argument = core::ptr::from_ref(probe).cast_mut().cast();
        let create = || libc::pthread_create(id.as_mut_ptr(), attributes, run, argument);
        let error = kernel_thread::without(&all, create);
        libc::pthread_attr_destroy(attributes);
        error == 0
    }
}

impl Probe {
    /// On a thread that was made for it.
    fn look(&self) -> Result<Fields, &'static str> {
        let tp = segment::fs_base();
        let word32 = |at: usize| {
            // SAFETY: within the calling thread's descriptor.
            unsafe { ((tp + at) as *const u32).read_volatile() }
        };
        if self.tid + 4 > self.size || word32(self.tid) as i32 != sys::gettid() {
            return Err("number of a thread (tid)");
        }
        let robust = self.robust(tp).ok_or("list of robust mutexes (robust_head)")?;
        let stack = self.stack(tp).ok_or("stack's bounds (stackblock)")?;
        // SAFETY: answers with an address.
        let res = (unsafe { (self.libc.res_state)() } as usize).wrapping_sub(tp);
        // SAFETY: a variable in static TLS, at the same distance in all blocks.
        let resp = unsafe { ((tp - self.resp_below_tp) as *const usize).read() };
        if res.saturating_add(RES_STATE) > self.size || resp != tp + res {
            return Err("state of the resolver (res)");
        }
        let cancel = self.cancel(tp).ok_or("cancellation state (cancelhandling)")?;
        let flags = self.flags;
        if flags + 4 > self.size {
            return Err("flags of a thread");
        }
        let (mut policy, mut parameter) = (0, MaybeUninit::uninit());
        // SAFETY: writes both.
        let known = unsafe {
            (self.libc.get_sched_param)(libc::pthread_self(), &mut policy, parameter.as_mut_ptr())
        };
        if known != 0
            || word32(flags) & SCHEDULING_KNOWN != SCHEDULING_KNOWN
            || word32(flags) > 0xff
        {
            return Err("flags of a thread");
        }
        let detached = self
            .joinid(tp)
            .map(Detached::Address)
            .or_else(|| self.joinstate(tp).map(Detached::State))
            .ok_or("mark of a detached thread (joinid, joinstate)")?;
        Ok(Fields {
            robust,
            stack,
            res,
            resp_below_tp: self.resp_below_tp,
            cancel,
            flags,
            detached,
            close_resolver: self.libc.close_resolver,
        })
    }

    /// Where the head of the list is that the kernel has been told of.
    fn robust(&self, tp: usize) -> Option<usize> {
        let (mut head, mut length) = (0usize, 0usize);
        // SAFETY: writes the two words.
        let r = unsafe {
            let (head, length) = (&raw mut head as u64, &raw mut length as u64);
            sys::syscall3(libc::SYS_get_robust_list, 0, head, length)
        };
        let at = head.wrapping_sub(tp);
        if r != 0 || length != size_of::<RobustHead>() || at < self.tid || at >= self.size - length
        {
            return None;
        }
        // SAFETY: within the descriptor.
        let (previous, now) =
            unsafe { (((head - 8) as *const usize).read(), (head as *const RobustHead).read()) };
        let empty = previous == head && now.list == head && now.pending == 0;
        (empty && now.offset == TO_WORD).then_some(at)
    }

    /// Where the bounds of the stack are that `pthread_getattr_np` tells.
    fn stack(&self, tp: usize) -> Option<usize> {
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        let (mut low, mut length, mut guard) = (core::ptr::null_mut(), 0, 0);
        // SAFETY: the attributes are used only if they were given, and destroyed.
        unsafe {
            let attributes = attributes.as_mut_ptr();
            if (self.libc.get_attr)(libc::pthread_self(), attributes) != 0 {
                return None;
            }
            libc::pthread_attr_getstack(attributes, &mut low, &mut length);
            libc::pthread_attr_getguardsize(attributes, &mut guard);
            libc::pthread_attr_destroy(attributes);
        }
        let is_there = |at: usize| {
            // SAFETY: within the descriptor.
            let s = unsafe { ((tp + at) as *const StackFields).read_volatile() };
            s.block.wrapping_add(s.size) == low as usize + length
                && s.size.wrapping_sub(s.guard) == length
                && s.reported_guard == guard
                && guard == GUARD
        };
        let from = self.tid.next_multiple_of(8);
        let mut all =
            (from..self.size - size_of::<StackFields>()).step_by(8).filter(|&at| is_there(at));
        all.next().filter(|_| all.next().is_none())
    }

    /// Which byte becomes 1 when cancellation is disabled, and 0 again.
    fn cancel(&self, tp: usize) -> Option<usize> {
        let byte = |at: usize| {
            // SAFETY: within the descriptor.
            unsafe { ((tp + at) as *const u8).read_volatile() }
        };
        // SAFETY: this thread's while it looks.
        let before = unsafe { &mut *self.before.get() };
        for (at, b) in before.iter_mut().enumerate() {
            *b = byte(at);
        }
        let mut state = 0;
        // SAFETY: changes the calling thread's own state.
        unsafe { (self.libc.set_cancel_state)(PTHREAD_CANCEL_DISABLE, &mut state) };
        let is_one = |at: &usize| (before[*at], byte(*at)) == (0, 1) && !self.rseq.contains(at);
        let mut all = (self.tid..self.size).filter(is_one);
        let found = all.next().filter(|_| all.next().is_none());
        // SAFETY: as above.
        unsafe { (self.libc.set_cancel_state)(state, core::ptr::null_mut()) };
        found.filter(|&at| byte(at) == 0)
    }

    /// Where a detached thread has its own address, behind the header.
    fn joinid(&self, tp: usize) -> Option<usize> {
        let from = self.tid.next_multiple_of(8);
        let mut all = (from..self.size - 8).step_by(8).filter(|&at| {
            // SAFETY: within the descriptor.
            unsafe { ((tp + at) as *const usize).read_volatile() == tp }
        });
        all.next().filter(|_| all.next().is_none())
    }

    /// Which word `pthread_detach` makes [`DETACHED`] where it was [`JOINABLE`]. It refuses to
    /// detach this thread, which is, as long as it is not that word that was changed.
    fn joinstate(&self, tp: usize) -> Option<usize> {
        let from = self.tid.next_multiple_of(4);
        (from..self.size - 4).step_by(4).filter(|at| !self.rseq.contains(at)).find(|&at| {
            let word = (tp + at) as *mut u32;
            // SAFETY: a word of the calling thread's descriptor, of which libc uses none meanwhile
            // but that by which it knows detached threads; it is as before afterwards.
            unsafe {
                if word.read_volatile() != DETACHED {
                    return false;
                }
                word.write_volatile(JOINABLE);
                let done = (self.libc.detach)(libc::pthread_self()) == 0;
                let found = done && word.read_volatile() == DETACHED;
                word.write_volatile(DETACHED);
                found
            }
        })
    }
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// A descriptor that is not what it is said to be is refused with the name of the field.
    #[test]
    fn an_unknown_layout_is_refused() {
        let l = super::super::layout().unwrap();
        let find = |size, tid| Fields::find(size, tid, None).err().map(|e| e.to_string());
        assert_eq!(find(l.above, l.tid_offset), None);
        let wrong = find(l.above, l.tid_offset + 4).unwrap();
        assert!(wrong.contains("(tid)"), "{wrong}");
        // Too short for all of it.
        let short = find(l.fields.stack, l.tid_offset).unwrap();
        assert!(short.contains("(stackblock)"), "{short}");
        let short = find(l.fields.res, l.tid_offset).unwrap();
        assert!(short.contains("(res)"), "{short}");
    }
}
