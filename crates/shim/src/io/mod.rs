//! Calls that may block in the kernel.
//!
//! # How
//!
//! A call is first tried in a form that does not wait (`RWF_NOWAIT`, `MSG_DONTWAIT`, a timeout of
//! 0). If it would have to wait, other threads of the worker get a chance first, for they may be
//! the ones that are waited for. Then the worker is given to a spare kernel thread and the
//! program's own call is made outside the workers (*hand-over*): a helper pool whose helper is the
//! kernel thread that runs the user thread already.
//!
//! Why not io_uring: a hand-over keeps the exact meaning of every call (signals, timeouts, partial
//! transfers, `close` and `dup` from other threads, file locks, terminals), serves calls for which
//! there is no operation (`wait`, `flock`, `system`) in the same way, and works where io_uring is
//! forbidden (most containers). The price is a kernel thread for each blocked thread, as before the
//! program came here, and two wake-ups of kernel threads where a worker that waits for a ring has
//! one: `scripts/blocking_cost.sh` measures it, `docs/shim.md` has the numbers.
//!
//! # Interruption
//!
//! A call that returns `EINTR` because the thread should look up ends; handlers run when it is on a
//! worker again, and unless they have interrupted it, it is made again, with what is left of its
//! timeout. So it is when the preemption signal has hit a kernel thread that has just given its
//! worker away.

mod files;
mod others;
mod poll;
mod processes;
mod sockets;
mod spawn;

use crate::cancel;
use crate::interrupt::Call;
use crate::signal::{self, deliver};
use crate::state::{self, Thread};
use crate::sys::{self, call, is_nonblocking, ready, returned};
use crate::unwind::last_own_buffer;
use core::ffi::{c_int, c_long, c_short};
use core::sync::atomic::Ordering::*;
use libc::{EAGAIN, EFBIG, EINTR, EPIPE, iovec};
use quaver::foreign::{blocking, region, thread};

const EAGAIN_: isize = -(EAGAIN as isize);
const EINTR_: isize = -(EINTR as isize);

/// What handlers with `SA_RESTART` do to a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Restart {
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

/// A call that may wait: `first` tries without waiting and says `EAGAIN` if it would, `real` is the
/// program's call.
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
    if result == EAGAIN_ && thread::try_yield() {
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
    let result = unsafe { call(number, a) };
    // What the kernel sends along with these comes before the call returns.
    if (result == -(EPIPE as isize) || result == -(EFBIG as isize))
        && let Some(me) = signal::managed()
        && me.blocked_in.load(Relaxed) == 0
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
fn always(restart: Restart, number: c_long, a: [usize; 6]) -> c_int {
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
