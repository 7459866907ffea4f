//! The futex on which the locks for C wait: the real table of those who wait, and a simulated
//! kernel.

use super::machine;
use crate::foreign::futex::{End, Limits};
use crate::park::lot::{Lot, Sleepers};
use crate::park::shim::AtomicU32;
use crate::park::{self, Waiter};
use shuttle::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// Who sleeps, in the order of their coming: the address, and whether they have been woken.
type Kernel = Mutex<Vec<(usize, Waiter, Arc<AtomicBool>)>>;

shuttle::lazy_static! {
    static ref LOT: Lot<4> = Lot::new();
    static ref KERNEL: Kernel = Mutex::new(Vec::new());
}

/// As `foreign::futex::wait`, without limits.
pub fn wait(word: &AtomicU32, expected: u32, _limits: &Limits<'_>) -> End {
    wait_if(core::ptr::from_ref(word).addr(), || word.load(SeqCst) == expected)
}

/// The same for the word at `address`, if `unchanged`.
pub fn wait_if(address: usize, unchanged: impl FnOnce() -> bool) -> End {
    let me = park::current();
    if machine::is_user() {
        let sleep = || {
            park::park(me);
            Ok(())
        };
        let _ = LOT.wait(me, address, u32::MAX, unchanged, sleep);
    } else {
        let _counted = LOT.in_kernel(address);
        let woken = Arc::new(AtomicBool::new(false));
        let mut kernel = KERNEL.lock().unwrap();
        if unchanged() {
            kernel.push((address, me, woken.clone()));
            drop(kernel);
            while !woken.load(SeqCst) {
                park::park(me);
            }
        }
    }
    End::Woken
}

/// As `foreign::futex::wake`.
pub fn wake(word: *const AtomicU32, n: u32) {
    let address = word.addr();
    LOT.wake(address, n, u32::MAX, Sleepers::Counted, |n| {
        let mut kernel = KERNEL.lock().unwrap();
        let mut left = n;
        kernel.retain(|(at, sleeper, woken)| {
            let wakes = *at == address && left > 0;
            if wakes {
                left -= 1;
                woken.store(true, SeqCst);
                park::unpark(*sleeper);
            }
            !wakes
        });
        n - left
    });
}
