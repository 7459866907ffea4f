//! Quaver for C and C++.
//!
//! The interface is `include/quaver.h`, where every function is documented; this is what is behind
//! it. A test (`tests/header.rs`) compares the two, function by function and type by type.
//!
//! # Rules of this layer
//!
//! * Functions that can fail return a [`Status`] as `int`; 0 is success. The text of the last
//!   failure of a thread is kept for `quaver_last_message`.
//! * Timeouts are nanoseconds: negative for ever, 0 not at all.
//! * Synchronisation objects are plain memory, ready when zero, and need no destruction
//!   (`quaver::foreign`).
//! * Null pointers where an object is required are a [`Status::Invalid`], not a crash.

mod cancel;
mod channel;
mod pthread;
mod region;
mod runtime;
mod status;
mod sync;
mod thread;

pub use status::Status;

use core::ffi::c_int;

/// What a function of C returns for `result`.
fn report<E: Into<status::Failure>>(result: Result<(), E>) -> c_int {
    match result {
        Ok(()) => Status::Ok as c_int,
        Err(e) => e.into().report(),
    }
}
