//! What belongs to a thread stays with it: `thread_local!`, `errno`, malloc's caches, locales,
//! keys, panics. Under preemption, on stacks that are used again, and when a thread moves between
//! kernel threads.

#![allow(
    clippy::erasing_op,
    clippy::map_identity,
    clippy::let_and_return,
    clippy::identity_op,
    clippy::useless_vec,
    reason = "work whose value does not matter, and results that are named for what they are"
)]

mod support;

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ffi::{CString, c_void};
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use support::drops::{Counted, Drops};
use support::{Rng, Setup, child, library, spin, until_preempted, until_preempted_again};

thread_local! {
    static CONST: Cell<u32> = const { Cell::new(7) };
    static LAZY: RefCell<Vec<u64>> = RefCell::new(vec![1, 2, 3]);
    static BIG: RefCell<[u8; 1000]> = const { RefCell::new([9; 1000]) };
}

/// What `uselocale` answers when a thread has no locale of its own, as a number.
const LC_GLOBAL_LOCALE: usize = usize::MAX;

fn errno() -> i32 {
    // SAFETY: the calling thread's errno.
    unsafe { *libc::__errno_location() }
}

fn set_errno(value: i32) {
    // SAFETY: the calling thread's errno.
    unsafe { *libc::__errno_location() = value }
}

fn gettid() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

/// A thread on a stack that was used before finds nothing of its predecessor.
#[test]
fn variables_are_fresh_in_each_thread() {
    for setup in Setup::all() {
        setup.run(|| {
            for round in 0..20 {
                let threads: Vec<_> = (0..30)
                    .map(|i| {
                        quaver::spawn(move || {
                            assert_eq!(CONST.get(), 7);
                            LAZY.with_borrow(|v| assert_eq!(*v, [1, 2, 3]));
                            BIG.with_borrow(|b| assert!(b.iter().all(|&x| x == 9)));
                            CONST.set(round * 100 + i);
                            LAZY.with_borrow_mut(|v| v.push(u64::from(i)));
                            BIG.with_borrow_mut(|b| b.fill(i as u8));
                            spin(100);
                            quaver::yield_now();
                            assert_eq!(CONST.get(), round * 100 + i);
                            LAZY.with_borrow(|v| assert_eq!(*v, [1, 2, 3, u64::from(i)]));
                            BIG.with_borrow(|b| assert!(b.iter().all(|&x| x == i as u8)));
                        })
                    })
                    .collect();
                threads.into_iter().for_each(|t| t.join().unwrap());
            }
        });
    }
}

#[test]
fn variables_are_private_under_preemption() {
    for setup in Setup::all() {
        setup.run(|| {
            quaver::scope(|s| {
                for i in 0..4u32 {
                    s.spawn(move || {
                        until_preempted(setup.preemptions(150), |step| {
                            CONST.set(i);
                            LAZY.with_borrow_mut(|v| v[1] = step);
                            spin(200);
                            assert_eq!(CONST.get(), i);
                            LAZY.with_borrow(|v| assert_eq!(v[1], step));
                        });
                    });
                }
            });
        });
    }
}

#[test]
fn errno_is_fresh_and_private() {
    for setup in Setup::all() {
        setup.run(|| {
            for _ in 0..50 {
                let ended = quaver::spawn(|| {
                    let inherited = errno();
                    set_errno(libc::ENOTEMPTY);
                    inherited
                });
                assert_eq!(ended.join().unwrap(), 0, "errno of the thread before");
            }
            quaver::scope(|s| {
                for i in 1..5 {
                    s.spawn(move || {
                        until_preempted(setup.preemptions(150), |_| {
                            set_errno(i);
                            spin(200);
                            assert_eq!(errno(), i);
                            // SAFETY: a failing call with valid arguments.
                            assert_eq!(unsafe { libc::close(-i) }, -1);
                            assert_eq!(errno(), libc::EBADF);
                        });
                    });
                }
            });
        });
    }
}

/// All destructors of a thread have run when `join` returns, on that thread, and see its other
/// variables.
#[test]
fn destructors_run_before_join_returns() {
    struct Last {
        value: Option<Counted>,
        ran_on: Arc<Mutex<Vec<quaver::thread::ThreadId>>>,
    }
    impl Drop for Last {
        fn drop(&mut self) {
            spin(200);
            CONST.set(CONST.get() + 1);
            self.ran_on.lock().unwrap().push(quaver::thread::current().unwrap().id());
            drop(self.value.take());
        }
    }
    thread_local! {
        static A: RefCell<Option<Last>> = const { RefCell::new(None) };
        static B: RefCell<Option<Last>> = const { RefCell::new(None) };
    }
    for setup in Setup::all() {
        setup.run(|| {
            let drops = Drops::default();
            let ran_on = Arc::new(Mutex::new(Vec::new()));
            let mut expected = Vec::new();
            for i in 0..200 {
                let last = || Some(Last { value: Some(drops.value()), ran_on: ran_on.clone() });
                let (a, b) = (last(), last());
                let t = quaver::spawn(move || {
                    A.set(a);
                    B.set(b);
                    if i % 3 == 0 {
                        resume_unwind(Box::new(()));
                    }
                });
                expected.extend([t.id(); 2]);
                assert_eq!(t.join().is_err(), i % 3 == 0);
                assert_eq!(drops.counts(), (2 * (i + 1), 2 * (i + 1)));
            }
            assert_eq!(*ran_on.lock().unwrap(), expected);
        });
    }
}

/// A destructor may start and join threads, wait, and use variables that were not used before.
#[test]
fn destructors_may_do_anything() {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    struct Busy;
    impl Drop for Busy {
        fn drop(&mut self) {
            assert_eq!(quaver::spawn(|| 5).join().unwrap(), 5);
            quaver::yield_now();
            quaver::sleep(std::time::Duration::from_micros(50));
            LAZY.with_borrow_mut(|v| v.push(0));
            RAN.fetch_add(1, SeqCst);
        }
    }
    thread_local!(static BUSY: RefCell<Option<Busy>> = const { RefCell::new(None) });
    for setup in Setup::all() {
        let before = RAN.load(SeqCst);
        setup.run(|| {
            let threads: Vec<_> = (0..50).map(|_| quaver::spawn(|| BUSY.set(Some(Busy)))).collect();
            threads.into_iter().for_each(|t| t.join().unwrap());
        });
        assert_eq!(RAN.load(SeqCst) - before, 50);
    }
}

/// A block of memory with a pattern that depends on its owner.
struct Block {
    at: *mut u8,
    layout: Layout,
    seed: u8,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Block {}

impl Block {
    fn new(size: usize, align: usize, seed: u8) -> Block {
        let layout = Layout::from_size_align(size.max(1), align).unwrap();
        // SAFETY: the size is not 0.
        let at = unsafe { alloc(layout) };
        assert!(!at.is_null() && (at as usize).is_multiple_of(align));
        let mut block = Block { at, layout, seed };
        block.bytes().iter_mut().enumerate().for_each(|(i, b)| *b = seed.wrapping_add(i as u8));
        block
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: our own memory; written by `new` before it is read.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.layout.size()) }
    }

    fn check(&mut self) {
        let seed = self.seed;
        let damaged =
            self.bytes().iter().enumerate().position(|(i, &b)| b != seed.wrapping_add(i as u8));
        assert_eq!(damaged, None, "a block of {} bytes is damaged", self.layout.size());
    }

    fn resize(&mut self, size: usize) {
        self.check();
        let (old, size) = (self.layout.size(), size.max(1));
        // SAFETY: allocated with this layout; the size is not 0.
        self.at = unsafe { realloc(self.at, self.layout, size) };
        assert!(!self.at.is_null());
        self.layout = Layout::from_size_align(size, self.layout.align()).unwrap();
        let seed = self.seed;
        let tail = self.bytes().iter_mut().enumerate().skip(old);
        tail.for_each(|(i, b)| *b = seed.wrapping_add(i as u8));
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.check();
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.at, self.layout) };
    }
}

/// Threads allocate, resize, exchange and free memory while they are preempted and moved.
#[test]
fn malloc_works_across_preemption() {
    for setup in Setup::all() {
        setup.run(|| {
            let exchange: [Mutex<Vec<Block>>; 4] = Default::default();
            quaver::scope(|s| {
                for i in 0..5u64 {
                    let exchange = &exchange;
                    s.spawn(move || {
                        let mut rng = Rng(i);
                        let mut mine: Vec<Block> = Vec::new();
                        until_preempted(setup.preemptions(200), |step| {
                            for _ in 0..4 {
                                let size = match rng.below(20) {
                                    0 => rng.below(40_000),
                                    1..5 => rng.below(3_000),
                                    _ => rng.below(200),
                                } as usize;
                                let place = rng.below(mine.len().max(1) as u64) as usize;
                                match rng.below(8) {
                                    0 if !mine.is_empty() => mine[place].resize(size),
                                    1 if !mine.is_empty() => {
                                        let block = mine.swap_remove(place);
                                        exchange[rng.below(4) as usize].lock().unwrap().push(block);
                                    }
                                    2 | 3 if !mine.is_empty() => drop(mine.swap_remove(place)),
                                    4 => {
                                        let taken =
                                            exchange[rng.below(4) as usize].lock().unwrap().pop();
                                        mine.extend(taken);
                                    }
                                    _ => {
                                        let align = 1 << rng.below(8);
                                        mine.push(Block::new(size, align, (step + i) as u8));
                                    }
                                }
                                if mine.len() > 100 {
                                    mine.drain(..50);
                                }
                            }
                        });
                    });
                }
            });
        });
    }
}

/// Threads of one life after the other: caches of malloc are handed on with the block.
#[test]
fn malloc_works_in_short_threads() {
    for setup in Setup::all() {
        setup.run(|| {
            let mut kept: Vec<Block> = Vec::new();
            let mut rng = Rng(3);
            for round in 0..60u64 {
                let threads: Vec<_> = (0..10)
                    .map(|i| {
                        quaver::spawn(move || {
                            let mut rng = Rng(round * 10 + i);
                            let mut blocks: Vec<_> = (0..30)
                                .map(|_| Block::new(rng.below(300) as usize, 8, i as u8))
                                .collect();
                            blocks.retain(|_| rng.below(2) == 0);
                            blocks
                        })
                    })
                    .collect();
                kept.extend(threads.into_iter().flat_map(|t| t.join().unwrap()));
                kept.retain(|_| rng.below(3) != 0);
            }
        });
    }
}

/// What `std` says of the calling thread is different for each thread and does not change when it
/// is moved.
#[test]
fn std_knows_each_thread() {
    for setup in Setup::all() {
        setup.run(|| {
            let seen = Mutex::new(HashSet::from([std::thread::current().id()]));
            quaver::scope(|s| {
                for _ in 0..10 {
                    s.spawn(|| {
                        let me = std::thread::current();
                        assert!(seen.lock().unwrap().insert(me.id()), "an id of another thread");
                        assert_eq!(me.name(), None);
                        until_preempted(setup.preemptions(10), |_| {
                            spin(200);
                            assert_eq!(std::thread::current().id(), me.id());
                        });
                    });
                }
            });
            for _ in 0..50 {
                let id = quaver::spawn(|| std::thread::current().id()).join().unwrap();
                assert!(seen.lock().unwrap().insert(id), "an id of an earlier thread");
            }
        });
    }
}

/// `std::thread::park` and `unpark`, whose token is in a thread-local.
#[test]
fn std_parks_user_threads() {
    for setup in Setup::all() {
        setup.run(|| {
            let first = Arc::new(Mutex::new(None));
            let (tx, rx) = std::sync::mpsc::channel();
            let parked = first.clone();
            let t = quaver::spawn(move || {
                *parked.lock().unwrap() = Some(std::thread::current());
                tx.send(()).unwrap();
                for i in 0..200u32 {
                    std::thread::park();
                    tx.send(()).unwrap();
                    black_box(i);
                }
            });
            rx.recv().unwrap();
            let other = first.lock().unwrap().take().unwrap();
            for _ in 0..200 {
                other.unpark();
                rx.recv().unwrap();
            }
            t.join().unwrap();
        });
    }
}

/// Character classes are read through a pointer in TLS; locales are private and do not outlive
/// their thread.
#[test]
fn locales() {
    fn is_alphabetic_everywhere() {
        for c in 0..=255 {
            // SAFETY: the value of an unsigned char.
            let alphabetic = unsafe { libc::isalpha(c) } != 0;
            assert_eq!(alphabetic, u8::try_from(c).unwrap().is_ascii_alphabetic(), "{c}");
        }
    }
    for setup in Setup::all() {
        setup.run(|| {
            quaver::scope(|s| {
                for i in 0..4 {
                    s.spawn(move || {
                        // SAFETY: a query.
                        let global = unsafe { libc::uselocale(std::ptr::null_mut()) };
                        assert_eq!(global as usize, LC_GLOBAL_LOCALE);
                        let name = CString::new("C").unwrap();
                        // SAFETY: valid arguments; the locale is used until it is freed below.
                        let mine = unsafe {
                            libc::newlocale(libc::LC_ALL_MASK, name.as_ptr(), std::ptr::null_mut())
                        };
                        assert!(!mine.is_null());
                        if i % 2 == 0 {
                            // SAFETY: a valid locale.
                            unsafe { libc::uselocale(mine) };
                        }
                        until_preempted(setup.preemptions(30), |_| {
                            is_alphabetic_everywhere();
                            // SAFETY: a query.
                            let now = unsafe { libc::uselocale(std::ptr::null_mut()) };
                            assert_eq!(now, if i % 2 == 0 { mine } else { global });
                        });
                    });
                }
            });
            // On the same stacks.
            for _ in 0..10 {
                let inherited = quaver::spawn(|| {
                    is_alphabetic_everywhere();
                    // SAFETY: a query.
                    unsafe { libc::uselocale(std::ptr::null_mut()) as usize }
                });
                assert_eq!(inherited.join().unwrap(), LC_GLOBAL_LOCALE);
            }
        });
    }
}

/// A thread that is preempted while it unwinds does not make others panic.
#[test]
fn panics_are_private() {
    struct Slow<'a>(&'a AtomicUsize);
    impl Drop for Slow<'_> {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            self.0.fetch_add(1, SeqCst);
            until_preempted_again(3, |_| {
                spin(200);
                assert!(std::thread::panicking());
            });
            self.0.fetch_sub(1, SeqCst);
        }
    }
    for setup in Setup::all() {
        setup.run(|| {
            let unwinding = AtomicUsize::new(0);
            let done = AtomicUsize::new(0);
            quaver::scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| {
                        for _ in 0..10 {
                            let result = catch_unwind(AssertUnwindSafe(|| {
                                let _slow = Slow(&unwinding);
                                resume_unwind(Box::new(1u8));
                            }));
                            assert!(result.is_err() && !std::thread::panicking());
                        }
                        done.fetch_add(1, SeqCst);
                    });
                    s.spawn(|| {
                        let mutex = Mutex::new(());
                        let mut beside = 0;
                        while done.load(SeqCst) < 3 {
                            assert!(!std::thread::panicking());
                            let guard = mutex.lock().unwrap();
                            beside += usize::from(unwinding.load(SeqCst) > 0);
                            spin(200);
                            // Would poison the mutex if this thread were thought to panic.
                            drop(guard);
                        }
                        assert!(beside > 0, "never beside a thread that unwinds");
                    });
                }
            });
        });
    }
}

fn pthread_key(destructor: Option<unsafe extern "C" fn(*mut c_void)>) -> libc::pthread_key_t {
    let mut key = 0;
    // SAFETY: valid arguments.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, destructor) }, 0);
    key
}

/// Values of `pthread_setspecific` are private, destroyed before `join` returns, and absent in the
/// next thread.
#[test]
fn pthread_keys() {
    static DESTROYED: AtomicUsize = AtomicUsize::new(0);
    static LAST: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    unsafe extern "C" fn destroy(value: *mut c_void) {
        LAST.store(value, SeqCst);
        DESTROYED.fetch_add(1, SeqCst);
    }
    let get = |key| {
        // SAFETY: a valid key.
        unsafe { libc::pthread_getspecific(key) }
    };
    let set = |key, value: usize| {
        // SAFETY: a valid key.
        assert_eq!(unsafe { libc::pthread_setspecific(key, value as *const c_void) }, 0);
    };
    for setup in Setup::all() {
        // More than glibc keeps in its first block.
        let keys: Vec<_> = (0..40).map(|_| pthread_key(Some(destroy))).collect();
        let before = DESTROYED.load(SeqCst);
        setup.run(|| {
            for i in 1..60usize {
                let key = keys[i % keys.len()];
                let t = quaver::spawn(move || {
                    assert!(get(key).is_null());
                    set(key, i);
                    spin(100);
                    assert_eq!(get(key) as usize, i);
                });
                t.join().unwrap();
                assert_eq!(DESTROYED.load(SeqCst), before + i);
                assert_eq!(LAST.load(SeqCst) as usize, i);
            }
            quaver::scope(|s| {
                for i in 1..4usize {
                    let keys = &keys;
                    s.spawn(move || {
                        until_preempted(setup.preemptions(30), |step| {
                            let key = keys[step as usize % 40];
                            set(key, i);
                            spin(200);
                            assert_eq!(get(key) as usize, i);
                            set(key, 0);
                        });
                    });
                }
            });
        });
        for key in keys {
            // SAFETY: a key that nobody uses any more.
            unsafe { libc::pthread_key_delete(key) };
        }
    }
}

/// What the destructor of a key registers or sets is gone with its thread: nothing of it reaches
/// the next on the same block.
#[test]
fn destructors_of_keys_leave_nothing_to_the_next_thread() {
    static KEY: AtomicU32 = AtomicU32::new(0);
    static ROUNDS: AtomicUsize = AtomicUsize::new(0);
    static MADE: AtomicUsize = AtomicUsize::new(0);
    static DROPPED: AtomicUsize = AtomicUsize::new(0);

    struct Late;
    impl Late {
        fn touch(&self) {}
    }
    impl Drop for Late {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, SeqCst);
        }
    }
    thread_local!(static LATE: Late = {
        MADE.fetch_add(1, SeqCst);
        Late
    });

    unsafe extern "C" fn set_again(value: *mut c_void) {
        ROUNDS.fetch_add(1, SeqCst);
        // Destroyed already from the second round on.
        let _ = LATE.try_with(Late::touch);
        // SAFETY: a valid key.
        unsafe { libc::pthread_setspecific(KEY.load(SeqCst), value) };
    }

    KEY.store(pthread_key(Some(set_again)), SeqCst);
    Setup::clocks(1)[0].run(|| {
        for thread in 1..20 {
            quaver::spawn(|| {
                // SAFETY: a valid key.
                unsafe {
                    assert!(libc::pthread_getspecific(KEY.load(SeqCst)).is_null());
                    libc::pthread_setspecific(KEY.load(SeqCst), &raw const KEY as *const c_void);
                }
            })
            .join()
            .unwrap();
            // The library's constant PTHREAD_DESTRUCTOR_ITERATIONS.
            assert_eq!(ROUNDS.load(SeqCst), 4 * thread);
            assert!(MADE.load(SeqCst) >= thread);
            assert_eq!(DROPPED.load(SeqCst), MADE.load(SeqCst));
        }
    });
    // SAFETY: a key that nobody uses any more.
    unsafe { libc::pthread_key_delete(KEY.load(SeqCst)) };
}

/// Mutexes that know their owner recognise it wherever it runs.
#[test]
fn pthread_mutexes_know_their_owner() {
    struct Mutexes([Box<std::cell::UnsafeCell<libc::pthread_mutex_t>>; 2]);
    // SAFETY: pthread mutexes are made to be shared.
    unsafe impl Sync for Mutexes {}
    fn mutex(kind: i32) -> Box<std::cell::UnsafeCell<libc::pthread_mutex_t>> {
        let m = Box::new(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        // SAFETY: initialised before its first use.
        unsafe {
            let mut attr = std::mem::zeroed();
            libc::pthread_mutexattr_init(&mut attr);
            libc::pthread_mutexattr_settype(&mut attr, kind);
            libc::pthread_mutex_init(m.get(), &attr);
        }
        m
    }
    for setup in Setup::all() {
        setup.run(|| {
            let m = Mutexes([
                mutex(libc::PTHREAD_MUTEX_RECURSIVE),
                mutex(libc::PTHREAD_MUTEX_ERRORCHECK),
            ]);
            let m = &m;
            let inside = AtomicU32::new(0);
            quaver::scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| {
                        let (recursive, checking) = (m.0[0].get(), m.0[1].get());
                        until_preempted(setup.preemptions(60), |_| {
                            // SAFETY: initialised mutexes.
                            unsafe {
                                assert_eq!(libc::pthread_mutex_lock(recursive), 0);
                                assert_eq!(inside.fetch_add(1, SeqCst), 0);
                                spin(200);
                                assert_eq!(libc::pthread_mutex_lock(recursive), 0);
                                assert_eq!(libc::pthread_mutex_unlock(recursive), 0);
                                spin(20);
                                assert_eq!(inside.fetch_sub(1, SeqCst), 1);
                                assert_eq!(libc::pthread_mutex_unlock(recursive), 0);

                                assert_eq!(libc::pthread_mutex_unlock(checking), libc::EPERM);
                                assert_eq!(libc::pthread_mutex_lock(checking), 0);
                                spin(50);
                                assert_eq!(libc::pthread_mutex_lock(checking), libc::EDEADLK);
                                assert_eq!(libc::pthread_mutex_unlock(checking), 0);
                            }
                        });
                    });
                }
            });
        });
    }
}

/// All of this is worth something only if threads do move.
#[test]
fn threads_move_between_kernel_threads() {
    for setup in Setup::clocks(2) {
        setup.run(|| {
            let moves = AtomicUsize::new(0);
            quaver::scope(|s| {
                for i in 0..5u64 {
                    let moves = &moves;
                    s.spawn(move || {
                        let (mut rng, mut last) = (Rng(i), gettid());
                        CONST.set(i as u32);
                        for _ in 0..2_000_000 {
                            if moves.load(SeqCst) >= 100 {
                                return;
                            }
                            spin(rng.below(3_000));
                            if rng.below(20) == 0 {
                                quaver::sleep(std::time::Duration::from_micros(rng.below(100)));
                            }
                            let here = gettid();
                            moves.fetch_add(usize::from(here != last), SeqCst);
                            last = here;
                            assert_eq!(CONST.get(), i as u32);
                        }
                        panic!("threads hardly move: {moves:?}");
                    });
                }
            });
        });
    }
}

/// Kernel threads that a user thread starts are ordinary threads.
#[test]
fn kernel_threads_started_by_user_threads() {
    for setup in Setup::all() {
        setup.run(|| {
            for i in 0..20 {
                CONST.set(i);
                let t = std::thread::Builder::new().name(format!("kernel {i}")).spawn(move || {
                    assert_eq!(CONST.get(), 7);
                    assert!(quaver::thread::current().is_none());
                    assert_eq!(std::thread::current().name(), Some(&*format!("kernel {i}")));
                    CONST.set(1);
                    spin(1000);
                    quaver::spawn(move || i).join().unwrap()
                });
                assert_eq!(t.unwrap().join().unwrap(), i);
                assert_eq!(CONST.get(), i);
            }
        });
    }
}

#[test]
fn sched_getcpu_tells_a_cpu() {
    for setup in Setup::clocks(2) {
        setup.run(|| {
            for _ in 0..100 {
                // SAFETY: no arguments.
                let cpu = unsafe { libc::sched_getcpu() };
                assert!((0..8192).contains(&cpu), "{cpu}");
                spin(100);
            }
        });
    }
}

/// Thread-local variables of a library that was loaded at run time, which are not in the static
/// block.
#[test]
fn variables_of_loaded_libraries() {
    let text = "__thread int counter = 41; __thread char big[5000] = {1}; \
                int *get(void) { return &counter; } char *get_big(void) { return big; }";
    let Some(path) = library::compile("loaded", text, &[]) else { return };
    let handle = library::load(&path);
    let (get, get_big) = (library::symbol(handle, c"get"), library::symbol(handle, c"get_big"));
    // SAFETY: the functions have these types.
    let (get, get_big) = unsafe {
        (
            std::mem::transmute::<*mut c_void, extern "C" fn() -> *mut i32>(get),
            std::mem::transmute::<*mut c_void, extern "C" fn() -> *mut u8>(get_big),
        )
    };
    // SAFETY: the calling thread's variable.
    let value = move || unsafe { &mut *get() };
    // SAFETY: the calling thread's array of 5000 elements.
    let big = move || unsafe { std::slice::from_raw_parts_mut(get_big(), 5000) };
    for setup in Setup::all() {
        setup.run(move || {
            for i in 0..50 {
                let t = quaver::spawn(move || {
                    let found = (*value(), big()[0], big()[4999]);
                    *value() = i;
                    big().fill(i as u8);
                    spin(100);
                    assert_eq!(*value(), i);
                    found
                });
                assert_eq!(t.join().unwrap(), (41, 1, 0), "values of the thread before");
            }
            quaver::scope(|s| {
                for i in 0..4 {
                    s.spawn(move || {
                        until_preempted(setup.preemptions(30), |_| {
                            *value() = i;
                            spin(200);
                            assert_eq!(*value(), i);
                        });
                    });
                }
            });
        });
    }
}

/// Hash maps' random keys, formatting, and whatever else of `std` is thread-local.
#[test]
fn std_is_usable() {
    for setup in Setup::all() {
        setup.run(|| {
            let stop = AtomicBool::new(false);
            quaver::scope(|s| {
                for i in 0..3u64 {
                    let stop = &stop;
                    s.spawn(move || {
                        let mut rng = Rng(i);
                        until_preempted(setup.preemptions(60), |step| {
                            let mut map = HashMap::new();
                            for _ in 0..20 {
                                let key = rng.below(10);
                                *map.entry(format!("{key}")).or_insert(0u64) += step;
                            }
                            assert_eq!(map.values().sum::<u64>(), 20 * step);
                        });
                        stop.store(true, SeqCst);
                    });
                }
            });
        });
    }
}

#[test]
fn without_fsgsbase() {
    if child::role().is_none() && std::env::var_os("QUAVER_NO_FSGSBASE").is_none() {
        child::all_tests_with(("QUAVER_NO_FSGSBASE", "1"), "without_fsgsbase");
    }
}

/// The C library changes the identity of all its threads, and must not wait for user threads, which
/// have none of their own.
#[test]
fn identities_are_changed() {
    for setup in Setup::all() {
        let change = || {
            // SAFETY: sets nothing, but goes through all threads.
            assert_eq!(unsafe { libc::setresgid(u32::MAX, u32::MAX, u32::MAX) }, 0);
        };
        let stop = AtomicBool::new(false);
        setup.run(|| {
            std::thread::scope(|kernel| {
                kernel.spawn(|| {
                    while !stop.load(SeqCst) {
                        change();
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                });
                quaver::scope(|s| {
                    for _ in 0..3 {
                        s.spawn(|| {
                            until_preempted(setup.preemptions(30), |step| {
                                // All kernel threads must have had the CPU before it returns.
                                if step % 50 == 0 {
                                    change();
                                }
                                spin(1_000);
                            });
                        });
                    }
                });
                stop.store(true, SeqCst);
            });
        });
    }
}
