//! Cancellation points.
//!
//! `pthread_cancel` leaves a mark on the thread and makes it look up: a thread that waits as a user
//! thread is unparked and asks [`Limits::interrupted`]; one that is blocked in the kernel gets a
//! signal of its own (number 32, which the C library uses for the same purpose and which is free
//! because its `pthread_cancel` is not called), until it has come back.
//!
//! Cancellation points are those functions of the shim that may wait. A thread that may be
//! cancelled anywhere (`PTHREAD_CANCEL_ASYNCHRONOUS`) and computes is sought by the courier (see
//! [`signal`](crate::signal)), which sends the same signal to the kernel thread that runs it:
//! [`look_up`] finds out whether it has hit the right one.

use crate::interrupt::Call;
use crate::signal::{self, courier, deliver};
use crate::state::{self, Thread, cancel};
use crate::sys;
use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::*;
use core::time::Duration;
use libc::siginfo_t;
use quaver::foreign::futex::{Deadline, Limits};
use quaver::foreign::thread::UserThread;
use quaver::foreign::{blocking, preempt, region, reserved};

/// `SIGCANCEL` of the C library.
const KICK: i32 = 32;
/// `PTHREAD_CANCELED`.
const CANCELLED: *mut c_void = usize::MAX as *mut c_void;

/// Makes the kernel leave a blocking call with `EINTR`, and a thread that computes look up.
pub(crate) fn install_kick() {
    reserved::install(KICK, look_up, reserved::How::OnKernelThread);
}

/// The handler of [`KICK`]: the interrupted thread sees to what is there for it. Unless it is in a
/// section of the runtime's, which may be a handler that has just begun.
///
/// The kernel restarts the calls that this interrupts. So where a call must end, its end is made
/// here: the thread goes on behind it, as if it had returned `EINTR`; also where it was about to be
/// made.
///
/// The kernel queues this signal. So it begins with all signals blocked, and only this process's
/// own let others in, once all of this signal have been taken: what another process sends in
/// masses is not delivered on top of each other, nor what a kernel thread has missed that had no
/// CPU for a while.
extern "C-unwind" fn look_up(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    extern "C-unwind" fn at_home(_: c_int, info: *mut siginfo_t, context: *mut c_void) {
        see_to(info, context, true);
    }
    // SAFETY: the kernel's arguments; nothing has been done.
    let at_home = unsafe { preempt::enter(signal, info, context, at_home) };
    see_to(info, context, at_home);
}

/// [`look_up`]; only `at_home` the thread may be left, and handlers run.
fn see_to(info: *mut siginfo_t, context: *mut c_void, at_home: bool) {
    // SAFETY: the kernel's arguments.
    unsafe {
        if (*info).si_code != libc::SI_TKILL || (*info).si_pid() != signal::process() {
            return;
        }
        // One look is as good as many.
        while courier::wait_for_kernels(signal::bit(KICK), Some(Duration::ZERO)).is_some() {}
        signal::set_kernel_mask(
            (&raw const (*context.cast::<libc::ucontext_t>()).uc_sigmask).cast::<u64>().read(),
        );
    }
    let errno = sys::saved_errno();
    if let Some(me) = state::me_in_handler() {
        me.kicked.store(0, Relaxed);
        if me.blocked_in.load(SeqCst) != 0 {
            // The call may be beneath another handler, whose calls are not to be ended.
            if deliver::is_outside_runtime(me, context) {
                end_call(context);
            }
        } else if at_home && deliver::is_interruptible(me, context) {
            look_up_here(me, context);
        } else if deliver::is_due(me)
            && !me.signals.in_section()
            && at_call(context)
            && me.uthread.get().is_some_and(UserThread::end_call)
        {
            end_call(context);
        }
    }
    sys::set_errno(errno);
}

fn look_up_here(me: &'static Thread, context: *mut c_void) {
    let hard = me.signals.handled_hard.get();
    let has_run = deliver::deliver(me, context);
    // A kernel thread has no other way to be woken from where the shim waits.
    if me.signals.handled_hard.get() != hard && may_be_interrupted(context)
        || me.signals.kernel_tid() != 0 && at_futex_wait(context)
    {
        end_call(context);
    }
    if has_run {
        // It may be about to wait, with no further look at what has happened.
        me.interrupt();
        if me.away_in.load(Relaxed) != 0 {
            // The handler may have come back to a worker.
            blocking::begin();
            me.away_in.store(sys::kernel_tid(), SeqCst);
        }
    }
    // The C library's cancellation points are left where it leaves them.
    let waits = || is_at_futex(context) && me.is_cancellable.load(SeqCst) && me.is_cancelled();
    if me.away_in.load(Relaxed) != 0 && waits() {
        me.is_cancellable.store(false, SeqCst);
        region::leave_handlers();
        crate::unwind::clean_up_own(me.own_buffer.get());
        test();
    }
    // A call of the shim's has an end of its own.
    if me.is_cancelled_anywhere() && me.calls.get() == 0 {
        // As the C library does it: out of the handler, through its frame.
        region::leave_handlers();
        test();
    }
}

/// The address of the instruction that a handler has interrupted.
pub(crate) fn interrupted_at(context: *mut c_void) -> usize {
    registers(context)[libc::REG_RIP as usize] as usize
}

fn registers<'a>(context: *mut c_void) -> &'a mut [i64; 23] {
    // SAFETY: the kernel's third argument to a handler.
    unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs }
}

/// Is the thread at the instruction of a system call? Not at the one by which a handler ends:
/// behind that there is nothing to go on with.
pub(crate) fn at_call(context: *mut c_void) -> bool {
    registers(context)[libc::REG_RAX as usize] != libc::SYS_rt_sigreturn
        // SAFETY: where a thread was interrupted.
        && unsafe { sys::is_syscall(interrupted_at(context)) }
}

/// Has a call just returned an error that comes with a signal?
pub(crate) fn has_failed(context: *mut c_void) -> bool {
    [libc::EPIPE, libc::EFBIG]
        .map(|errno| -i64::from(errno))
        .contains(&registers(context)[libc::REG_RAX as usize])
}

/// Is it at the call of a wait for a futex? Others on futexes have effects that must not be missed.
fn at_futex_wait(context: *mut c_void) -> bool {
    let [number, operation] =
        [libc::REG_RAX, libc::REG_RSI].map(|r| registers(context)[r as usize]);
    at_call(context)
        && number == libc::SYS_futex
        && matches!(
            operation as i32 & libc::FUTEX_CMD_MASK,
            libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET
        )
}

/// Is it a wait for a futex, or has that ended for the sake of the handler?
fn is_at_futex(context: *mut c_void) -> bool {
    at_futex_wait(context) || registers(context)[libc::REG_RAX as usize] == -i64::from(libc::EINTR)
}

/// Is it one that waits for others, and says `EINTR`?
fn may_be_interrupted(context: *mut c_void) -> bool {
    let [number, command] = [libc::REG_RAX, libc::REG_RSI].map(|r| registers(context)[r as usize]);
    at_futex_wait(context)
        || at_call(context)
            && match number {
                libc::SYS_fcntl => {
                    matches!(command as i32, libc::F_SETLKW | libc::F_OFD_SETLKW)
                }
                libc::SYS_read
                | libc::SYS_write
                | libc::SYS_readv
                | libc::SYS_writev
                | libc::SYS_recvfrom
                | libc::SYS_recvmsg
                | libc::SYS_sendto
                | libc::SYS_sendmsg
                | libc::SYS_accept
                | libc::SYS_accept4
                | libc::SYS_connect
                | libc::SYS_flock
                | libc::SYS_wait4
                | libc::SYS_waitid
                | libc::SYS_openat
                | libc::SYS_ioctl
                | libc::SYS_mq_timedreceive
                | libc::SYS_mq_timedsend => true,
                _ => false,
            }
}

/// The call at which the thread is, if it is at one, has been interrupted.
fn end_call(context: *mut c_void) {
    if at_call(context) {
        let registers = registers(context);
        registers[libc::REG_RIP as usize] += 2;
        registers[libc::REG_RAX as usize] = -i64::from(libc::EINTR);
    }
}

/// Sends `KICK` to the kernel thread in which `t` is blocked, if it is.
pub(crate) fn kick(t: &Thread) -> bool {
    let tid = t.blocked_in.load(Acquire);
    if tid != 0 {
        send_for(t, tid);
    }
    tid != 0
}

/// Sends `KICK` to the kernel thread in which `t` is blocked, or that runs it.
pub(crate) fn kick_anywhere(t: &Thread) {
    let known = [t.blocked_in.load(Acquire), t.away_in.load(Acquire), t.signals.kernel_tid()];
    let runs_on = || t.uthread.get().and_then(UserThread::runs_on);
    if let Some(tid) = known.into_iter().find(|&tid| tid != 0).or_else(runs_on) {
        send_for(t, tid);
    }
}

/// Sends `KICK` for the sake of `t`, unless one is on its way: the kernel queues them all, and
/// delivers them on top of each other to a kernel thread that has not run for a while. It may have
/// met another thread, so not for long.
fn send_for(t: &Thread, tid: i32) {
    const LONG: u64 = 5_000_000;
    let (now, last) = (crate::time::now(libc::CLOCK_MONOTONIC) as u64, t.kicked.load(Relaxed));
    if now.saturating_sub(last) > LONG
        && t.kicked.compare_exchange(last, now, Relaxed, Relaxed).is_ok()
    {
        send(tid);
    }
}

/// Sends `KICK` to a kernel thread.
pub(crate) fn send(tid: i32) {
    // SAFETY: no memory.
    unsafe {
        let pid = sys::call(libc::SYS_getpid, [0; 6]) as usize;
        sys::call(libc::SYS_tgkill, [pid, tid as usize, KICK as usize, 0, 0, 0]);
    }
}

/// `pthread_cancel`.
pub(crate) fn request(t: &'static Thread) -> c_int {
    t.cancel.fetch_or(cancel::PENDING, SeqCst);
    t.interrupt();
    // It may be about to make its call: until it is back it is kicked again.
    let is_away = || t.is_cancellable.load(SeqCst) && t.away_in.load(SeqCst) != 0;
    while t.is_cancelled() && (kick(t) || is_away()) {
        if is_away() {
            send_for(t, t.away_in.load(SeqCst));
        }
        crate::time::nap();
    }
    if t.is_cancelled_anywhere() {
        if state::me().is_some_and(|me| core::ptr::eq(me, t)) {
            test();
        }
        courier::seek(t);
    }
    0
}

/// Ends the calling thread if it has been cancelled.
#[inline]
pub(crate) fn test() {
    if let Some(me) = state::me()
        && me.is_cancelled()
    {
        crate::thread::pthread_exit(CANCELLED)
    }
}

/// A cancellation point: from before a wait to after it.
pub(crate) struct Point(Option<Call>);

impl Point {
    /// Ends the thread if it has been cancelled already.
    pub(crate) fn enter() -> Point {
        test();
        Point(state::me().map(|me| Call::begin(me, true)))
    }

    /// Calls `wait` with limits that cancellation ends, and a signal for the thread.
    pub(crate) fn wait<R>(
        &self,
        deadline: Option<Deadline>,
        wait: impl FnOnce(&Limits<'_>) -> R,
    ) -> R {
        let wanted = || self.0.as_ref().is_some_and(Call::is_wanted);
        let interrupted = self.0.as_ref().map(|_| &wanted as &dyn Fn() -> bool);
        wait(&Limits { deadline, interrupted })
    }

    /// Runs the handlers of signals for the thread. `false`: they have interrupted the call.
    pub(crate) fn deliver(&self) -> bool {
        self.0.as_ref().is_none_or(|call| {
            deliver::deliver_here(call.thread());
            // What the kernel calls is not counted here.
            !call.is_broken() && signal::managed().is_some()
        })
    }

    /// [`Point::deliver`]; ends the thread if it has been cancelled meanwhile.
    pub(crate) fn leave(self) {
        self.deliver();
        drop(self);
        test();
    }
}

const PTHREAD_CANCEL_ENABLE: c_int = 0;
const PTHREAD_CANCEL_DISABLE: c_int = 1;
const PTHREAD_CANCEL_DEFERRED: c_int = 0;
const PTHREAD_CANCEL_ASYNCHRONOUS: c_int = 1;

/// See `pthread_setcancelstate(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_setcancelstate(new: c_int, old: *mut c_int) -> c_int {
    let Some(me) = state::me() else { return 0 };
    let before = match new {
        PTHREAD_CANCEL_ENABLE => me.cancel.fetch_and(!cancel::DISABLED, SeqCst),
        PTHREAD_CANCEL_DISABLE => me.cancel.fetch_or(cancel::DISABLED, SeqCst),
        _ => return libc::EINVAL,
    };
    if !old.is_null() {
        // SAFETY: the caller's contract.
        unsafe { old.write(c_int::from(before & cancel::DISABLED != 0)) };
    }
    now_or_never(me);
    0
}

/// See `pthread_setcanceltype(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_setcanceltype(new: c_int, old: *mut c_int) -> c_int {
    let Some(me) = state::me() else { return 0 };
    let before = match new {
        PTHREAD_CANCEL_DEFERRED => me.cancel.fetch_and(!cancel::ASYNC, SeqCst),
        PTHREAD_CANCEL_ASYNCHRONOUS => me.cancel.fetch_or(cancel::ASYNC, SeqCst),
        _ => return libc::EINVAL,
    };
    if !old.is_null() {
        // SAFETY: the caller's contract.
        unsafe { old.write(c_int::from(before & cancel::ASYNC != 0)) };
    }
    now_or_never(me);
    0
}

/// A thread that may be cancelled anywhere from now on, and has been.
fn now_or_never(me: &Thread) {
    if me.is_cancelled_anywhere() {
        test();
    }
}

/// See `pthread_testcancel(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn pthread_testcancel() {
    test();
}
