//! Thread-local variables, of programs and of libraries, and `errno`.

use crate::support::{Setup, library, spin, until_preempted};
use crate::{BIG, CONST, LAZY};
use std::ffi::c_void;

fn errno() -> i32 {
    // SAFETY: the calling thread's errno.
    unsafe { *libc::__errno_location() }
}

fn set_errno(value: i32) {
    // SAFETY: the calling thread's errno.
    unsafe { *libc::__errno_location() = value }
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
