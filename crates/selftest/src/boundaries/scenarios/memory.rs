//! The allocator and thread-local variables.

use super::{Scenario, mix};
use crate::boundaries::stepper::step;
use core::cell::{Cell, RefCell};
use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering::*};

pub(super) const ALL: &[Scenario] = &[
    Scenario::plain("malloc", malloc),
    Scenario::plain("malloc-large", malloc_large),
    Scenario::plain("collections", collections),
    Scenario::plain("thread-local", thread_local),
    Scenario::plain("thread-local-lazy", thread_local_lazy),
    Scenario::new("thread-local-drop", thread_local_drop),
];

fn filled(bytes: usize, with: u8) -> Vec<u8> {
    black_box(vec![with; bytes])
}

fn check(v: &[u8], with: u8) -> u64 {
    u64::from(v.iter().all(|&b| b == with))
}

fn malloc() -> u64 {
    let mut sum = 0;
    step(|| {
        let a = filled(24, 1);
        let mut b = filled(100, 2);
        drop(black_box(filled(40, 3)));
        b.reserve_exact(400);
        sum = check(&a, 1) + check(&b, 2);
    });
    sum
}

/// Beyond the size at which glibc asks the kernel for memory of its own, and one that it cuts from
/// its heap.
fn malloc_large() -> u64 {
    let mut sum = 0;
    step(|| {
        for size in [5_000, 40 << 20] {
            // SAFETY: allocated, touched and freed here.
            unsafe {
                let p = libc::malloc(size).cast::<u8>();
                p.write_volatile(7);
                p.add(size - 1).write_volatile(8);
                sum = mix(
                    sum,
                    u64::from(p.read_volatile()) + u64::from(p.add(size - 1).read_volatile()),
                );
                libc::free(p.cast());
            }
        }
    });
    sum
}

fn collections() -> u64 {
    let mut sum = 0;
    step(|| {
        let mut map = std::collections::BTreeMap::new();
        for i in 0..8u64 {
            map.insert(i * 37 % 11, i.to_string());
        }
        sum = map.iter().fold(0, |sum, (k, v)| mix(sum, k + v.len() as u64));
    });
    sum
}

thread_local! {
    static PLAIN: Cell<u64> = const { Cell::new(3) };
    static LAZY: RefCell<Vec<u64>> = RefCell::new(vec![1, 2]);
    static LAST: Last = const { Last };
}

static DROPPED: AtomicU64 = AtomicU64::new(0);
struct Last;

impl Drop for Last {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, SeqCst);
    }
}

fn thread_local() -> u64 {
    PLAIN.set(3);
    step(|| {
        for i in 0..4 {
            PLAIN.set(mix(PLAIN.get(), i));
        }
    });
    PLAIN.get()
}

/// In a new thread: the variable is made at its first use, and its destructor is registered.
fn thread_local_lazy() -> u64 {
    let work = || {
        step(|| LAZY.with_borrow_mut(|v| v.push(3)));
        LAZY.with_borrow(|v| v.iter().fold(PLAIN.get(), |sum, &x| mix(sum, x)))
    };
    quaver::spawn(work).join().unwrap_or(0)
}

fn thread_local_drop() -> u64 {
    let before = DROPPED.load(SeqCst);
    step(|| quaver::spawn(|| LAST.with(|_| LAZY.with_borrow_mut(|v| v.push(4)))).join())
        .unwrap_or(());
    DROPPED.load(SeqCst) - before
}
