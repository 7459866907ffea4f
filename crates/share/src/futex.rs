//! Sleeping on a word, and waking who does, in whichever process it is.

use rustix::io::Result;
use rustix::thread::futex;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while the word is `expected`, for `limit` at most; may return early for no reason. All
/// outcomes mean: look again.
#[inline(always)]
pub(crate) fn wait(word: &AtomicU32, expected: u32, limit: Option<Duration>) -> Result<()> {
    let limit = limit.map(|limit| limit.try_into().expect("at most seconds"));
    let slept = futex::wait(word, futex::Flags::empty(), expected, limit.as_ref());
    quaver_rsb::refill();
    slept
}

/// Wakes one who sleeps on the word.
#[inline(always)]
pub(crate) fn wake(word: &AtomicU32) {
    // It fails only for addresses that are none.
    let _ = futex::wake(word, futex::Flags::empty(), 1);
    quaver_rsb::refill();
}
