//! Times at which waits end.

use libc::{clockid_t, timespec};
use quaver_lock::parts::Deadline;
use std::ffi::c_int;

/// The deadline that a caller gives, or `EINVAL`: its nanoseconds are none.
pub(crate) fn deadline(clock: clockid_t, at: &timespec) -> Result<Deadline, c_int> {
    if !(0..1_000_000_000).contains(&at.tv_nsec) {
        return Err(libc::EINVAL);
    }
    Deadline::at(clock, at).map_err(|_| libc::EINVAL)
}

/// Whether waits can be measured by this clock.
pub(crate) fn is_known(clock: clockid_t) -> bool {
    clock == libc::CLOCK_REALTIME || clock == libc::CLOCK_MONOTONIC
}
