//! The courier: a kernel thread that takes the process's signals from the kernel, and makes threads
//! look up.
//!
//! It is the process's first kernel thread, whose number is that of the process and of the
//! program's main thread: so what others send to the main thread by its number comes here as well.
//! Where that thread does not wait for the program's end it is one of its own: in the children of
//! `fork`, and where threads were made before `main`.
//!
//! A thread may be deaf when it is told of a signal: in a section of the runtime's, about to make a
//! system call, preempted. So it is told again until it has looked up.
//!
//! ```text
//!   asleep in sigtimedwait --a signal, or tell()--> take all that is pending
//!            ^                                               v
//!            '-------- nobody left, or after 200 us -- tell those who should look up
//! ```

use super::{RESERVED, bit, file, queue, send, signals_of};
use crate::cancel;
use crate::state::{self, Thread};
use crate::sys::{self, call};
use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::*};
use libc::{siginfo_t, timespec};
use quaver::foreign::futex::{self, Deadline, Limits};
use std::time::Duration;

/// Its kernel thread; 0: there is none.
static TID: AtomicI32 = AtomicI32::new(0);
/// The process's first kernel thread will be it.
static IS_COMING: AtomicBool = AtomicBool::new(false);
/// It waits for ever, and whoever has news must wake it.
static ASLEEP: AtomicBool = AtomicBool::new(false);
/// How often it was told that there is something to do, and up to where that is done: a futex word.
static TOLD: AtomicU32 = AtomicU32::new(0);
static DONE: AtomicU32 = AtomicU32::new(0);

/// Between two looks at those who should look up.
const AGAIN: Duration = Duration::from_micros(200);

/// The calling kernel thread, which is the process's first one, [will be it](carry) unless there is
/// one already.
pub(super) fn is_coming() {
    IS_COMING.store(true, Relaxed);
}

/// Starts it, and waits until it takes signals, unless it is coming.
pub(super) fn start() {
    if IS_COMING.load(Relaxed) {
        return;
    }
    state::set_internal(true);
    let courier = std::thread::Builder::new().name("quaver-keeper".into()).stack_size(128 * 1024);
    if let Err(e) = courier.spawn(|| carry()) {
        crate::say::fatal(format_args!("cannot start a kernel thread: {e}"));
    }
    state::set_internal(false);
    until_running();
}

/// In the child of a fork.
pub(super) fn in_child() {
    TID.store(0, Relaxed);
    IS_COMING.store(false, Relaxed);
    ASLEEP.store(false, Relaxed);
    STRANGER.state.store(EMPTY, Relaxed);
    HELD.store(0, Relaxed);
}

/// Waits until it takes signals.
pub(crate) fn until_running() {
    while TID.load(Acquire) == 0 {
        crate::time::nap();
    }
}

pub(super) fn is_running() -> bool {
    TID.load(Relaxed) != 0
}

/// There is something to do. Async-signal-safe. Returns when that was.
pub(crate) fn tell() -> u32 {
    let now = TOLD.fetch_add(1, SeqCst).wrapping_add(1);
    if ASLEEP.swap(false, SeqCst) {
        cancel::send(TID.load(Relaxed));
    }
    now
}

/// Waits until everything that the kernel had for the process when this was called is in its queue.
pub(crate) fn synchronise() {
    if !is_running() {
        return;
    }
    let until = tell();
    loop {
        let done = DONE.load(Acquire);
        if done.wrapping_sub(until) as i32 >= 0 {
            return;
        }
        futex::wait(&DONE, done, &Limits::NONE);
    }
}

/// How many want it to take nothing from the kernel: a futex word.
static HELD: AtomicU32 = AtomicU32::new(0);

/// The courier takes nothing until this ends.
pub(super) struct Hold(());

/// Makes it take what the kernel has, and then nothing any more.
pub(super) fn hold() -> Hold {
    synchronise();
    HELD.fetch_add(1, SeqCst);
    // It may be taking some.
    synchronise();
    Hold(())
}

impl Drop for Hold {
    fn drop(&mut self) {
        if HELD.fetch_sub(1, SeqCst) == 1 {
            futex::wake(&HELD, u32::MAX);
        }
    }
}

/// The kernel lets nobody send a thread other than himself a signal with the code of `kill`,
/// `tgkill` or the kernel. So those of forwarded signals are lower by this on their way.
const FORWARDED: c_int = -(1 << 20);

/// Hands a signal that the kernel has delivered to the calling kernel thread to the courier.
/// Async-signal-safe.
pub(super) fn forward(info: *mut siginfo_t) {
    let tid = TID.load(Relaxed) as usize;
    // The calls that follow are not to be ended for the sake of the one that was interrupted.
    let _section = super::Section::enter();
    // SAFETY: complete, from the kernel; the process may send itself what it likes.
    unsafe {
        let mut sent = *info;
        if sent.si_code >= 0 || sent.si_code == libc::SI_TKILL {
            sent.si_code += FORWARDED;
        }
        let (pid, signal) = (super::process() as usize, sent.si_signo as usize);
        call(libc::SYS_rt_tgsigqueueinfo, [pid, tid, signal, &raw const sent as usize, 0, 0]);
    }
}

/// A preemption signal of somebody else's: one, as the kernel keeps of those that it does not
/// queue.
struct Stranger {
    state: AtomicU32,
    info: UnsafeCell<MaybeUninit<siginfo_t>>,
}

// SAFETY: `info` belongs to who has made `state` `TAKEN`, then, when it is `FULL`, to the courier.
unsafe impl Sync for Stranger {}

static STRANGER: Stranger =
    Stranger { state: AtomicU32::new(EMPTY), info: UnsafeCell::new(MaybeUninit::uninit()) };
const EMPTY: u32 = 0;
const TAKEN: u32 = 1;
const FULL: u32 = 2;

/// Takes what has come by the preemption signal and is not the runtime's. Its handler may be
/// interrupted by the next one, so what comes in masses must not make a system call each time.
///
/// # Safety
///
/// `info` is the kernel's.
pub(super) unsafe extern "C" fn take_stranger(info: *mut siginfo_t) {
    // In the child of a fork the kernel has the program's action for it.
    if !is_running() || STRANGER.state.compare_exchange(EMPTY, TAKEN, AcqRel, Relaxed).is_err() {
        return;
    }
    // As in `forward`.
    let _section = super::Section::enter();
    // SAFETY: complete, from the kernel; `TAKEN` by this call.
    unsafe { (*STRANGER.info.get()).write(*info) };
    STRANGER.state.store(FULL, Release);
    tell();
}

fn receive_stranger() {
    if STRANGER.state.load(Acquire) == FULL {
        // SAFETY: `FULL`, and this is the courier.
        let info = unsafe { (*STRANGER.info.get()).assume_init() };
        STRANGER.state.store(EMPTY, Release);
        send::to_process(&info);
    }
}

/// Takes a signal from the kernel; waits for one, or to be told of something, for so long.
fn take(limit: Option<Duration>) -> Option<siginfo_t> {
    wait_for_kernels(!bit(33) & !file::left(), limit)
}

/// Waits for a signal of `set` from the kernel, all of which the calling kernel thread blocks, for
/// less than a second or for ever.
pub(crate) fn wait_for_kernels(set: u64, limit: Option<Duration>) -> Option<siginfo_t> {
    // SAFETY: an all-zero structure, filled by the kernel; a complete set.
    unsafe {
        let mut info: siginfo_t = core::mem::zeroed();
        let limit = limit.map(|t| timespec { tv_sec: 0, tv_nsec: t.subsec_nanos().into() });
        let limit = limit.as_ref().map_or(0, |t| core::ptr::from_ref(t) as usize);
        let (set, at) = (&raw const set as usize, &raw mut info as usize);
        let signal = call(libc::SYS_rt_sigtimedwait, [set, at, limit, 8, 0, 0]);
        (signal > 0).then_some(info)
    }
}

/// The calling kernel thread is it from now on.
pub(super) fn carry() -> ! {
    // All are only ever waited for, those of faults too, which others forward.
    // SAFETY: nothing is delivered on this kernel thread.
    unsafe { super::set_kernel_mask(!bit(33)) };
    TID.store(sys::kernel_tid(), Release);
    loop {
        let told = TOLD.load(SeqCst);
        receive_stranger();
        let held = HELD.load(SeqCst);
        while held == 0
            && let Some(info) = take(Some(Duration::ZERO))
        {
            receive(info);
        }
        DONE.store(told, Release);
        futex::wake(&DONE, u32::MAX);
        if held != 0 {
            // Not for long: others may be waiting for an answer.
            let deadline = Some(Deadline::after(AGAIN));
            futex::wait(&HELD, held, &Limits { deadline, ..Limits::NONE });
            continue;
        }
        let limit = if tell_threads() { Some(AGAIN) } else { None };
        if limit.is_none() {
            ASLEEP.store(true, SeqCst);
            if TOLD.load(SeqCst) != told {
                ASLEEP.store(false, SeqCst);
                continue;
            }
        }
        let info = take(limit);
        ASLEEP.store(false, SeqCst);
        if let Some(info) = info {
            receive(info);
        }
    }
}

/// Its own signal has only woken it. What was sent to its number by `tgkill`, and not forwarded, is
/// for the main thread.
fn receive(mut info: siginfo_t) {
    if RESERVED & bit(info.si_signo) != 0 {
        return;
    }
    let is_forwarded = (FORWARDED + libc::SI_TKILL..FORWARDED / 2).contains(&info.si_code);
    if is_forwarded {
        info.si_code -= FORWARDED;
    }
    match state::main_thread().filter(|main| main.ended.load(Acquire) == 0) {
        Some(main) if !is_forwarded && info.si_code == libc::SI_TKILL => {
            send::to_thread(main, &info);
        }
        _ => send::to_process(&info),
    }
}

/// Should `t` look up?
fn is_wanted(t: &Thread) -> bool {
    let mask = t.signals.mask.load(SeqCst);
    let due = t.signals.own() & (!mask | t.signals.waits_for.load(SeqCst)) != 0
        || t.is_cancelled_anywhere();
    due && t.ended.load(Acquire) == 0
}

/// From now on the courier makes `t` look up, until it need not any more.
pub(crate) fn seek(t: &'static Thread) {
    let locked = queue::locked();
    queue::seek(&locked, t);
    wake(t);
    drop(locked);
    tell();
}

/// Is there a thread whose call has brought about a signal that it may not know of?
static BROUGHT: AtomicBool = AtomicBool::new(false);

/// From now on the courier makes those look up whose calls have brought about signals.
/// Async-signal-safe.
pub(super) fn look_for_brought() {
    BROUGHT.store(true, SeqCst);
    tell();
}

/// Makes those look up who should. `false`: there are none.
fn tell_threads() -> bool {
    if BROUGHT.swap(false, SeqCst) {
        let locked = queue::locked();
        queue::find(&locked, |t| {
            if t.signals.brought.load(SeqCst) != 0 {
                queue::seek(&locked, t);
            }
            false
        });
    }
    // Released without the lock, for then it may be freed.
    loop {
        let locked = queue::locked();
        let found = queue::each_sought(&locked, is_wanted);
        drop(locked);
        match found {
            Some(found) => found.release(),
            None => break,
        }
    }
    let locked = queue::locked();
    let mut any = false;
    for signal in signals_of(queue::PROCESS.bits()) {
        if let Some(taker) = taker(&locked, signal) {
            any = true;
            wake(taker);
        }
    }
    let found = core::cell::Cell::new(false);
    queue::each_sought(&locked, |t| {
        found.set(true);
        wake(t);
        true
    });
    any || found.get()
}

/// Who should take a signal of the process's: the main thread, if it does not block it; who waits
/// for it; anybody else who does not block it.
pub(super) fn taker(locked: &queue::Locked, signal: c_int) -> Option<&'static Thread> {
    let allows =
        |t: &Thread| t.signals.mask.load(SeqCst) & bit(signal) == 0 && t.ended.load(Acquire) == 0;
    let awaits = |t: &Thread| t.signals.waits_for.load(SeqCst) & bit(signal) != 0;
    state::main_thread()
        .filter(|main| allows(main))
        .or_else(|| queue::find(locked, awaits))
        .or_else(|| queue::find(locked, allows))
}

/// Makes `t` look up, if it hears.
pub(super) fn wake(t: &Thread) {
    t.interrupt();
    cancel::kick_anywhere(t);
}
