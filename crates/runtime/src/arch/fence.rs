//! The full fence of the hot path.

use core::arch::asm;
use core::sync::atomic::{Ordering, fence as plain_fence};

/// As [`std::sync::atomic::fence`], for `SeqCst` by a locked instruction instead of `mfence`. That
/// takes several times as long on current processors, because it also waits for non-temporal
/// stores, with which nothing here publishes.
#[inline(always)]
pub(crate) fn fence(ordering: Ordering) {
    if ordering != Ordering::SeqCst {
        return plain_fence(ordering);
    }
    // SAFETY: changes nothing. For the compiler it may touch all memory, so nothing moves across; a
    // locked instruction orders all earlier stores before all later loads (Intel SDM 3A, 9.2.3.9;
    // AMD APM 2, 7.2).
    unsafe { asm!("lock or dword ptr [rsp], 0") };
}
