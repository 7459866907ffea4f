//! With a simulated area: what a kernel does there is done by hand. A kernel that has the extension
//! is needed to see that it does so.

use super::*;
use crate::{Lock, TURN};
use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static AREA: &'static Area = Box::leak(Box::new(Area {
        cpu: [0; 2],
        section: 0,
        flags: AtomicU32::new(0),
        ids: [0; 2],
        request: AtomicU8::new(0),
        granted: AtomicU8::new(0),
        reserved: 0,
    }));
    static YIELDS: Cell<u32> = const { Cell::new(0) };
}

pub(super) fn simulated() -> &'static Area {
    AREA.with(|area| *area)
}

/// As the kernel does in `rseq_slice_yield`.
pub(super) fn yielded(area: &Area) {
    area.granted.store(0, Relaxed);
    YIELDS.set(YIELDS.get() + 1);
}

/// As the kernel does when it would preempt the thread. False: it preempts it.
fn preempts() -> bool {
    let area = simulated();
    let granted = area.request.swap(0, Relaxed) != 0;
    area.granted.store(u8::from(granted), Relaxed);
    !granted
}

/// Locks use the extension meanwhile, and this thread has it.
fn used_by(f: impl FnOnce()) {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let area = simulated();
    area.flags.store(ENABLED, Relaxed);
    USED.store(true, Relaxed);
    f();
    USED.store(false, Relaxed);
}

#[test]
fn a_holder_asks_and_takes_it_back() {
    used_by(|| {
        let lock = Lock::new();
        assert!(preempts(), "nothing was asked");
        lock.lock();
        assert_eq!(simulated().request.load(Relaxed), 1);
        // SAFETY: held.
        unsafe { lock.unlock() };
        assert_eq!(simulated().request.load(Relaxed), 0);
        assert_eq!(YIELDS.get(), 0, "nothing was granted");
    });
}

#[test]
fn who_was_granted_time_gives_the_cpu_away_at_the_end() {
    used_by(|| {
        let (outer, inner) = (Lock::new(), Lock::new());
        outer.lock();
        assert!(!preempts());
        // Within a grant nothing more is asked for.
        assert!(inner.try_lock());
        assert_eq!(simulated().request.load(Relaxed), 0);
        // SAFETY: held.
        unsafe { inner.unlock() };
        assert_eq!(YIELDS.get(), 0, "the outer one is still held");
        // SAFETY: held.
        unsafe { outer.unlock() };
        assert_eq!((YIELDS.get(), simulated().granted.load(Relaxed)), (1, 0));
    });
}

#[test]
fn who_waits_asks_for_nothing() {
    used_by(|| {
        let lock = Lock::new();
        lock.lock();
        std::thread::scope(|s| {
            s.spawn(|| {
                simulated().flags.store(ENABLED, Relaxed);
                assert!(!lock.try_lock());
                assert!(preempts());
                assert!(!lock.try_lock_for(Duration::from_millis(1)));
                assert!(preempts());
            });
        });
        // SAFETY: held.
        unsafe { lock.unlock() };
    });
}

#[test]
fn a_thread_that_is_refused_locks_all_the_same() {
    used_by(|| {
        simulated().flags.store(0, Relaxed);
        let lock = Lock::new();
        lock.lock();
        assert!(preempts());
        // SAFETY: held.
        unsafe { lock.unlock() };
        assert!(!lock.is_locked());
    });
}

/// What `possible` says is what the kernel says.
#[test]
fn it_is_found_where_it_is() {
    let found = possible();
    // SAFETY: numbers only.
    let answer = unsafe { libc::prctl(PR_RSEQ_SLICE_EXTENSION, 1, 0, 0, 0) };
    println!("slice extension: {found:?}");
    assert_eq!(found.is_ok(), answer == 1, "{found:?}, the kernel says {answer}");
}

#[test]
fn a_refusal_is_explained() {
    assert_eq!(refusal(libc::EINVAL, 33), NoExtension::Kernel);
    assert_eq!(refusal(ENOTSUPP, 20), NoExtension::OldGlibc);
    assert_eq!(refusal(ENOTSUPP, 33), NoExtension::Refused(ENOTSUPP));
}
