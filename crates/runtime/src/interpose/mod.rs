//! Functions of libc that this crate defines itself, so that waiting in them does not block a
//! worker.
//!
//! A program's own definition of a function takes precedence over that of a shared library. So a
//! Rust program that uses this crate calls the ones below when `std` (or C code in it, or a library
//! that was linked with it) calls `syscall`, `nanosleep`, `clock_nanosleep` or `sched_yield`. On
//! kernel threads they do what libc's do. So do the calls on files that may wait ([`files`]).
//! `setuid` and its relatives are for another reason among them: libc's do not work where user
//! threads run ([`identity`]), nor do some functions of pthreads ([`pthread`]). `dlopen` only comes
//! by here, and `dl_iterate_phdr` ([`load`]).

mod files;
mod futex;
mod identity;
mod load;
mod postponed;
pub mod pthread;
pub mod raw_calls;
pub mod sleep;

pub(crate) use crate::park::lot::Sleepers;
pub(crate) use futex::{
    forget_waiters, in_kernel as futex_in_kernel, wait as futex_wait, wake as futex_wake,
};
pub use identity::everywhere;
pub(crate) use postponed::wake_postponed;

use core::ffi::{c_char, c_void};

/// Makes the linker take these definitions from the library: it takes an object only if something
/// refers to it.
pub(crate) fn link() {
    pthread::link();
    files::link();
    core::hint::black_box((
        futex::syscall as unsafe extern "C-unwind" fn(_, _, _, _, _, _, _) -> _,
        sleep::sched_yield as extern "C" fn() -> i32,
        identity::setuid as extern "C" fn(libc::uid_t) -> i32,
        load::dlopen as unsafe extern "C" fn(*const c_char, i32) -> *mut c_void,
        load::dl_iterate_phdr as unsafe extern "C-unwind" fn(_, _) -> i32,
    ));
}
