//! To glibc a user thread is a complete thread: what it keeps for each thread is there, and is the
//! thread's own.

mod support;

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use support::{Setup, child};

unsafe extern "C" {
    fn __res_state() -> *mut c_void;
    fn pthread_getaffinity_np(
        thread: libc::pthread_t,
        size: usize,
        set: *mut libc::cpu_set_t,
    ) -> c_int;
}

/// A mutex of C's with these attributes.
struct Pthread(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a mutex.
unsafe impl Sync for Pthread {}
// SAFETY: not moved once it is used.
unsafe impl Send for Pthread {}

/// Sets attributes of a mutex.
type Set = fn(*mut libc::pthread_mutexattr_t);

fn robust(a: *mut libc::pthread_mutexattr_t) {
    // SAFETY: initialised attributes.
    assert_eq!(unsafe { libc::pthread_mutexattr_setrobust(a, libc::PTHREAD_MUTEX_ROBUST) }, 0);
}

fn inherits(a: *mut libc::pthread_mutexattr_t) {
    // SAFETY: initialised attributes.
    assert_eq!(unsafe { libc::pthread_mutexattr_setprotocol(a, libc::PTHREAD_PRIO_INHERIT) }, 0);
}

fn shared_recursive(a: *mut libc::pthread_mutexattr_t) {
    // SAFETY: initialised attributes.
    unsafe {
        assert_eq!(libc::pthread_mutexattr_setpshared(a, libc::PTHREAD_PROCESS_SHARED), 0);
        assert_eq!(libc::pthread_mutexattr_settype(a, libc::PTHREAD_MUTEX_RECURSIVE), 0);
    }
}

/// # Safety
///
/// `mutex` is nobody's yet.
unsafe fn init(mutex: *mut libc::pthread_mutex_t, set: Set) {
    let mut attr = MaybeUninit::uninit();
    // SAFETY: the attributes are initialised first.
    unsafe {
        assert_eq!(libc::pthread_mutexattr_init(attr.as_mut_ptr()), 0);
        set(attr.as_mut_ptr());
        assert_eq!(libc::pthread_mutex_init(mutex, attr.as_ptr()), 0);
    }
}

impl Pthread {
    fn new(set: Set) -> Arc<Pthread> {
        let m = Arc::new(Pthread(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)));
        // SAFETY: new.
        unsafe { init(m.0.get(), set) };
        m
    }

    fn lock(&self) -> c_int {
        // SAFETY: initialised.
        unsafe { libc::pthread_mutex_lock(self.0.get()) }
    }

    fn unlock(&self) -> c_int {
        // SAFETY: initialised.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) }
    }

    fn make_consistent(&self) -> c_int {
        // SAFETY: initialised.
        unsafe { libc::pthread_mutex_consistent(self.0.get()) }
    }
}

/// Two threads that look names up at a time do not use each other's sockets.
#[test]
fn the_resolver_has_a_state_in_each_thread() {
    for setup in Setup::clocks(2) {
        setup.run(|| {
            let state = || {
                // SAFETY: the calling thread's.
                unsafe { __res_state() as usize }
            };
            let mine = state();
            let all_live = Arc::new(quaver::sync::Barrier::new(20));
            let threads: Vec<_> = (0..20)
                .map(|_| {
                    let all_live = all_live.clone();
                    quaver::spawn(move || {
                        let before = state();
                        all_live.wait();
                        assert_eq!(state(), before);
                        // SAFETY: the calling thread's; its size is that of every glibc's.
                        let bytes =
                            unsafe { std::slice::from_raw_parts_mut(before as *mut u8, 16) };
                        assert!(bytes.iter().all(|&b| b == 0), "a predecessor's");
                        // A change that the next thread on this block must not see: `options`, as
                        // `res_init` makes it.
                        bytes[8..].copy_from_slice(&1u64.to_le_bytes());
                        before
                    })
                })
                .collect();
            let states: Vec<usize> = threads.into_iter().map(|t| t.join().unwrap()).collect();
            assert!(!states.contains(&mine));
            let distinct: std::collections::HashSet<_> = states.iter().collect();
            assert_eq!(distinct.len(), 20, "{states:x?}");
            for _ in 0..20 {
                let used = quaver::spawn(move || {
                    // SAFETY: as above.
                    unsafe { (state() as *const u64).add(1).read() }
                });
                assert_eq!(used.join().unwrap(), 0, "the options of a thread that has ended");
            }
        });
    }
}

/// A user thread can lock robust mutexes, and who ends with some tells the next owners.
#[test]
fn robust_mutexes_work_and_are_abandoned_at_the_end() {
    for setup in Setup::clocks(2) {
        setup.run(|| {
            let all: Arc<Vec<_>> = Arc::new((0..3).map(|_| Pthread::new(robust)).collect());
            for round in 0..10 {
                let theirs = all.clone();
                let t = quaver::spawn(move || {
                    for m in &*theirs {
                        assert_eq!(m.lock(), 0);
                    }
                    quaver::yield_now();
                    assert_eq!(theirs[round % 3].unlock(), 0);
                });
                t.join().unwrap();
                for (i, m) in all.iter().enumerate() {
                    if i == round % 3 {
                        assert_eq!(m.lock(), 0);
                    } else {
                        assert_eq!(m.lock(), libc::EOWNERDEAD, "{round} {i}");
                        assert_eq!(m.make_consistent(), 0);
                    }
                    assert_eq!(m.unlock(), 0);
                }
            }
        });
    }
}

/// Who waits for a robust mutex is woken when its owner ends without unlocking it.
#[test]
fn a_waiter_learns_that_the_owner_has_ended() {
    for setup in Setup::clocks(2) {
        setup.run(|| {
            let m = Pthread::new(robust);
            let (owner, waiter) = (m.clone(), m.clone());
            let locked = Arc::new(AtomicUsize::new(0));
            let (says, sees) = (locked.clone(), locked.clone());
            let owner = quaver::spawn(move || {
                assert_eq!(owner.lock(), 0);
                says.store(1, SeqCst);
                for _ in 0..20 {
                    quaver::yield_now();
                }
            });
            let waiter = quaver::spawn(move || {
                while sees.load(SeqCst) == 0 {
                    quaver::yield_now();
                }
                assert_eq!(waiter.lock(), libc::EOWNERDEAD);
                assert_eq!((waiter.make_consistent(), waiter.unlock()), (0, 0));
            });
            owner.join().unwrap();
            waiter.join().unwrap();
            assert_eq!((m.lock(), m.unlock()), (0, 0));
        });
    }
}

/// With priority inheritance, which kernel threads would need the owner's number for.
#[test]
fn contended_mutexes_with_priority_inheritance_do_not_hang() {
    for setup in Setup::clocks(2) {
        setup.run(|| {
            let m = Pthread::new(inherits);
            let inside = Arc::new(AtomicUsize::new(0));
            let work = |m: Arc<Pthread>, inside: Arc<AtomicUsize>, rounds: usize| {
                move || {
                    for _ in 0..rounds {
                        assert_eq!(m.lock(), 0);
                        assert_eq!(inside.fetch_add(1, SeqCst), 0);
                        quaver::yield_now();
                        inside.fetch_sub(1, SeqCst);
                        assert_eq!(m.unlock(), 0);
                    }
                }
            };
            let users: Vec<_> =
                (0..4).map(|_| quaver::spawn(work(m.clone(), inside.clone(), 50))).collect();
            let kernel = std::thread::spawn(work(m.clone(), inside.clone(), 50));
            for t in users {
                t.join().unwrap();
            }
            kernel.join().unwrap();
        });
    }
}

/// What `pthread_getattr_np` says of the calling thread: its stack, and its guard.
fn own_stack() -> (std::ops::Range<usize>, usize) {
    let mut attr = MaybeUninit::uninit();
    let (mut low, mut size, mut guard) = (std::ptr::null_mut(), 0, 0);
    // SAFETY: the attributes are initialised by the first call.
    unsafe {
        let attr = attr.as_mut_ptr();
        assert_eq!(libc::pthread_getattr_np(libc::pthread_self(), attr), 0);
        assert_eq!(libc::pthread_attr_getstack(attr, &mut low, &mut size), 0);
        assert_eq!(libc::pthread_attr_getguardsize(attr, &mut guard), 0);
        libc::pthread_attr_destroy(attr);
    }
    (low as usize..low as usize + size, guard)
}

/// Collectors of garbage look through the stack that libc tells them, with the thread-local
/// variables in it.
#[test]
fn libc_knows_the_stack() {
    for setup in Setup::clocks(2) {
        setup.run(|| {
            let look = || {
                let local = 0u8;
                let (stack, guard) = own_stack();
                assert!(stack.contains(&(&raw const local as usize)), "{stack:x?}");
                // SAFETY: the calling thread's errno.
                assert!(stack.contains(&(unsafe { libc::__errno_location() } as usize)));
                assert!(guard >= 4096 && stack.len() >= 64 * 1024);
                // SAFETY: the lowest byte of a stack of this size, which nobody uses.
                unsafe { ((stack.start + 8) as *mut u8).write_volatile(1) };
                stack
            };
            let mine = look();
            let other = quaver::spawn(look).join().unwrap();
            assert!(mine.end <= other.start || other.end <= mine.start);
            let of_kernel_thread = std::thread::spawn(own_stack).join().unwrap().0;
            assert!(mine.end <= of_kernel_thread.start || of_kernel_thread.end <= mine.start);
        });
    }
}

/// Functions that would ask the kernel about a thread that it does not know.
#[test]
fn libc_answers_about_the_calling_thread() {
    for setup in Setup::clocks(1) {
        setup.run(|| {
            let (mut policy, mut parameter) = (-1, MaybeUninit::uninit());
            // SAFETY: all arguments are written, or the calling thread.
            unsafe {
                let me = libc::pthread_self();
                let r = libc::pthread_getschedparam(me, &mut policy, parameter.as_mut_ptr());
                assert_eq!((r, policy), (0, libc::SCHED_OTHER));
                assert_eq!(parameter.assume_init().sched_priority, 0);
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                assert_eq!(pthread_getaffinity_np(me, size_of_val(&set), &mut set), 0);
                assert!(libc::CPU_COUNT(&set) > 0);
                assert_eq!(libc::pthread_detach(me), libc::EINVAL);
                let other = quaver::spawn(|| {
                    quaver::sleep(std::time::Duration::from_millis(5));
                    libc::pthread_self()
                });
                // Which of the two reasons is told depends on the version.
                let refused = libc::pthread_join(me, std::ptr::null_mut());
                assert!([libc::EINVAL, libc::EDEADLK].contains(&refused), "{refused}");
                other.join().unwrap();
            }
        });
    }
}

/// Memory that a child of this test has too.
struct Shared {
    file: OwnedFd,
    mutex: *mut libc::pthread_mutex_t,
}

impl Shared {
    fn map(file: OwnedFd) -> Shared {
        // SAFETY: a mapping of a file of that size, which stays.
        let at = unsafe {
            let (all, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
            libc::mmap(std::ptr::null_mut(), 4096, all, libc::MAP_SHARED, fd, 0)
        };
        assert_ne!(at, libc::MAP_FAILED);
        Shared { file, mutex: at.cast() }
    }
}

/// Two processes know the owner of a mutex that they share by a number, which therefore may not be
/// that of any thread of the other one.
#[test]
fn threads_of_two_processes_are_not_taken_for_each_other() {
    // SAFETY: a new file without a name, inherited by the child.
    let file = unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"shared".as_ptr(), 0)) };
    // SAFETY: as above.
    assert_eq!(unsafe { libc::ftruncate(file.as_raw_fd(), 4096) }, 0);
    let shared = Shared::map(file);
    // SAFETY: new, and long enough.
    unsafe { init(shared.mutex, shared_recursive) };
    let setup = Setup::clocks(1)[0];
    let (mutex, fd) = (shared.mutex as usize, shared.file.as_raw_fd());
    setup.run(|| {
        let mutex = mutex as *mut libc::pthread_mutex_t;
        // SAFETY: initialised above.
        unsafe { assert_eq!(libc::pthread_mutex_lock(mutex), 0) };
        child::run(&format!("lock {fd}")).expect_success();
        // SAFETY: as above.
        unsafe { assert_eq!(libc::pthread_mutex_unlock(mutex), 0) };
    });
    child::run(&format!("find free {fd}")).expect_success();
}

#[test]
fn the_child() {
    let Some(role) = child::role() else { return };
    let (what, fd) = role.rsplit_once(' ').unwrap();
    // SAFETY: inherited for us.
    let shared = Shared::map(unsafe { OwnedFd::from_raw_fd(fd.parse().unwrap()) });
    let expected = if what == "lock" { libc::EBUSY } else { 0 };
    let mutex = shared.mutex as usize;
    Setup::clocks(1)[0].run(|| {
        // As many as it may take to meet the owner's place in the table.
        for _ in 0..50 {
            let t = quaver::spawn(move || {
                let mutex = mutex as *mut libc::pthread_mutex_t;
                // SAFETY: initialised by the parent, and unlocked by who has locked it.
                unsafe {
                    let r = libc::pthread_mutex_trylock(mutex);
                    if r == 0 {
                        assert_eq!(libc::pthread_mutex_unlock(mutex), 0);
                    }
                    r
                }
            });
            assert_eq!(t.join().unwrap(), expected);
        }
        let mutex = mutex as *mut libc::pthread_mutex_t;
        // SAFETY: as above.
        assert_eq!(unsafe { libc::pthread_mutex_trylock(mutex) }, expected);
    });
}
