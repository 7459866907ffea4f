//! Delivery: handlers run, on the thread that the signal is for.

use super::action::{self, Action};
use super::{
    FAULTS, OF_CALLS, UNBLOCKABLE, altstack, bit, courier, file, managed, mask, queue, send,
};
use crate::cancel;
use crate::exec;
use crate::real::real;
use crate::state::{self, Thread};
use crate::sys::{self, call};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::*};
use libc::{dl_phdr_info, siginfo_t, ucontext_t};
use quaver::foreign::{preempt, region};

/// Where the kernel sends what is open. See the module documentation.
pub(super) unsafe extern "C-unwind" fn trampoline(
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    extern "C-unwind" fn at_home(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel's arguments.
        unsafe { receive(signal, info, context, true) };
    }
    // SAFETY: the kernel's arguments; nothing has been done. Perhaps the stack is what is wrong.
    unsafe {
        let is_fault = FAULTS & bit(signal) != 0 && (*info).si_code > 0;
        let at_home = is_fault || preempt::enter(signal, info, context, at_home);
        receive(signal, info, context, at_home);
    }
}

/// A signal has come from the kernel. The thread may be left only `at_home`.
///
/// # Safety
///
/// The kernel's arguments to a handler.
unsafe fn receive(signal: c_int, info: *mut siginfo_t, context: *mut c_void, at_home: bool) {
    let errno = sys::saved_errno();
    // SAFETY: the kernel filled `info`.
    let (code, sender) = unsafe { ((*info).si_code, (*info).si_pid()) };
    let me = state::me_in_handler();
    if FAULTS & bit(signal) != 0 && code > 0 {
        let blocked = me.is_some_and(|me| me.signals.mask.load(Relaxed) & bit(signal) != 0);
        let action = action::of(signal);
        if blocked || action.handler == libc::SIG_IGN {
            default(signal);
        } else {
            // SAFETY: the kernel's arguments.
            unsafe { act(me, signal, info, action, context) };
        }
    } else if let Some(me) = managed().and(me) {
        let by_call = OF_CALLS & bit(signal) != 0 && sender == super::process();
        // A call that waits is told of it by the courier.
        let taken_here = me.signals.kernel_tid() != 0 && me.blocked_in.load(Relaxed) == 0;
        let own = code == libc::SI_TKILL || by_call || taken_here;
        if by_call && is_in_shim(context) {
            // The call delivers it, when it is done with whatever it is in.
            me.signals.brought.fetch_or(bit(signal), SeqCst);
            if code != libc::SI_TKILL && !cancel::has_failed(context) {
                // It came with another one, whose handler begins here. Whose call it was is not
                // known.
                courier::look_for_brought();
            }
        } else if !at_home || !own || !is_outside_runtime(me, context) {
            courier::forward(info);
        } else if is_interruptible(me, context)
            && me.signals.mask.load(Relaxed) & bit(signal) == 0
            && me.blocked_in.load(Relaxed) == 0
        {
            // SAFETY: the kernel's arguments.
            unsafe {
                act(Some(me), signal, info, action::of(signal), context);
            }
            deliver(me, context);
            me.interrupt();
        } else {
            // SAFETY: the kernel's argument.
            send::to_thread(me, unsafe { &*info });
        }
    } else if courier::is_running() {
        courier::forward(info);
    } else {
        // SAFETY: the kernel's arguments.
        unsafe { act(me, signal, info, action::of(signal), context) };
    }
    sys::set_errno(errno);
}

/// The shim's code.
static CODE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Finds out where the shim's code is. Before there are handlers.
pub(super) fn find_code() {
    unsafe extern "C" fn look(info: *mut dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
        // SAFETY: from the loader.
        let info = unsafe { &*info };
        let here = find_code as *const () as usize;
        for i in 0..usize::from(info.dlpi_phnum) {
            // SAFETY: a header of the module.
            let h = unsafe { &*info.dlpi_phdr.add(i) };
            let start = (info.dlpi_addr + h.p_vaddr) as usize;
            let end = start + h.p_memsz as usize;
            if h.p_type == libc::PT_LOAD && (start..end).contains(&here) {
                CODE[0].store(start, Relaxed);
                CODE[1].store(end, Relaxed);
            }
        }
        0
    }
    // SAFETY: the callback gets valid descriptions.
    unsafe { libc::dl_iterate_phdr(Some(look), core::ptr::null_mut()) };
}

/// May a handler run on `me`, which was interrupted at `context`? It may be left by a jump, or by
/// unwinding, so not in the middle of something of the runtime's or the shim's, which wait in ways
/// that look for handlers themselves.
pub(crate) fn is_interruptible(me: &Thread, context: *mut c_void) -> bool {
    let in_shim = is_in_shim(context) && !cancel::at_call(context);
    !in_shim && is_outside_runtime(me, context)
}

/// Was the shim's or the runtime's own code interrupted at `context`?
fn is_in_shim(context: *mut c_void) -> bool {
    (CODE[0].load(Relaxed)..CODE[1].load(Relaxed)).contains(&cancel::interrupted_at(context))
}

/// Is `me`, interrupted at `context`, outside of the runtime, of sections, and of other handlers of
/// the shim's and the runtime's?
pub(crate) fn is_outside_runtime(me: &Thread, context: *mut c_void) -> bool {
    let at = cancel::interrupted_at(context);
    !region::in_runtime() && !me.signals.in_section() && !region::must_end(at)
}

/// Does what is to be done about a signal, on the calling thread. `true`: a handler has run.
///
/// # Safety
///
/// `info` is complete; `context` is null or the kernel's.
unsafe fn act(
    me: Option<&Thread>,
    signal: c_int,
    info: *mut siginfo_t,
    action: Action,
    context: *mut c_void,
) -> bool {
    match action.handler {
        libc::SIG_IGN => return false,
        libc::SIG_DFL => {
            default(signal);
            return false;
        }
        _ => {}
    }
    if action.flags & libc::SA_RESETHAND != 0 {
        action::reset(signal);
    }
    // SAFETY: all zeroes are a context.
    let mut made: ucontext_t = unsafe { core::mem::zeroed() };
    let given = context;
    let context = if given.is_null() {
        here(&mut made);
        (&raw mut made).cast()
    } else {
        given
    };
    let Some(me) = me else {
        // SAFETY: installed by the program for this signal.
        unsafe {
            let f: unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void) =
                core::mem::transmute(action.handler);
            f(signal, info, context);
        }
        return true;
    };
    let own = if action.flags & libc::SA_NODEFER != 0 { 0 } else { bit(signal) };
    let before = me.signals.mask.load(Relaxed);
    mask::set(me, before | own | action.mask & !UNBLOCKABLE);
    me.signals.handled.set(me.signals.handled.get().wrapping_add(1));
    if action.flags & libc::SA_RESTART == 0 {
        me.signals.handled_hard.set(me.signals.handled_hard.get().wrapping_add(1));
    }
    // SAFETY: a context; the handler was installed by the program for this signal.
    unsafe {
        let set = (&raw mut (*context.cast::<ucontext_t>()).uc_sigmask).cast::<u64>();
        let kernels = set.replace(before);
        if action.flags & libc::SA_ONSTACK != 0 {
            let sp = if given.is_null() { 0 } else { interrupted_stack(given) };
            altstack::call(me, sp, action.handler, signal, info, context);
        } else {
            let f: unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void) =
                core::mem::transmute(action.handler);
            f(signal, info, context);
        }
        // The handler may say there what is to be blocked after it.
        let after = set.replace(kernels);
        mask::set(me, after & !UNBLOCKABLE);
        file::may_have_changed(own | action.mask | (before ^ after));
    }
    true
}

/// # Safety
///
/// The kernel's context.
unsafe fn interrupted_stack(context: *mut c_void) -> usize {
    // SAFETY: the caller's contract.
    unsafe { (*context.cast::<ucontext_t>()).uc_mcontext.gregs[libc::REG_RSP as usize] as usize }
}

/// A context for handlers of signals that have interrupted no instruction: where the thread is now.
fn here(context: &mut ucontext_t) {
    let (at, sp, bp): (usize, usize, usize);
    // SAFETY: reads registers.
    unsafe {
        core::arch::asm!("lea {0}, [rip]", "mov {1}, rsp", "mov {2}, rbp", out(reg) at,
            out(reg) sp, out(reg) bp,
            options(nomem, nostack, preserves_flags));
    }
    let registers = &mut context.uc_mcontext.gregs;
    registers[libc::REG_RIP as usize] = at as i64;
    registers[libc::REG_RSP as usize] = sp as i64;
    registers[libc::REG_RBP as usize] = bp as i64;
}

/// What the kernel does when nobody has said otherwise: to the process, at once.
pub(super) fn default(signal: c_int) {
    if super::HARMLESS & bit(signal) != 0 {
        return;
    }
    // SAFETY: a complete action; the signal comes again, unblocked, and does what it does. What
    // stops the process lets it go on here.
    exec::in_place(|| unsafe {
        let mut dfl: libc::sigaction = core::mem::zeroed();
        dfl.sa_sigaction = libc::SIG_DFL;
        real!(sigaction(signal => c_int, &raw const dfl => *const libc::sigaction,
            core::ptr::null_mut() => *mut libc::sigaction) -> c_int);
        let (pid, tid) = (super::process() as usize, sys::kernel_tid() as usize);
        super::with_kernel_mask(!bit(signal), || {
            call(libc::SYS_tgkill, [pid, tid, signal as usize, 0, 0, 0])
        });
    });
}

/// Which of the process's signals may be delivered on `me`? Those that the main thread blocks,
/// unless it is that.
fn of_process(me: &Thread) -> u64 {
    match state::main_thread() {
        Some(main) if !core::ptr::eq(main, me) && main.ended.load(Acquire) == 0 => {
            main.signals.mask.load(SeqCst)
        }
        _ => !0,
    }
}

/// Is there a signal that `me` should take?
pub(crate) fn is_due(me: &Thread) -> bool {
    let allowed = !me.signals.mask.load(SeqCst);
    me.signals.own() & allowed != 0
        || queue::PROCESS.bits() & allowed != 0
            && queue::PROCESS.bits() & allowed & of_process(me) != 0
}

/// The next signal that `me` should take, and what is to be done about it.
fn take(me: &Thread) -> Option<(siginfo_t, Action)> {
    if !is_due(me) {
        return None;
    }
    let locked = queue::locked();
    let allowed = !me.signals.mask.load(Relaxed);
    let of_thread = me.signals.pending.take(&locked, allowed);
    let info = of_thread.or_else(|| queue::PROCESS.take(&locked, allowed & of_process(me)))?;
    Some((info, action::of(info.si_signo)))
}

/// Runs the handlers of all signals that `me` should take. On `me`, outside of the runtime.
/// `context` is null or what the kernel has interrupted. `true`: a handler has run.
pub(crate) fn deliver(me: &'static Thread, context: *mut c_void) -> bool {
    let mut ran = false;
    if me.signals.brought.load(Relaxed) != 0 {
        send::brought(me);
    }
    if !is_due(me) {
        return ran;
    }
    let errno = sys::saved_errno();
    while let Some((mut info, action)) = take(me) {
        // SAFETY: complete.
        ran |= unsafe { act(Some(me), info.si_signo, &mut info, action, context) };
    }
    sys::set_errno(errno);
    ran
}

/// [`deliver`], where nothing was interrupted.
pub(crate) fn deliver_here(me: &'static Thread) -> bool {
    deliver(me, core::ptr::null_mut())
}
