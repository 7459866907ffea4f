//! What `pthread_create` is asked for.

use crate::real::real;
use crate::say::{Once, once};
use crate::schedule::Schedule;
use crate::start;
use core::ffi::{c_int, c_long, c_void};
use core::ptr;
use libc::pthread_attr_t;
use quaver::foreign::thread::{WantedStack, smallest_memory};

unsafe extern "C" {
    fn pthread_attr_getdetachstate(attr: *const pthread_attr_t, state: *mut c_int) -> c_int;
}

/// What an attribute object says that matters here.
pub(crate) struct Attributes {
    pub(crate) detached: bool,
    pub(crate) stack: WantedStack,
    pub(crate) schedule: Schedule,
}

impl Attributes {
    /// Reads `attr`; null: the defaults. The error is `pthread_create`'s.
    ///
    /// # Safety
    ///
    /// `attr` is null or an initialised attribute object.
    pub(crate) unsafe fn of(attr: *const pthread_attr_t) -> Result<Attributes, c_int> {
        // SAFETY: the caller's contract.
        let schedule = unsafe { Schedule::of_new(attr) }?;
        let (mut state, mut at, mut length) = (0, ptr::null_mut::<c_void>(), 0usize);
        let mut size = 0;
        if !attr.is_null() {
            // SAFETY: an initialised attribute object, and room for the answers.
            unsafe {
                pthread_attr_getdetachstate(attr, &mut state);
                libc::pthread_attr_getstack(attr, &mut at, &mut length);
                libc::pthread_attr_getstacksize(attr, &mut size);
            }
        }
        // Without a stack of the program's the address is what a null end gives.
        let end = (at as usize).wrapping_add(length);
        let stack = if end == 0 { sized(size) } else { WantedStack::Memory(at as usize..end) };
        Ok(Attributes { detached: state == libc::PTHREAD_CREATE_DETACHED, stack, schedule })
    }

    /// The program's stack, if there is one.
    pub(crate) fn own_stack(&self) -> Option<(usize, usize)> {
        match &self.stack {
            WantedStack::Memory(memory) => Some((memory.start, memory.end)),
            WantedStack::Size(_) => None,
        }
    }
}

/// What `pthread_create` returns where the runtime makes no thread.
pub(crate) fn refusal(error: &std::io::Error) -> c_int {
    if error.kind() != std::io::ErrorKind::InvalidInput {
        return libc::EAGAIN;
    }
    once(
        Once::Stack,
        format_args!(
            "a thread's own stack is too small for what a preemption leaves there (pthread_create \
             fails with EINVAL)"
        ),
    );
    libc::EINVAL
}

/// What a program that asks is told of the smallest stack, which is what preemption needs.
fn configured(name: c_int, said: c_long) -> c_long {
    match name {
        libc::_SC_THREAD_STACK_MIN => said.max(smallest_memory() as c_long),
        _ => said,
    }
}

/// See `sysconf(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn sysconf(name: c_int) -> c_long {
    // SAFETY: no memory.
    configured(name, unsafe { real!(sysconf(name => c_int) -> c_long) })
}

/// `sysconf` under another name: what `PTHREAD_STACK_MIN` calls.
#[unsafe(no_mangle)]
pub extern "C" fn __sysconf(name: c_int) -> c_long {
    // SAFETY: no memory.
    configured(name, unsafe { real!(__sysconf(name => c_int) -> c_long) })
}

/// What a thread gets that asks for this size; one of the runtime's stacks if that is what it would
/// get without asking.
fn sized(size: usize) -> WantedStack {
    WantedStack::Size(if size == start::default_size() { 0 } else { size })
}
