//! Libraries with static TLS (`-ftls-model=initial-exec`) that are loaded while user threads exist:
//! every thread finds the initial values, and nobody else's afterwards.

mod support;

use std::ffi::{CStr, CString, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Barrier, RwLock};
use support::{Setup, library, spin, until_preempted};

/// What a library's variables are at first is `FIRST`; its constructor looks, too. Small, because a
/// process has not much room for such libraries.
const SOURCE: &str = "\
__thread unsigned long head = FIRST, body[24] = {1, 2, FIRST}, zero[8];
int constructed;
__attribute__((constructor)) static void construct(void) {
    constructed = head == FIRST && body[2] == FIRST && !zero[7];
}
int well_constructed(void) { return constructed; }
unsigned long swap(unsigned long value) {
    unsigned long before = head, i;
    for (i = 2; i < 24; i++)
        if (body[i] != (before != FIRST ? before : i == 2 ? FIRST : 0))
            return 0;
    for (i = 0; i < 8; i++)
        if (zero[i] != (before != FIRST ? before : 0))
            return 0;
    for (i = 2; i < 24; i++) body[i] = value;
    for (i = 0; i < 8; i++) zero[i] = value;
    head = value;
    return before;
}
";

fn compile(name: &str, first: u64) -> Option<CString> {
    let first = format!("-DFIRST={first}ul");
    library::compile(name, SOURCE, &["-ftls-model=initial-exec", &first])
}

#[derive(Clone, Copy)]
struct Library {
    handle: *mut c_void,
    /// Changes all variables of the calling thread; returns what they were, or 0 if they were not
    /// all that.
    swap: extern "C" fn(u64) -> u64,
    first: u64,
}

// SAFETY: its function uses thread-local variables only; handles belong to the process.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    fn load(path: &CStr, first: u64) -> Library {
        let handle = library::load(path);
        let function = |name| library::symbol(handle, name);
        // SAFETY: the functions have these types.
        let (swap, well) = unsafe {
            (
                std::mem::transmute::<*mut c_void, extern "C" fn(u64) -> u64>(function(c"swap")),
                std::mem::transmute::<*mut c_void, extern "C" fn() -> i32>(function(
                    c"well_constructed",
                )),
            )
        };
        assert_eq!(well(), 1, "the loading thread found other values in the constructor");
        Library { handle, swap, first }
    }

    /// A thread that has never used it, and a while of use.
    fn use_it(self, preemptions: u64, who: &str) {
        static NUMBER: AtomicU64 = AtomicU64::new(1 << 20);
        let mut value = self.first;
        until_preempted(preemptions, |_| {
            let next = NUMBER.fetch_add(1, SeqCst);
            assert_eq!((self.swap)(next), value, "{who} in {}", self.first);
            value = next;
            spin(200);
        });
    }

    fn unload(self, path: &CStr) {
        // SAFETY: all who used it have ended or are done with it.
        assert!(unsafe { library::unload(self.handle, path) }, "still loaded");
    }
}

/// Threads of all ages use libraries that take turns in the same place.
#[test]
fn every_thread_begins_with_the_initial_values() {
    const OLD: usize = 3;
    const FIRST: [u64; 2] = [1041, 1042];
    let Some(a) = compile("static-a", FIRST[0]) else { return };
    let Some(b) = compile("static-b", FIRST[1]) else { return };
    for setup in Setup::all() {
        let preemptions = setup.preemptions(15);
        let current = RwLock::new(None::<Library>);
        let (loaded, used) = (Barrier::new(OLD + 2), Barrier::new(OLD + 2));
        let take_part = |who: &str| {
            for _ in 0..4 {
                loaded.wait();
                let library = current.read().unwrap().unwrap();
                library.use_it(preemptions, who);
                used.wait();
            }
        };
        std::thread::scope(|kernel| {
            kernel.spawn(|| {
                for _ in 0..4 {
                    loaded.wait();
                    let library = current.read().unwrap().unwrap();
                    assert_eq!((library.swap)(7), library.first, "a kernel thread");
                    used.wait();
                }
            });
            setup.run(|| {
                quaver::scope(|s| {
                    // Blocks for the new threads below that were used before the library came.
                    (0..4).map(|_| s.spawn(|| _ = spin(10))).for_each(|t| t.join().unwrap());
                    (0..OLD).for_each(|_| _ = s.spawn(|| take_part("an old thread")));
                    for (path, first) in [&a, &b, &a, &b].into_iter().zip(FIRST.repeat(2)) {
                        let now = Library::load(path, first);
                        *current.write().unwrap() = Some(now);
                        loaded.wait();
                        for round in 0..3 {
                            let new = [(); 2].map(|()| {
                                s.spawn(move || now.use_it(preemptions, &format!("new {round}")))
                            });
                            new.into_iter().for_each(|t| t.join().unwrap());
                        }
                        now.use_it(1, "the loading thread");
                        used.wait();
                        now.unload(path);
                    }
                });
            });
        });
    }
}

/// Threads start and end all the time while the libraries come and go.
#[test]
fn libraries_come_while_threads_start() {
    const FIRST: [u64; 2] = [2041, 2042];
    let Some(a) = compile("static-c", FIRST[0]) else { return };
    let Some(b) = compile("static-d", FIRST[1]) else { return };
    for setup in Setup::all() {
        // Readers use the library, which only the writer changes.
        let current = RwLock::new(None::<Library>);
        let stop = AtomicBool::new(false);
        let uses = AtomicU64::new(0);
        setup.run(|| {
            quaver::scope(|s| {
                for _ in 0..2 {
                    s.spawn(|| {
                        while !stop.load(SeqCst) {
                            let user = s.spawn(|| {
                                let library = current.read().unwrap();
                                if let Some(library) = *library {
                                    assert_eq!((library.swap)(9), library.first, "a new thread");
                                    uses.fetch_add(1, SeqCst);
                                }
                            });
                            user.join().unwrap();
                        }
                    });
                }
                for round in 0..20 {
                    let (path, first) = [(&a, FIRST[0]), (&b, FIRST[1])][round % 2];
                    *current.write().unwrap() = Some(Library::load(path, first));
                    let goal = uses.load(SeqCst) + 20;
                    support::until(|| uses.load(SeqCst) >= goal, |_| quaver::yield_now());
                    let library = current.write().unwrap().take();
                    library.unwrap().unload(path);
                }
                stop.store(true, SeqCst);
            });
        });
    }
}
