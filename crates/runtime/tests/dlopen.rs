//! Libraries that are loaded while user threads run, and unloaded again: their code is preempted,
//! their thread-local variables belong to the user thread.

mod support;

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Barrier, RwLock};
use support::{Setup, library, until, until_preempted};

/// Keeps its state in thread-local variables, a small one and one that fills more than a page.
const SOURCE: &str = "\
static __thread unsigned long counter = 41, table[1000] = {7};
static int inside;
unsigned long compute(unsigned long rounds, int *others) {
    *others = __atomic_fetch_add(&inside, 1, __ATOMIC_SEQ_CST);
    for (unsigned long i = 0; i < rounds; i++) {
        volatile unsigned long *entry = &table[i % 1000];
        *entry = *entry * 31 + counter + i;
    }
    counter++;
    __atomic_fetch_sub(&inside, 1, __ATOMIC_SEQ_CST);
    return table[0];
}
unsigned long calls(void) { return counter - 41; }
";

/// What [`SOURCE`] computes on a thread.
struct Model {
    table: [u64; 1000],
    calls: u64,
}

impl Model {
    fn new() -> Model {
        let mut table = [0; 1000];
        table[0] = 7;
        Model { table, calls: 0 }
    }

    fn compute(&mut self, rounds: u64) -> u64 {
        for i in 0..rounds {
            let entry = &mut self.table[i as usize % 1000];
            *entry = entry.wrapping_mul(31).wrapping_add(41 + self.calls + i);
        }
        self.calls += 1;
        self.table[0]
    }
}

/// Its constructor says that it runs, and waits until it may return. `WORDS` stands for an address
/// in this process.
const SLOW_TO_LOAD: &str = "\
__attribute__((constructor)) static void wait_for_it(void) {
    volatile unsigned *words = (volatile unsigned *)WORDS;
    for (words[0] = 1; !words[1];) {}
}
";

/// A loaded library.
#[derive(Clone, Copy)]
struct Library {
    handle: *mut c_void,
    compute: extern "C" fn(u64, &mut i32) -> u64,
    calls: extern "C" fn() -> u64,
}

// SAFETY: its functions use thread-local variables only; handles belong to the process.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    fn load(path: &CStr) -> Library {
        let handle = library::load(path);
        // SAFETY: the functions have these types.
        unsafe {
            Library {
                handle,
                compute: std::mem::transmute::<*mut c_void, extern "C" fn(u64, &mut i32) -> u64>(
                    library::symbol(handle, c"compute"),
                ),
                calls: std::mem::transmute::<*mut c_void, extern "C" fn() -> u64>(library::symbol(
                    handle, c"calls",
                )),
            }
        }
    }

    /// Calls it and compares. Was another thread inside meanwhile?
    fn step(&self, model: &mut Model) -> bool {
        const ROUNDS: u64 = 5_000;
        assert_eq!((self.calls)(), model.calls, "calls of another thread");
        let expected = model.compute(ROUNDS);
        let mut others = 0;
        assert_eq!((self.compute)(ROUNDS, &mut others), expected, "another thread's variables");
        others > 0
    }

    /// Steps until threads have met others inside so often. On one worker those were preempted
    /// there.
    fn work(&self, met: &AtomicU64, enough: u64) {
        let mut model = Model::new();
        until(
            || met.load(SeqCst) >= enough,
            |_| _ = met.fetch_add(self.step(&mut model).into(), SeqCst),
        );
    }
}

/// Threads that exist before the library is loaded, and threads that are made afterwards, use it;
/// it is unloaded while the former exist, and loaded again.
fn load_use_unload(setup: Setup, path: &CStr) {
    const OLD: usize = 3;
    let library = RwLock::new(None);
    let (loaded, used) = (Barrier::new(OLD + 1), Barrier::new(OLD + 1));
    let met = AtomicU64::new(0);
    setup.run(|| {
        quaver::scope(|s| {
            for _ in 0..OLD {
                s.spawn(|| {
                    for round in 1..=ROUNDS {
                        loaded.wait();
                        let library: Library = library.read().unwrap().unwrap();
                        library.work(&met, round * setup.preemptions(30));
                        used.wait();
                    }
                });
            }
            for round in 1..=ROUNDS {
                // The others are preempted, or waiting, while this happens.
                let now = Library::load(path);
                *library.write().unwrap() = Some(now);
                loaded.wait();
                let met = &met;
                let new =
                    [(); 2].map(|()| s.spawn(move || now.work(met, round * setup.preemptions(30))));
                new.into_iter().for_each(|t| t.join().unwrap());
                used.wait();
                // SAFETY: loaded once, and nobody uses it any more.
                assert!(unsafe { library::unload(now.handle, path) }, "still loaded");
            }
        });
    });
}

/// How often it is loaded.
const ROUNDS: u64 = 3;

#[test]
fn libraries_come_and_go_while_threads_run() {
    let Some(path) = library::compile("comes-and-goes", SOURCE, &[]) else { return };
    for setup in Setup::all() {
        load_use_unload(setup, &path);
    }
}

/// Several load it, look for its functions and unload it at a time; it goes with the last of them.
#[test]
fn loading_is_preempted() {
    let Some(path) = library::compile("loaded-often", SOURCE, &[]) else { return };
    for setup in Setup::all() {
        let goal = setup.preemptions(60);
        setup.run(|| {
            quaver::scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| {
                        let mut model = Model::new();
                        until_preempted(goal, |_| {
                            let library = Library::load(&path);
                            if (library.calls)() == 0 {
                                // It was unloaded meanwhile.
                                model = Model::new();
                            }
                            library.step(&mut model);
                            // SAFETY: loaded by this thread, which does not use it any more.
                            assert_eq!(unsafe { libc::dlclose(library.handle) }, 0);
                        });
                    });
                }
            });
        });
    }
}

/// A thread that was preempted in a library's constructor holds the lock of the dynamic loader.
/// Spare kernel threads must start without it, or nobody could let that thread go on.
#[test]
fn kernel_threads_start_while_a_library_is_being_loaded() {
    static WORDS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
    let [begun, go_on] = &WORDS;
    let code = SLOW_TO_LOAD.replace("WORDS", &format!("{:p}", &WORDS));
    let Some(path) = library::compile("slow-to-load", &code, &[]) else { return };
    for setup in Setup::all_clocks() {
        WORDS.iter().for_each(|word| word.store(0, SeqCst));
        let away = AtomicU32::new(0);
        let all = || away.load(SeqCst) == 4;
        setup.run(|| {
            quaver::scope(|s| {
                s.spawn(|| {
                    let handle = library::load(&path);
                    // SAFETY: nobody uses it.
                    assert!(unsafe { library::unload(handle, &path) }, "still loaded");
                });
                until(|| begun.load(SeqCst) != 0, |_| quaver::yield_now());
                // More at a time than there can be spares already.
                let blocking = [(); 4].map(|()| {
                    s.spawn(|| {
                        quaver::block_in_place(|| {
                            away.fetch_add(1, SeqCst);
                            until(all, |_| std::thread::yield_now());
                        });
                    })
                });
                blocking.into_iter().for_each(|t| t.join().unwrap());
                go_on.store(1, SeqCst);
            });
        });
    }
}
