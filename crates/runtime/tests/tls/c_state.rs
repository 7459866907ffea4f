//! The C library's state of a thread: locale, ownership of mutexes.

use crate::support::{Setup, spin, until_preempted};
use std::ffi::CString;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

/// What `uselocale` answers when a thread has no locale of its own, as a number.
const LC_GLOBAL_LOCALE: usize = usize::MAX;

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
