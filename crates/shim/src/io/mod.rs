//! Calls that may block in the kernel.
//!
//! # How
//!
//! A call is first tried in a form that does not wait (`RWF_NOWAIT`, `MSG_DONTWAIT`, a timeout of
//! 0). If it would have to wait, other threads of the worker get a chance first, for they may be
//! the ones that are waited for. Then
//!
//! * on files that can be waited for, the thread parks until the reactor says that the file may be
//!   ready, and the call is tried again: [`quaver::foreign::calls`], which Rust programs share;
//! * otherwise the worker is given to a spare kernel thread and the program's own call is made
//!   outside the workers (*hand-over*): a helper pool whose helper is the kernel thread that runs
//!   the user thread already.
//!
//! A hand-over keeps the exact meaning of every call and serves those for which there is no other
//! way (`wait`, `flock`, `system`). Its price is a kernel thread for each blocked thread, and two
//! wake-ups of kernel threads: `scripts/blocking_cost.sh` measures it.
//!
//! # Interruption
//!
//! A call that returns `EINTR` because the thread should look up ends; handlers run when it is on a
//! worker again, and unless they have interrupted it, it is made again, with what is left of its
//! timeout. So it is when the preemption signal has hit a kernel thread that has just given its
//! worker away.

pub(crate) mod descriptors;
mod files;
mod others;
mod poll;
mod processes;
mod served;
mod sockets;
mod spawn;

use crate::cancel;
use crate::interrupt::Call;
use crate::signal::mask::Temporary;
use crate::signal::{self, Section, deliver};
use crate::state::{self, Thread};
use crate::sys::{self, call, is_nonblocking, ready, returned};
use crate::unwind::last_own_buffer;
use core::cell::Cell;
use core::ffi::{c_int, c_long, c_short};
use core::sync::atomic::Ordering::*;
use libc::{EAGAIN, EFBIG, EINTR, EPIPE, iovec};
use quaver::foreign::calls::{self, Caller, CannotWait, Operation, Parked, WOULD_WAIT};
use quaver::foreign::{blocking, overlay, region, thread};

const EAGAIN_: isize = -(EAGAIN as isize);
const EINTR_: isize = -(EINTR as isize);

/// What handlers with `SA_RESTART` do to a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restart {
    /// It goes on.
    Yes,
    /// It ends, as with others.
    Never,
}

/// The calling thread, if it may give its worker away, or is a kernel thread whose signals are the
/// shim's affair.
#[inline]
fn blocker() -> Option<&'static Thread> {
    state::me().filter(|_| match thread::current() {
        Some(_) => !region::in_runtime(),
        None => signal::managed().is_some(),
    })
}

/// The worker of a thread has been given away for a call of the C library's.
struct Away(&'static Thread);

impl Drop for Away {
    fn drop(&mut self) {
        self.0.away_in.store(0, SeqCst);
        self.0.is_cancellable.store(false, SeqCst);
        blocking::end();
    }
}

/// Runs `f`, which blocks in the kernel and is no cancellation point, outside the workers. Handlers
/// run meanwhile.
pub(crate) fn off_worker<T>(f: impl FnOnce() -> T) -> T {
    run_away(false, f)
}

/// [`off_worker`] for a cancellation point, which can be left where the C library waits for a
/// futex, as it does it itself.
pub(crate) fn cancellable_off_worker<T>(f: impl FnOnce() -> T) -> T {
    cancel::test();
    let result = run_away(true, f);
    cancel::test();
    result
}

fn run_away<T>(is_cancellable: bool, f: impl FnOnce() -> T) -> T {
    let Some(me) = blocker().filter(|_| !signal::in_child_of_vfork()) else { return f() };
    blocking::begin();
    let away = Away(me);
    if is_cancellable {
        me.own_buffer.set(last_own_buffer());
        me.is_cancellable.store(true, SeqCst);
    }
    me.away_in.store(sys::kernel_tid(), SeqCst);
    let result = f();
    let errno = sys::saved_errno();
    drop(away);
    deliver::deliver_here(me);
    sys::set_errno(errno);
    result
}

/// Makes a call outside the workers until it says something else than that the thread should look
/// up. `make` is told whether it is repeated.
fn wait_for(call: &Call, mut make: impl FnMut(bool) -> isize) -> isize {
    let me = call.thread();
    let mut again = false;
    loop {
        blocking::begin();
        me.blocked_in.store(sys::kernel_tid(), SeqCst);
        let result = loop {
            // A request that came before `blocked_in` was set; one that comes later kicks.
            if call.is_wanted() {
                break EINTR_;
            }
            let result = make(again);
            again = true;
            if result != EINTR_ {
                break result;
            }
        };
        me.blocked_in.store(0, SeqCst);
        blocking::end();
        if me.is_cancelled() {
            return result;
        }
        if result != EINTR_ {
            deliver::deliver_here(me);
            return result;
        }
        deliver::deliver_here(me);
        if call.is_broken() {
            return EINTR_;
        }
    }
}

/// Calls on user threads whose signals are the shim's affair.
#[derive(Clone, Copy)]
struct Shim;

impl Caller for Shim {
    fn call(self, number: c_long, arguments: [usize; 6]) -> isize {
        raw(number, arguments)
    }

    fn perform(self, restarts: bool, operation: &mut impl Operation) -> isize {
        perform(operation, |me| Call::begin(me, restarts))
    }
}

/// The same of calls that have a mask, and no handler that lets them go on.
#[derive(Clone, Copy)]
struct Masked<'a>(&'a Temporary);

impl Caller for Masked<'_> {
    fn call(self, number: c_long, arguments: [usize; 6]) -> isize {
        raw(number, arguments)
    }

    fn perform(self, restarts: bool, operation: &mut impl Operation) -> isize {
        debug_assert!(!restarts);
        perform(operation, |me| self.0.call().unwrap_or_else(|| Call::begin(me, restarts)))
    }
}

fn perform(operation: &mut impl Operation, begin: impl FnOnce(&'static Thread) -> Call) -> isize {
    let Some(me) = blocker() else { return block_here(operation) };
    cancel::test();
    let turn_is_over = !signal::in_child_of_vfork() && calls::at_call();
    let call = begin(me);
    let mut result = WOULD_WAIT;
    if !operation.keeps_file() {
        result = try_now(&call, operation);
        if result == WOULD_WAIT && signal::in_child_of_vfork() {
            // What the thread leaves its worker to must not run here.
            return block_here(operation);
        }
        if result == WOULD_WAIT && thread::try_yield_before_wait() {
            result = try_now(&call, operation);
        }
    }
    let waits = result == WOULD_WAIT;
    if waits {
        result = wait_as_thread(&call, operation);
    }
    drop(call);
    if waits {
        cancel::test();
    } else if turn_is_over {
        calls::has_not_waited(operation, result);
    }
    result
}

/// Makes the call in the kernel, whoever the caller is.
fn block_here(operation: &mut impl Operation) -> isize {
    let result = operation.block(false, &|| true);
    if result < 0 { operation.end(result) } else { result }
}

fn try_now(call: &Call, operation: &mut impl Operation) -> isize {
    loop {
        let result = operation.first();
        if result != EINTR_ {
            return result;
        }
        // Even what does not wait says so when the runtime's signal comes with it.
        if call.is_broken() {
            return operation.end(result);
        }
    }
}

/// Waits as a user thread if that is possible, otherwise outside the workers.
fn wait_as_thread(call: &Call, operation: &mut impl Operation) -> isize {
    let me = call.thread();
    // Where a socket has a limit all handlers end its calls.
    let (strict, is_strict) = (Call::begin(me, false), Cell::new(false));
    let is_broken = || if is_strict.get() { strict.is_broken() } else { call.is_broken() };
    let wanted = || call.is_wanted() || is_strict.get() && strict.is_broken();
    let mut deadline = None;
    loop {
        let parked = {
            // A handler that is left by a jump would leave traces of the wait behind.
            let _section = Section::enter();
            let until = |operation: &_| {
                if signal::in_child_of_vfork() {
                    return Err(CannotWait);
                }
                Ok(*deadline.get_or_insert_with(|| {
                    let (deadline, is_of_socket) = calls::deadline(operation);
                    is_strict.set(is_of_socket);
                    deadline
                }))
            };
            calls::park(operation, until, &wanted)
        };
        match parked {
            Parked::Impossible if signal::in_child_of_vfork() => return block_here(operation),
            Parked::Impossible => {
                let result = wait_for(call, |_| operation.block(true, &is_broken));
                return if result < 0 { operation.end(result) } else { result };
            }
            Parked::Done(result) => {
                if !me.is_cancelled() {
                    deliver::deliver_here(me);
                }
                return result;
            }
            Parked::TimedOut => return operation.timed_out(),
            Parked::Interrupted if me.is_cancelled() => return EINTR_,
            Parked::Interrupted => {
                deliver::deliver_here(me);
                // A part that was transferred ends the call, too.
                if is_broken() || operation.progress() > 0 {
                    return operation.end(EINTR_);
                }
            }
        }
        if !operation.keeps_file() {
            let result = try_now(call, operation);
            if result != WOULD_WAIT {
                return result;
            }
        }
    }
}

/// A call that may wait for what nobody announces: `first` tries without waiting and says `EAGAIN`
/// if it would, `real` is the program's call.
fn try_then_wait(
    restart: Restart,
    first: impl Fn() -> isize,
    real: impl FnMut(bool) -> isize,
) -> isize {
    let mut real = real;
    let Some(me) = blocker() else { return real(false) };
    cancel::test();
    let call = Call::begin(me, restart == Restart::Yes);
    // Even what does not wait says EINTR when the runtime's signal comes with it.
    let first = || loop {
        let result = first();
        if result != EINTR_ || call.is_broken() {
            return result;
        }
    };
    let mut result = first();
    if result == EAGAIN_ && signal::in_child_of_vfork() {
        // What the thread leaves its worker to must not run here.
        return real(false);
    }
    if result == EAGAIN_ && thread::try_yield_before_wait() {
        result = first();
    }
    if result == EAGAIN_ {
        result = wait_for(&call, real);
        drop(call);
        cancel::test();
    }
    result
}

fn raw(number: c_long, a: [usize; 6]) -> isize {
    // SAFETY: the program's own arguments.
    let result = unsafe { overlay::call(number, a, true).unwrap_or_else(|| call(number, a)) };
    // What the kernel sends along with these comes before the call returns.
    if (result == -(EPIPE as isize) || result == -(EFBIG as isize))
        && let Some(me) = signal::managed()
        && me.blocked_in.load(Relaxed) == 0
        && !me.signals.in_section()
    {
        deliver::deliver_here(me);
    }
    result
}

/// A call on `fd` that can only be made in its waiting form: made at once if `fd` is ready for
/// `events` or does not wait.
fn when_ready(fd: c_int, events: c_short, number: c_long, a: [usize; 6]) -> isize {
    let first = || {
        if ready(fd, events) || is_nonblocking(fd) { raw(number, a) } else { EAGAIN_ }
    };
    // A call that says EAGAIN by itself does not wait when it is repeated.
    returned(try_then_wait(Restart::Yes, first, |_| raw(number, a)))
}

/// A call that is worth a hand-over whenever it is made.
pub(crate) fn always(restart: Restart, number: c_long, a: [usize; 6]) -> c_int {
    returned(try_then_wait(restart, || EAGAIN_, |_| raw(number, a))) as c_int
}

/// `vec` without its first `done` bytes.
fn rest(vec: &[iovec], mut done: usize) -> Vec<iovec> {
    let mut left = Vec::with_capacity(vec.len());
    for v in vec {
        let skip = done.min(v.iov_len);
        done -= skip;
        if skip < v.iov_len {
            let base = v.iov_base.cast::<u8>().wrapping_add(skip).cast();
            left.push(iovec { iov_base: base, iov_len: v.iov_len - skip });
        }
    }
    left
}

macro_rules! aliases {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty = $body:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// As in the manual.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> $ret { $body }
    )*};
}
use aliases;
