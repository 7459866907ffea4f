//! Keys of `pthread_setspecific` and their destructors.

use crate::support::{Setup, spin, until_preempted};
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::SeqCst};

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
