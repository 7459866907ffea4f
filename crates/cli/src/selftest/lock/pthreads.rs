//! A program of pthreads: it is run under `quaver lock`, which replaces what it calls.

use std::cell::UnsafeCell;
use std::ffi::CStr;

use libc::{pthread_cond_t, pthread_mutex_t, pthread_rwlock_t};

const THREADS: u64 = 8;
const ROUNDS: u64 = 5_000;

/// What it says if all is well.
pub(super) const EXPECTED: &str =
    "libquaver_lock_preload.so\nmutex 40000\nrwlock 40000\ncondition 40000\n";

struct Objects {
    mutex: UnsafeCell<pthread_mutex_t>,
    rwlock: UnsafeCell<pthread_rwlock_t>,
    condition: UnsafeCell<pthread_cond_t>,
    /// Changed under the mutex, under the read-write lock, and in turn.
    counts: UnsafeCell<[u64; 3]>,
}

// SAFETY: each object is one for all threads, and each count is changed under its own.
unsafe impl Sync for Objects {}

static OBJECTS: Objects = Objects {
    mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
    rwlock: UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER),
    condition: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
    counts: UnsafeCell::new([0; 3]),
};

/// Counts by threads; says whose function locked, and how far each count came.
pub(super) fn counts() -> String {
    std::thread::scope(|s| {
        for me in 0..THREADS {
            s.spawn(move || one(me));
        }
    });
    // SAFETY: the threads have ended.
    let [mutex, rwlock, condition] = unsafe { *OBJECTS.counts.get() };
    format!("{}\nmutex {mutex}\nrwlock {rwlock}\ncondition {condition}\n", library())
}

fn one(me: u64) {
    let Objects { mutex, rwlock, condition, counts } = &OBJECTS;
    let (mutex, rwlock, condition) = (mutex.get(), rwlock.get(), condition.get());
    let count = |n: usize| counts.get().cast::<u64>().wrapping_add(n);
    for _ in 0..ROUNDS {
        // SAFETY: initialised objects; each count is changed under its own.
        unsafe {
            libc::pthread_rwlock_rdlock(rwlock);
            libc::pthread_rwlock_unlock(rwlock);
            libc::pthread_rwlock_wrlock(rwlock);
            *count(1) += 1;
            libc::pthread_rwlock_unlock(rwlock);
            libc::pthread_mutex_lock(mutex);
            *count(0) += 1;
            // Pairs of threads take turns.
            while *count(2) % 2 != me % 2 {
                libc::pthread_cond_wait(condition, mutex);
            }
            *count(2) += 1;
            libc::pthread_cond_broadcast(condition);
            libc::pthread_mutex_unlock(mutex);
        }
    }
}

/// The name of the library that has `pthread_mutex_lock`.
fn library() -> String {
    // SAFETY: an empty result; an address of code; a C string that the loader keeps.
    unsafe {
        let mut found = std::mem::zeroed::<libc::Dl_info>();
        let at = libc::dlsym(libc::RTLD_DEFAULT, c"pthread_mutex_lock".as_ptr());
        if libc::dladdr(at.cast_const(), &mut found) == 0 || found.dli_fname.is_null() {
            return "nowhere".into();
        }
        let path = CStr::from_ptr(found.dli_fname).to_string_lossy();
        path.rsplit('/').next().unwrap_or_default().to_owned()
    }
}
