//! Threads without TLS blocks of their own: they use those of the carriers.
//!
//! Then `fs` is never written, a thread's memory is its stack alone, and starting and ending a
//! thread leaves TLS as it is. What is said of thread-locals elsewhere does not hold: a variable
//! belongs to the worker that happens to run the thread, and changes its owner and value whenever
//! the thread is preempted or waits. The rules for programs are in the book (`docs/preemption.md`).
//!
//! Three things of Rust's standard library must be right in spite of that, or `join` of a panicked
//! thread and `println!` would not work. They move with the thread, as the stack pointer does:
//!
//! * the count of panics under way, with the flag that the panic hook runs: two words. Else a
//!   thread that is switched out while it unwinds would make others abort as if they had panicked
//!   twice;
//! * the thread's number, by which `std`'s locks for one thread (that of standard output) know
//!   their owner;
//! * the handle behind `std::thread::current`, with which threads park.
//!
//! A thread that has the address of a thread-local variable in a register is not preempted
//! ([`is_bound`]): on another carrier that would be somebody else's variable. So `std` always finds
//! its words, which it reads and writes in a few instructions; but it makes the handle with the
//! address on the stack, and says so in the word: such a thread is not preempted either. In other
//! code with more to do the address may lie on the stack, where nobody sees it.
//!
//! Where these words are is found by trying, once ([`Words::find`]): in a thread that is made for
//! it they take known values at known times. A standard library where that does not succeed is
//! refused when the runtime is built.

use crate::arch::segment;
use crate::preempt;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::thread::Thread;

/// Why user threads cannot share TLS blocks here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "threads cannot share thread-local storage with this version of Rust's standard library: its \
     {0} was not found; use private thread-local storage"
)]
pub struct Unshareable(&'static str);

/// Distances from the thread pointer down to the words of the standard library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Words {
    panics: usize,
    current: usize,
    id: usize,
}

/// The words' distances, set once and before any thread shares.
static PANICS: AtomicUsize = AtomicUsize::new(0);
static CURRENT: AtomicUsize = AtomicUsize::new(0);
static ID: AtomicUsize = AtomicUsize::new(0);

/// How far static TLS reaches below and above the thread pointer.
static BELOW: AtomicUsize = AtomicUsize::new(0);
const ABOVE: usize = 64;

/// From the handle's representation to the word that `std` keeps of it: an `Arc`'s counters.
const ARC_HEADER: usize = 2 * size_of::<usize>();
/// Values of the word that are no handle: none, being made, destroyed.
const BEING_MADE: usize = 1;
const NO_HANDLE: usize = 2;

/// What moves with a thread.
#[derive(Clone, Copy, Default)]
pub(crate) struct SharedWords {
    panics: [usize; 2],
    current: usize,
    id: usize,
}

/// Finds the words; needed before any thread shares.
///
/// # Errors
///
/// [`Unshareable`] says what was not found.
pub(crate) fn prepare() -> Result<(), Unshareable> {
    static FOUND: OnceLock<Result<Words, Unshareable>> = OnceLock::new();
    let words = FOUND.get_or_init(Words::find).clone()?;
    PANICS.store(words.panics, Relaxed);
    CURRENT.store(words.current, Relaxed);
    ID.store(words.id, Relaxed);
    BELOW.store(8 * static_words(), Relaxed);
    Ok(())
}

impl Words {
    fn find() -> Result<Words, Unshareable> {
        let trial = || std::thread::spawn(Trial::run).join().map_err(|_| Unshareable("trial"));
        let (a, b) = (trial()?, trial()?);
        let one = |what, of: fn(&Trial) -> &Vec<usize>| {
            let mut both = of(&a).iter().filter(|d| of(&b).contains(d));
            match (both.next(), both.next()) {
                (Some(&d), None) => Ok(d),
                _ => Err(Unshareable(what)),
            }
        };
        Ok(Words {
            panics: one("count of panics", |t| &t.panics)?,
            current: one("handle of the thread", |t| &t.current)?,
            id: one("number of the thread", |t| &t.id)?,
        })
    }
}

/// Where the words may be, as seen by one thread.
struct Trial {
    panics: Vec<usize>,
    current: Vec<usize>,
    id: Vec<usize>,
}

impl Trial {
    /// On a fresh thread.
    fn run() -> Trial {
        const _: () = assert!(size_of::<Thread>() == size_of::<usize>());
        let look = || -> Vec<usize> {
            let tp = segment::fs_base();
            // SAFETY: static TLS of the main program lies below the thread pointer.
            (1..=static_words()).map(|i| unsafe { read(tp - 8 * i) }).collect()
        };
        let mut panics: Option<Vec<usize>> = None;
        // More than once, so that what is initialised on the first unwinding does not look like the
        // count.
        for _ in 0..3 {
            struct Look<'a, F: Fn() -> Vec<usize>>(&'a F, &'a mut Vec<usize>);
            impl<F: Fn() -> Vec<usize>> Drop for Look<'_, F> {
                fn drop(&mut self) {
                    *self.1 = (self.0)();
                }
            }
            let before = look();
            let mut during = Vec::new();
            let unwound = catch_unwind(AssertUnwindSafe(|| {
                let _look = Look(&look, &mut during);
                resume_unwind(Box::new(()));
            }));
            let after = look();
            let counts = |i: usize| (before[i], during[i], after[i]) == (0, 1, 0);
            let mut found: Vec<usize> = (0..before.len())
                .filter(|&i| unwound.is_err() && counts(i))
                .map(|i| 8 * (i + 1))
                .collect();
            if let Some(earlier) = &panics {
                found.retain(|d| earlier.contains(d));
            }
            panics = Some(found);
        }
        let thread = std::thread::current();
        // SAFETY: `ThreadId` is a 64-bit number, `Thread` a pointer; sizes are checked by the
        // compiler.
        let (id, handle) = unsafe {
            (
                core::mem::transmute::<std::thread::ThreadId, u64>(thread.id()) as usize,
                core::mem::transmute_copy::<Thread, usize>(&thread),
            )
        };
        let words = look();
        let with = |value: usize| {
            (0..words.len()).filter(|&i| words[i] == value).map(|i| 8 * (i + 1)).collect()
        };
        Trial {
            panics: panics.unwrap_or_default(),
            current: with(handle + ARC_HEADER),
            id: with(id),
        }
    }
}

/// Words of static TLS that may be looked at: those of the main program, which come first below the
/// thread pointer, where the standard library is linked statically; all others are looked at, too,
/// as far as they are mapped with them.
fn static_words() -> usize {
    super::static_tls().map_or(0, |(below, align)| below.saturating_sub(align) / 8)
}

#[inline(always)]
unsafe fn read(at: usize) -> usize {
    // SAFETY: the caller's.
    unsafe { (at as *const usize).read_volatile() }
}

/// The calling thread's words.
///
/// # Safety
///
/// [`prepare`] has succeeded.
#[inline(always)]
pub(crate) unsafe fn save() -> SharedWords {
    let tp = segment::fs_base();
    let (panics, current, id) = (PANICS.load(Relaxed), CURRENT.load(Relaxed), ID.load(Relaxed));
    // SAFETY: words of static TLS.
    unsafe {
        SharedWords {
            panics: [read(tp - panics), read(tp - panics + 8)],
            current: read(tp - current),
            id: read(tp - id),
        }
    }
}

/// Puts the calling thread's words where it runs now.
///
/// # Safety
///
/// As for [`save`]; what is there is nobody's, or has been saved.
#[inline(always)]
pub(crate) unsafe fn restore(saved: SharedWords) {
    let tp = segment::fs_base();
    let (panics, current, id) = (PANICS.load(Relaxed), CURRENT.load(Relaxed), ID.load(Relaxed));
    let write = |at: usize, value: usize| {
        // SAFETY: words of static TLS.
        unsafe { (at as *mut usize).write_volatile(value) }
    };
    write(tp - panics, saved.panics[0]);
    write(tp - panics + 8, saved.panics[1]);
    write(tp - current, saved.current);
    write(tp - id, saved.id);
}

/// Must the calling thread, which has been interrupted with these registers, stay on its carrier?
/// One of them points into the TLS block, or `std` makes the thread's handle. Async-signal-safe.
pub(crate) fn is_bound(registers: &[libc::greg_t]) -> bool {
    // SAFETY: a word of static TLS.
    let current = unsafe { read(segment::fs_base() - CURRENT.load(Relaxed)) };
    current == BEING_MADE || holds_address(registers)
}

fn holds_address(registers: &[libc::greg_t]) -> bool {
    let lowest = segment::fs_base() - BELOW.load(Relaxed);
    let length = BELOW.load(Relaxed) + ABOVE;
    registers.iter().any(|&r| (r as usize).wrapping_sub(lowest) < length)
}

/// Where the mark of attached blocks lies, below the thread pointer; `None` if it is outside static
/// TLS.
pub(crate) fn mark_below_tp() -> Option<usize> {
    let below = segment::fs_base().wrapping_sub(crate::thread::raw::attached_mark() as usize);
    Some(below).filter(|&d| d <= BELOW.load(Relaxed))
}

/// The calling thread begins: it has no words yet.
///
/// # Safety
///
/// As for [`restore`].
pub(crate) unsafe fn begin() {
    // SAFETY: the caller's contract.
    unsafe { restore(SharedWords::default()) }
}

/// The calling thread ends: what it gets is its handle, to be dropped where it may free memory.
///
/// # Safety
///
/// As for [`save`], with preemption disabled.
pub(crate) unsafe fn end() -> Option<Thread> {
    preempt::assert_disabled();
    // SAFETY: the caller's contract; the handle is an `Arc` of the standard library that the word
    // owned.
    unsafe {
        let saved = save();
        begin();
        (saved.current > NO_HANDLE)
            .then(|| core::mem::transmute::<usize, Thread>(saved.current - ARC_HEADER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_noticed() {
        use std::cell::Cell;
        thread_local!(static MINE: Cell<u64> = const { Cell::new(5) });
        prepare().unwrap();
        let address = MINE.with(|m| m.as_ptr() as i64);
        let local = 0u64;
        assert!(holds_address(&[0, 7, address, -1]));
        assert!(holds_address(&[segment::fs_base() as i64]));
        assert!(!holds_address(&[0, 7, -1, &raw const local as i64]));
        assert!(!std::thread::spawn(move || holds_address(&[address])).join().unwrap());
    }

    #[test]
    fn a_thread_whose_handle_is_being_made_is_bound() {
        prepare().unwrap();
        let local = 0u64;
        let registers = [0, &raw const local as i64];
        std::thread::spawn(move || {
            assert!(!is_bound(&registers));
            // SAFETY: prepared; what is there is saved and put back.
            let bound = unsafe {
                let saved = save();
                restore(SharedWords { current: BEING_MADE, ..saved });
                let bound = is_bound(&registers);
                restore(saved);
                bound
            };
            assert!(bound && !is_bound(&registers));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn words_are_found_and_can_be_exchanged() {
        prepare().unwrap();
        std::thread::spawn(|| {
            let mine = std::thread::current().id();
            // SAFETY: prepared; what is there is saved and put back.
            unsafe {
                let saved = save();
                begin();
                let other = std::thread::current().id();
                assert_ne!(other, mine);
                assert_eq!(std::thread::current().id(), other);
                drop(end());
                restore(saved);
            }
            assert_eq!(std::thread::current().id(), mine);
            struct Look(usize);
            impl Drop for Look {
                fn drop(&mut self) {
                    // SAFETY: as above.
                    self.0 = unsafe { save() }.panics[0];
                    assert_eq!(self.0, 1);
                    // SAFETY: as above.
                    unsafe {
                        let saved = save();
                        begin();
                        assert!(catch_unwind(|| resume_unwind(Box::new(1))).is_err());
                        restore(saved);
                    }
                    assert!(std::thread::panicking());
                }
            }
            let unwound = catch_unwind(|| {
                let _look = Look(0);
                resume_unwind(Box::new(()));
            });
            assert!(unwound.is_err());
        })
        .join()
        .unwrap();
    }
}
