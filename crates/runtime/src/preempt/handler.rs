//! The receive path for signals. The protocol is in this folder's README.

use super::ranges::Code;
use crate::arch::{entry, pkru, resume};
use crate::runtime::Inner;
use crate::sys;
use crate::thread::control::Uthread;
use crate::tsc;
use crate::worker::carrier::{After, Carrier};
use crate::worker::scheduler;
use crate::worker::slot::Slot;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::*, compiler_fence};
use libc::ucontext_t;
use quaver_sched::Why;
use std::io;

static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// Leave the handler by `rt_sigreturn` even where user-mode resume would work.
static USE_SIGRETURN: AtomicBool = AtomicBool::new(false);
/// Handlers return to the kernel's trampoline.
static SHADOW_STACK: AtomicBool = AtomicBool::new(false);

/// Does this process run with CET shadow stacks, under which user-mode resume is impossible?
pub(crate) fn shadow_stack_active() -> bool {
    const ARCH_SHSTK_STATUS: u64 = 0x5005;
    let mut features = 0u64;
    // SAFETY: the kernel writes one word, or fails.
    let r = unsafe {
        sys::syscall3(libc::SYS_arch_prctl, ARCH_SHSTK_STATUS, &mut features as *mut _ as u64, 0)
    };
    r == 0 && features & 1 != 0
}

/// Installs the handler for `signal`. `mark` is [`entry::handler`]'s.
///
/// # Errors
///
/// `AlreadyExists` when the program uses the signal itself; the kernel's error otherwise.
pub(crate) fn install(signal: i32, use_sigreturn: bool, mark: Option<usize>) -> io::Result<()> {
    let shadow_stack = shadow_stack_active();
    SHADOW_STACK.store(shadow_stack, Relaxed);
    USE_SIGRETURN.store(use_sigreturn || shadow_stack, Relaxed);
    // SAFETY: complete sigactions; the handler keeps the rules of this folder's README.
    unsafe {
        let mut old: libc::sigaction = core::mem::zeroed();
        if libc::sigaction(signal, core::ptr::null(), &mut old) != 0 {
            return Err(io::Error::last_os_error());
        }
        let ours = entry::handler(mark);
        if old.sa_sigaction != libc::SIG_DFL
            && old.sa_sigaction != libc::SIG_IGN
            && old.sa_sigaction != ours
        {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let mut new: libc::sigaction = core::mem::zeroed();
        new.sa_sigaction = ours;
        // On the thread's own stack (no SA_ONSTACK), because the thread may be left in the middle of the handler.
        new.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_RESTART;
        if libc::sigaction(signal, &new, core::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    SIGNAL.store(signal, Relaxed);
    Ok(())
}

/// The handler. `SA_NODEFER` and an empty mask: the kernel changes no mask on entry, so none has to be restored.
/// `closed`: the interrupted thread, if [`entry`] has closed its gate already.
pub(crate) unsafe extern "C" fn on_signal(
    _sig: i32,
    info: *mut libc::siginfo_t,
    uc: *mut libc::c_void,
    closed: Option<&'static Uthread>,
) {
    let uc = uc.cast::<ucontext_t>();
    // A stray signal may reach a kernel thread that is no carrier (gs = 0): only the senders of this process's clocks
    // are heeded, and they aim at carriers. A carrier that ends clears `gs` after its clock has stopped.
    // SAFETY: the kernel filled `info`.
    let code = unsafe { (*info).si_code };
    let ours = code == libc::SI_TKILL || code == libc::SI_TIMER;
    let source = if code == libc::SI_TIMER { Source::Timer } else { Source::Clock };
    // SAFETY: attached where there is a thread; `uc` is the context of the frame that we are in.
    unsafe {
        let gate = match closed {
            Some(t) => Some((t, t.no_preempt.get() - 1)),
            None if !ours || !crate::thread::raw::attached() => return,
            None => crate::thread::raw::current().map(|t| (t, close_gate(t))),
        };
        match gate {
            Some((t, gate)) => {
                if ours {
                    judge(source, t, gate, uc);
                }
                leave_handler(t, gate, uc);
            }
            None => in_scheduler(),
        }
    }
}

/// Closes the gate, before anything else: from here on nothing moves the thread, and `pending` keeps the sender quiet. Returns
/// what it was.
#[inline(always)]
pub(super) fn close_gate(t: &Uthread) -> u32 {
    let gate = t.no_preempt.get();
    t.no_preempt.set(gate + 1);
    compiler_fence(SeqCst);
    gate
}

/// Who asks for a preemption.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// A clock's thread, which has written in the slot what dispatch it means.
    Clock,
    /// A POSIX timer, which knows nothing of dispatches.
    Timer,
    /// [`inspect`](super::inspect): whatever runs, whatever the policy says.
    #[cfg(feature = "inspect")]
    Forced,
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Dropped: nothing was running that could be preempted, or not for long enough.
    Stale,
    /// Put off: it is taken at the end of a section or region, or asked again soon.
    Deferred,
    /// The thread made its blocking system call without a slot, and has queued for one since.
    HandedOver,
    /// The thread was switched out, and has been resumed since.
    Preempted,
    /// Nothing else was there to run; asked again soon.
    Alone,
}

/// From the closed gate to the switch: what a notification does about the thread that it has interrupted. Returns when that
/// thread runs again, possibly on another carrier, still behind its gate.
///
/// # Safety
///
/// Called in a signal handler on the user thread `t`, with [`close_gate`] called, which has returned `gate`; `uc` is the
/// handler's frame.
#[inline]
pub(super) unsafe fn judge(
    source: Source,
    t: &'static Uthread,
    gate: u32,
    uc: *mut ucontext_t,
) -> Verdict {
    // SAFETY: attached, hence a carrier, and the gate is closed.
    let c = unsafe { Carrier::here() };
    // SAFETY: `uc` is this frame's context.
    c.keep_alt_stack(unsafe { (*uc).uc_stack.ss_sp });
    match c.slot() {
        Some(slot) => {
            slot.stats.preempt_received.add_shared(1, true);
            // SAFETY: `uc` is this frame's context; the gate is closed.
            let verdict = unsafe { receive(c, slot, t, gate, source, uc) };
            if matches!(verdict, Verdict::Preempted | Verdict::HandedOver) {
                count_migration(slot);
            }
            verdict
        }
        None => {
            c.rt().stats.preempt_stale.add_shared(1, true);
            Verdict::Stale
        }
    }
}

/// A thread that was preempted on `before` runs again, behind its gate.
#[inline]
fn count_migration(before: &Slot) {
    // SAFETY: the gate is closed.
    if let Some(now) = unsafe { Carrier::here() }.slot()
        && now.id != before.id
    {
        now.stats.preempt_migrated.add_shared(1, true);
    }
}

/// The signal found a carrier on its native stack: what it dispatches next starts with a clean slate.
#[cold]
pub(super) fn in_scheduler() {
    // SAFETY: attached, hence a carrier; the native context never moves.
    let c = unsafe { Carrier::here() };
    c.rt().stats.preempt_stale.add_shared(1, true);
    if let Some(slot) = c.slot() {
        slot.pending.store(false, Release);
        slot.armed.store(tsc::NEVER, Relaxed);
    }
}

/// A nested signal has found the gate closed and left a flag, which is nobody's but the outer handler's to notice when the
/// gate was open before it: its request is repeated, not lost.
///
/// # Safety
///
/// `t` is the calling thread, its gate closed.
unsafe fn repeat_flagged(t: &Uthread) {
    t.deferred.set(false);
    // SAFETY: the gate is closed; possibly another carrier than the one that was interrupted.
    if let Some(slot) = unsafe { Carrier::here() }.slot() {
        let now = tsc::now();
        put_off(slot, now);
    }
}

/// Asks for the preemption again a little later: each time twice as long, lest a thread that spends its time in the C
/// library does nothing but handle signals, and when a library has had its time.
fn put_off(slot: &Slot, now: tsc::Ticks) {
    let rt = slot.rt();
    let delay = slot.retry_delay.load(Relaxed);
    let left = slot.late_by(now).map(|late| rt.max_deferral.saturating_sub(late));
    let delay = left.filter(|&left| left > 0).map_or(delay, |left| delay.min(left));
    slot.retry_delay.store((2 * delay).min(rt.max_retry), Relaxed);
    slot.retry_at.store(now + delay, Relaxed);
    slot.pending.store(false, Release);
    rt.clock.arm(slot, now + delay, now);
}

/// Leaves a flag for the end of the section or the outer handler in which the thread is. Until then nothing is sent:
/// `pending` stays set, lest handlers pile up on a slow machine.
///
/// The section may be a switch that has recorded the next dispatch already, while the calling thread `t` is still the one
/// that leaves: the request is meant for the next thread, which comes out of a section, too.
fn defer_to_section(slot: &Slot, t: &Uthread) {
    let dispatched = slot.running().map(|(_, r)| slot.rt().table.get(r.task.0));
    dispatched.unwrap_or(t).deferred.set(true);
    slot.stats.preempt_deferred.add_shared(1, true);
}

/// Leaves a flag for the end of the user's region in which the thread is. A region may wait in the kernel, so requests go on,
/// now and then.
fn defer_to_region(slot: &Slot, t: &Uthread, now: tsc::Ticks) {
    t.deferred.set(true);
    slot.stats.preempt_deferred.add_shared(1, true);
    slot.count_put_off(now);
    slot.retry_at.store(now + slot.rt().region_retry, Relaxed);
    slot.pending.store(false, Release);
}

/// What to do about the interruption, and doing it. Opens the way for the next request (`pending`) only when it has been decided
/// that none is due at once.
///
/// # Safety
///
/// Called by the handler with the gate closed; `gate` is what it was.
unsafe fn receive(
    c: &Carrier,
    slot: &Slot,
    t: &'static Uthread,
    gate: u32,
    source: Source,
    uc: *mut ucontext_t,
) -> Verdict {
    let rt = c.rt();
    let now = tsc::now();
    // Before it is paid for, for it may be the one that can be.
    let affordable = slot.affordable_at();
    slot.charge(now);
    match source {
        Source::Timer => slot.armed.store(tsc::NEVER, Relaxed),
        Source::Clock => {
            // A timer that has expired, too, may have its frame beneath this one (the kernel delivers all that is pending
            // at once): its handler runs when this thread does so again, so nobody must wait for it.
            if slot.armed.load(Relaxed) <= now + rt.timer_slop {
                slot.armed.store(tsc::NEVER, Relaxed);
            }
        }
        #[cfg(feature = "inspect")]
        Source::Forced => slot.forced.store(slot.run.load(Relaxed), Relaxed),
    }
    if gate > 0 {
        // A section of the runtime, or an outer handler. The section may hold a lock of the policy, which therefore cannot be asked
        // anything, not even whether a request that is stale has left the clock something to do.
        defer_to_section(slot, t);
        return Verdict::Deferred;
    }
    if source == Source::Clock && slot.request.load(Acquire) != slot.run.load(Relaxed) {
        slot.stats.preempt_stale.add_shared(1, true);
        slot.pending.store(false, Release);
        // The sender relied on it, and the dispatch that made it stale may not have seen the sender's work.
        rt.clock.dispatched(slot);
        return Verdict::Stale;
    }
    let stopping = rt.stopping.load(Relaxed);
    if source == Source::Timer && !stopping {
        // A timer knows nothing of dispatches: ask again.
        match slot.due_from(affordable) {
            Some((_, due)) if due <= now + rt.timer_slop => {}
            later => {
                slot.stats.preempt_stale.add_shared(1, true);
                if let Some((_, due)) = later {
                    rt.clock.arm_for_run(slot, due.max(slot.affordable_at()), now);
                }
                return Verdict::Stale;
            }
        }
    }
    // SAFETY: `uc` is a signal frame's context.
    let place = pkru::with_all_rights(|| unsafe { interrupted_at(rt, t, uc) });
    let late = slot.late_by(now);
    // Threads that share TLS are one thread to a library.
    let in_library = place == Place::Library
        && late.unwrap_or(0) >= rt.max_deferral
        && t.fs.get() != 0
        && rt.in_library.enter();
    if place == Place::LockWait {
        // SAFETY: as for this function; the thread is at that call.
        return unsafe { wait_for_library(c, slot, t, now, uc) };
    }
    if place == Place::Unsafe || place == Place::Library && !in_library {
        slot.stats.preempt_deferred.add_shared(1, true);
        slot.count_put_off(now);
        put_off(slot, now);
        return Verdict::Deferred;
    }
    // SAFETY: the gate is closed, and the thread is at a system call that it wants to make.
    if place == Place::Syscall && !stopping && unsafe { scheduler::hand_over(c) } {
        slot.count_useful(late);
        // SAFETY: as above; the registers are those of the call.
        unsafe { make_call_without_slot(rt, t, uc) };
        return Verdict::HandedOver;
    }
    if t.regions.get() > 0 && !stopping {
        if in_library {
            rt.in_library.leave();
        }
        defer_to_region(slot, t, now);
        return Verdict::Deferred;
    }
    // SAFETY: the calling thread, gate closed.
    let left = unsafe { scheduler::leave_if_work(t, Why::Preempted) };
    if in_library {
        rt.in_library.leave();
    }
    if left {
        slot.count_useful(late);
        Verdict::Preempted
    } else {
        put_off(slot, now);
        Verdict::Alone
    }
}

/// Where a thread was interrupted.
#[derive(PartialEq, Eq, Debug)]
enum Place {
    /// It may be switched out.
    Anywhere,
    /// It may hold a lock of the C library.
    Library,
    /// It is being resumed, is not on its own stack, or must go on here for another reason.
    Unsafe,
    /// At (or back at) the `syscall` instruction of a call that may block.
    Syscall,
    /// At (or back at) that of the call with which the C library waits for a lock, while it may hold others.
    LockWait,
}

/// # Safety
///
/// `uc` is a signal frame's context.
unsafe fn interrupted_at(rt: &Inner, t: &Uthread, uc: *const ucontext_t) -> Place {
    // SAFETY: as the caller says.
    let (rip, rsp, rax, rsi, rdx) = unsafe {
        let g = &(*uc).uc_mcontext.gregs;
        let reg = |r: i32| g[r as usize];
        (
            reg(libc::REG_RIP) as usize,
            reg(libc::REG_RSP) as usize,
            reg(libc::REG_RAX),
            reg(libc::REG_RSI),
            reg(libc::REG_RDX),
        )
    };
    // A handler of the program may run on an alternate stack, which belongs to the carrier: it must end there.
    if resume::range().contains(&rip)
        || entry::range().contains(&rip)
        || !rt.table.stack(t).contains(&rsp)
    {
        return Place::Unsafe;
    }
    // SAFETY: two bytes at rip, unless the second lies on another page; two bytes before it after a call.
    unsafe {
        const SYSCALL: [u8; 2] = [0x0f, 0x05];
        let insn = |at: usize| (at as *const [u8; 2]).read_volatile();
        if rip & 0xfff != 0xfff && insn(rip) == SYSCALL && may_block(rax) {
            let waits = rax == libc::SYS_futex && is_lock_wait(rsi as i32, rdx as i32);
            let in_library = || super::ranges::code_of_thread(rip, rsp) == Code::Library;
            return if waits && in_library() { Place::LockWait } else { Place::Syscall };
        }
        // A call that was interrupted and may not be restarted: the program is about to see EINTR.
        if rax == -i64::from(libc::EINTR) && rip & 0xfff >= 2 && insn(rip - 2) == SYSCALL {
            return Place::Anywhere;
        }
    }
    // Where threads share TLS, an address of it is right on this carrier only.
    // SAFETY: general registers, up to rsp.
    let general = unsafe { &(&(*uc).uc_mcontext.gregs)[..=libc::REG_RCX as usize] };
    if t.fs.get() == 0 && crate::tls::shared::holds_address(general) {
        return Place::Unsafe;
    }
    // SAFETY: rsp is on the thread's own stack.
    match unsafe { super::ranges::code_of_thread(rip, rsp) } {
        Code::Free => Place::Anywhere,
        Code::Library | Code::Leaf => Place::Library,
        Code::Unsafe => Place::Unsafe,
    }
}

/// Is a futex call with these arguments how glibc waits for one of its own locks or a simple `pthread_mutex_t`? Condition variables,
/// semaphores and joins, which may take for ever, use another operation.
fn is_lock_wait(operation: i32, value: i32) -> bool {
    /// A lock's word where it is held and others wait (`lowlevellock.h`).
    const CONTENDED: i32 = 2;
    operation & libc::FUTEX_CMD_MASK == libc::FUTEX_WAIT && value == CONTENDED
}

/// `t` waits for a lock of the C library or a mutex. Others go on meanwhile; but it is not stopped for good, because it may
/// hold another lock of the library (malloc waits for one list's lock while it has an arena's).
///
/// # Safety
///
/// As for [`receive`]; the thread is at that call.
unsafe fn wait_for_library(
    c: &Carrier,
    slot: &Slot,
    t: &'static Uthread,
    now: tsc::Ticks,
    uc: *mut ucontext_t,
) -> Verdict {
    let rt = c.rt();
    if rt.stopping.load(Relaxed) {
        // The holder runs: who was stopped before holds no such lock.
        slot.stats.preempt_deferred.add_shared(1, true);
        put_off(slot, now);
        return Verdict::Deferred;
    }
    let late = slot.late_by(now);
    rt.in_library.wait();
    // SAFETY: the gate is closed, and the thread is at a system call that it wants to make, or else leaves as any thread.
    let verdict = unsafe {
        if scheduler::hand_over(c) {
            slot.count_useful(late);
            make_call_without_slot(rt, t, uc);
            Verdict::HandedOver
        } else if scheduler::leave_if_work(t, Why::Preempted) {
            slot.count_useful(late);
            Verdict::Preempted
        } else {
            put_off(slot, now);
            Verdict::Alone
        }
    };
    rt.in_library.leave();
    verdict
}

/// Calls that wait for something, that restart, and that do the same on whatever stack they are made.
fn may_block(nr: i64) -> bool {
    matches!(
        nr,
        libc::SYS_read
            | libc::SYS_write
            | libc::SYS_pread64
            | libc::SYS_pwrite64
            | libc::SYS_readv
            | libc::SYS_writev
            | libc::SYS_preadv
            | libc::SYS_pwritev
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_connect
            | libc::SYS_futex
            | libc::SYS_flock
            | libc::SYS_fcntl
            | libc::SYS_wait4
            | libc::SYS_waitid
            | libc::SYS_open
            | libc::SYS_openat
            | libc::SYS_fsync
            | libc::SYS_fdatasync
            | libc::SYS_ioctl
            | libc::SYS_getrandom
            | libc::SYS_copy_file_range
            | libc::SYS_splice
            | libc::SYS_sendfile
    )
}

/// Makes the system call at which `t` was interrupted, on a carrier that has just given its slot away, then queues `t`
/// and returns when a worker has resumed it.
///
/// Who comes back from a futex may have been woken to take a lock. If the runtime ends before the thread can do so, somebody else
/// must be woken: it may be a lock of malloc's, for which kernel threads wait, too.
///
/// # Safety
///
/// `uc` is `t`'s signal frame, interrupted at a `syscall` instruction; the gate is closed.
unsafe fn make_call_without_slot(rt: &Inner, t: &'static Uthread, uc: *mut ucontext_t) {
    // SAFETY: the frame is ours; the arguments are what the thread itself was about to pass to the kernel.
    unsafe {
        let g = &mut (*uc).uc_mcontext.gregs;
        let arg = |r: i32| g[r as usize] as u64;
        let args = [
            arg(libc::REG_RDI),
            arg(libc::REG_RSI),
            arg(libc::REG_RDX),
            arg(libc::REG_R10),
            arg(libc::REG_R8),
            arg(libc::REG_R9),
        ];
        let number = g[libc::REG_RAX as usize];
        let rights = pkru::get();
        pkru::set(pkru::of_frame(uc));
        let result = sys::syscall6(number, args);
        pkru::set(rights);
        g[libc::REG_RAX as usize] = result;
        g[libc::REG_RIP as usize] += 2;
        let comes_back = rt.in_library.enter();
        if !comes_back && number == libc::SYS_futex && result == 0 {
            pass_wake_on(args);
        }
        scheduler::leave(t, After::Requeue(t, Why::Woken));
        if comes_back {
            rt.in_library.leave();
        }
    }
}

/// Wakes another one, after a futex call with these arguments has been woken, or was no wait.
///
/// # Safety
///
/// The arguments of a `futex` call of the program's that has succeeded.
unsafe fn pass_wake_on([word, operation, .., bits]: [u64; 6]) {
    let how = operation as i32 & !libc::FUTEX_CLOCK_REALTIME;
    let (operation, bits) = match how & libc::FUTEX_CMD_MASK {
        libc::FUTEX_WAIT => (libc::FUTEX_WAKE, 0),
        libc::FUTEX_WAIT_BITSET => (libc::FUTEX_WAKE_BITSET, bits),
        _ => return,
    };
    let operation = operation | how & libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: waking touches no memory of the program's.
    unsafe { sys::syscall6(libc::SYS_futex, [word, operation as u64, 1, 0, 0, bits]) };
}

/// Are handlers left by [`resume`] (true) or by `rt_sigreturn`?
#[cfg(feature = "inspect")]
pub(super) fn resumes_in_user_mode() -> bool {
    !USE_SIGRETURN.load(Relaxed)
}

/// Puts the gate back to what it was and returns to the interrupted code.
///
/// Under shadow stacks this returns, and so must the calling handler: `rt_sigreturn` needs the kernel's trampoline there.
///
/// # Safety
///
/// `uc` is the context of the signal frame that the caller was entered with; `t` is the calling thread, and [`close_gate`]
/// returned `gate`.
pub(super) unsafe fn leave_handler(t: &Uthread, gate: u32, uc: *mut ucontext_t) {
    // SAFETY: our own frame.
    unsafe {
        let sigreturn = USE_SIGRETURN.load(Relaxed);
        if resume::can_resume(uc) && (!sigreturn || resume::has_tiles(uc)) {
            if SHADOW_STACK.load(Relaxed) {
                refuse_tiles();
            }
            loop {
                resume::resume(uc, t, gate);
                repeat_flagged(t);
            }
        }
        leave_by_sigreturn(t, gate, uc);
    }
}

/// A thread with AMX tiles that may be on another carrier than before: the kernel's way back loses registers there, ours does not
/// exist under shadow stacks.
#[cold]
fn refuse_tiles() -> ! {
    const WHY: &[u8] = b"quaver: a user thread that uses AMX cannot be preempted under shadow stacks; run the program without them \
        (GLIBC_TUNABLES=glibc.cpu.hwcaps=-SHSTK) or without AMX\n";
    // SAFETY: writes these bytes.
    unsafe { sys::syscall3(libc::SYS_write, 2, WHY.as_ptr() as u64, WHY.len() as u64) };
    std::process::abort()
}

/// [`leave_handler`], by `rt_sigreturn` in any case.
///
/// # Safety
///
/// As for [`leave_handler`].
pub(super) unsafe fn leave_by_sigreturn(t: &Uthread, gate: u32, uc: *mut ucontext_t) {
    // SAFETY: our own frame.
    unsafe {
        // rt_sigreturn installs the alternate stack that the frame names, which may be another carrier's. It ignores flags that
        // make no sense, and then leaves the alternate stack of whichever carrier it returns on alone.
        (*uc).uc_stack.ss_flags = INVALID_STACK_FLAGS;
        if !SHADOW_STACK.load(Relaxed) {
            loop {
                resume::sigreturn(uc, t, gate);
                repeat_flagged(t);
            }
        }
        loop {
            t.no_preempt.set(gate);
            compiler_fence(SeqCst);
            // In a region of the user the flag stays for the region's end.
            if gate != 0 || !t.deferred.get() || t.regions.get() > 0 {
                return;
            }
            t.no_preempt.set(gate + 1);
            compiler_fence(SeqCst);
            repeat_flagged(t);
        }
    }
}

/// Neither 0, `SS_ONSTACK` nor `SS_DISABLE`.
const INVALID_STACK_FLAGS: i32 = 8;

/// Is the preemption signal free for us?
pub(crate) fn signal_is_valid(signal: i32) -> bool {
    (1..=64).contains(&signal)
        && ![libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, libc::SIGBUS, 32, 33].contains(&signal)
}

/// Sends the preemption signal to the carrier of `slot`, meant for the dispatch `run`. At most one is under way.
/// `true` if sent.
pub(crate) fn send(rt: &Inner, slot: &Slot, run: u64, now: tsc::Ticks) -> bool {
    if slot.pending.swap(true, AcqRel) {
        // The signal may have hit a carrier that no longer had the slot.
        if now.saturating_sub(slot.pending_since.load(Relaxed)) > rt.lost_after {
            slot.pending.store(false, Release);
        }
        return false;
    }
    slot.pending_since.store(now, Relaxed);
    slot.request.store(run, Release);
    let tid = slot.tid.load(Relaxed);
    if tid == 0 || sys::tgkill(rt.pid, tid, SIGNAL.load(Relaxed)).is_err() {
        slot.pending.store(false, Release);
        return false;
    }
    slot.stats.preempt_sent.add(1);
    true
}
