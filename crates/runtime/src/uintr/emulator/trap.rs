//! The two signal handlers that stand for the processor.
//!
//! ```text
//!   SIGILL      one of the five instructions: does it, steps over it
//!   SIGSTKFLT   "interrupt": of a sender (`tgkill`), or of the POSIX timer that stands for the
//!               local one
//! ```
//!
//! Both change the context in which the thread goes on, and nothing else. They run with all signals
//! blocked, so what they do is one step for everybody. No signal hits the emulated processor
//! between two of its own steps, which hardware allows: see `docs/uintr.md`.
//!
//! A delivery leaves its four words in the handler's own frame ([`quaver_emulate`]'s), below the
//! signal frame, which lies on the interrupted stack below the red zone. `rt_sigreturn` frees the
//! frame and writes nothing, and with all signals blocked nobody else writes there, so the words
//! are there when the entry begins. One that follows a `uiret` at once has them where hardware
//! would: the stack above the signal frame is free by then. Else a thread that is interrupted again
//! and again would go down its stack.

use super::cpu::{Cpu, Vector};
use super::decode::{self, Instruction::*};
use super::{current, target};
use crate::arch::user_interrupt;
use crate::os::reserved::set_action;
use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering::*};
use libc::{c_int, siginfo_t, ucontext_t};
use std::io;
use std::sync::OnceLock;

/// Linux never sends it on this architecture, and signals of this kind do not queue, as interrupts
/// do not.
pub(super) const INTERRUPT: i32 = libc::SIGSTKFLT;

/// The words of a delivery: vector, rip, rflags, rsp.
type Delivery = [u64; 4];

const CARRY: u64 = 1 << 0;
/// CF, PF, AF, ZF, SF and OF, of which `testui` sets the first and clears the others.
const STATUS_FLAGS: u64 = 0x8d5;
/// Not in the delivered code: TF and RF.
const NOT_DELIVERED: u64 = 1 << 8 | 1 << 16;

/// Blocked in the handlers: all but faults, by which a stack that has no room for them is reported.
const MASK: u64 = !(1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGBUS - 1));

/// What has been done, for reports.
pub(super) static DELIVERED: AtomicU64 = AtomicU64::new(0);
pub(super) static EXECUTED: AtomicU64 = AtomicU64::new(0);

/// Whoever handled SIGILL before.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

core::arch::global_asm!(
    ".pushsection .text.quaver_emulate, \"ax\", @progbits",
    ".globl quaver_emulate",
    ".hidden quaver_emulate",
    ".type quaver_emulate, @function",
    "quaver_emulate:",
        ".cfi_startproc",
        // Room for the words, on a multiple of 16.
        "sub rsp, 40",
        ".cfi_adjust_cfa_offset 40",
        "mov rcx, rsp",
        "call {handler}",
        "add rsp, 40",
        ".cfi_adjust_cfa_offset -40",
        "ret",
        ".cfi_endproc",
        ".size quaver_emulate, . - quaver_emulate",
    ".popsection",
    handler = sym on_signal,
);

unsafe extern "C" {
    fn quaver_emulate();
}

/// Installs both handlers.
///
/// # Errors
///
/// The kernel's; `AlreadyExists` where the program handles SIGSTKFLT.
pub(super) fn install() -> io::Result<()> {
    let handler = quaver_emulate as *const () as usize;
    // SAFETY: complete sigactions; the handler keeps the rules of this module.
    unsafe {
        let mut old: [libc::sigaction; 2] = core::mem::zeroed();
        for (signal, old) in [libc::SIGILL, INTERRUPT].into_iter().zip(&mut old) {
            if libc::sigaction(signal, core::ptr::null(), old) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        if old[1].sa_sigaction != libc::SIG_DFL && old[1].sa_sigaction != handler {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if old[0].sa_sigaction != handler {
            let _ = PREVIOUS.set(old[0]);
        }
        for signal in [libc::SIGILL, INTERRUPT] {
            set_action(signal, handler, libc::SA_SIGINFO | libc::SA_RESTART, MASK)?;
        }
    }
    Ok(())
}

/// # Safety
///
/// Called by [`quaver_emulate`] with the kernel's arguments and `room` in its own frame.
unsafe extern "C" fn on_signal(
    signal: c_int,
    info: *mut siginfo_t,
    uc: *mut ucontext_t,
    room: *mut Delivery,
) {
    // SAFETY: the kernel's context, of the frame that we are in.
    let uc = unsafe { &mut *uc };
    let cpu = current();
    if signal == INTERRUPT {
        let Some(cpu) = cpu else { return };
        // SAFETY: the kernel filled it.
        let vector = match unsafe { (*info).si_code } {
            libc::SI_TIMER => Vector::Timer,
            _ => Vector::Notification,
        };
        // SAFETY: the thread is at that address.
        if cpu.interrupted_by(vector) && !unsafe { is_in_call(uc) } {
            deliver(cpu, uc, room);
        }
        return;
    }
    let before = *register(uc, libc::REG_RSP) as u64;
    // SAFETY: the thread has just executed what is there.
    if !unsafe { execute(cpu, uc) } {
        not_ours(signal, info, uc);
        return;
    }
    EXECUTED.fetch_add(1, Relaxed);
    if let Some(cpu) = cpu {
        let place = place_of(uc, before).unwrap_or(room);
        deliver(cpu, uc, place);
    }
}

/// Where hardware would leave the words, if an instruction that began at stack pointer `before` has
/// made room for them.
fn place_of(uc: &mut ucontext_t, before: u64) -> Option<*mut Delivery> {
    let now = *register(uc, libc::REG_RSP) as u64;
    let place = (now.wrapping_sub(user_interrupt::STACK_ADJUST) & !15).wrapping_sub(32);
    // The signal frame ends below the red zone of `before`.
    let free = before.wrapping_sub(user_interrupt::STACK_ADJUST);
    (now != before && place >= free).then_some(place as *mut Delivery)
}

fn register(uc: &mut ucontext_t, which: i32) -> &mut i64 {
    &mut uc.uc_mcontext.gregs[which as usize]
}

/// Is the thread in the kernel? Then a processor delivers nothing until it comes back, and a call
/// that blocks goes on. Here the signal has ended it, so it begins again. (That the thread is about
/// to make one for the first time looks the same, and is the same.)
///
/// # Safety
///
/// The thread is at its instruction pointer.
unsafe fn is_in_call(uc: &mut ucontext_t) -> bool {
    // SAFETY: the caller's contract.
    unsafe { sys::is_syscall(*register(uc, libc::REG_RIP) as usize) }
}

/// Delivers what is pending, if UIF lets it.
pub(super) fn deliver(cpu: &Cpu, uc: &mut ucontext_t, room: *mut Delivery) {
    let Some(vector) = cpu.deliver() else { return };
    let flags = *register(uc, libc::REG_EFL);
    let words = [
        vector,
        *register(uc, libc::REG_RIP) as u64,
        flags as u64,
        *register(uc, libc::REG_RSP) as u64,
    ];
    // SAFETY: the caller's frame has this room; volatile, because its reader is nobody that a
    // compiler knows.
    unsafe { room.write_volatile(words) };
    let kept = if super::keeps_trap_flag() { NOT_DELIVERED & !(1 << 8) } else { NOT_DELIVERED };
    *register(uc, libc::REG_EFL) = flags & !(kept as i64);
    *register(uc, libc::REG_RIP) = cpu.handler.load(Relaxed) as i64;
    *register(uc, libc::REG_RSP) = room as i64;
    DELIVERED.fetch_add(1, Relaxed);
}

/// Does the instruction at which the thread stopped. `false`: it is none of the five.
///
/// # Safety
///
/// The thread was stopped there by SIGILL.
unsafe fn execute(cpu: Option<&Cpu>, uc: &mut ucontext_t) -> bool {
    let at = *register(uc, libc::REG_RIP) as usize;
    let mut marked = [Senduipi(7), Clui, Stui].into_iter().zip(user_interrupt::marked());
    let (instruction, length) = if let Some((found, _)) = marked.find(|&(_, place)| place == at) {
        (found, 2)
    } else {
        // SAFETY: the processor has read the instruction; the next page is not touched.
        let code = unsafe {
            let there = (0x1000 - (at & 0xfff)).min(decode::LONGEST);
            core::slice::from_raw_parts(at as *const u8, there)
        };
        match decode::decode(code) {
            Some(found) => found,
            None => return false,
        }
    };
    *register(uc, libc::REG_RIP) += length as i64;
    match instruction {
        Clui => cpu.into_iter().for_each(|cpu| cpu.set_flag(false)),
        Stui => cpu.into_iter().for_each(|cpu| cpu.set_flag(true)),
        Testui => {
            let set = cpu.is_some_and(Cpu::flag);
            let flags = register(uc, libc::REG_EFL);
            *flags = *flags & !(STATUS_FLAGS as i64) | if set { CARRY as i64 } else { 0 };
        }
        Uiret => {
            let stack = *register(uc, libc::REG_RSP) as *const [u64; 3];
            // SAFETY: as the instruction would: the thread's stack.
            let [rip, flags, rsp] = unsafe { stack.read() };
            *register(uc, libc::REG_RIP) = rip as i64;
            *register(uc, libc::REG_EFL) = flags as i64;
            *register(uc, libc::REG_RSP) = rsp as i64;
            cpu.into_iter().for_each(|cpu| cpu.set_flag(true));
            super::returned(uc);
        }
        Senduipi(operand) => match target(operand_of(uc, operand)) {
            Some((upid, vector)) => {
                if let Some(tid) = upid.post(vector) {
                    let _ = sys::tgkill(std::process::id() as i32, tid, INTERRUPT);
                }
            }
            None => super::protection_fault(),
        },
    }
    true
}

/// The value of general register `number`, in the order of encodings.
fn operand_of(uc: &mut ucontext_t, number: u8) -> u64 {
    use libc::*;
    const ORDER: [i32; 16] = [
        REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI, REG_R8, REG_R9,
        REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
    ];
    *register(uc, ORDER[usize::from(number & 15)]) as u64
}

/// Another undefined instruction: as if this handler were not there.
fn not_ours(signal: c_int, info: *mut siginfo_t, uc: &mut ucontext_t) {
    match PREVIOUS.get() {
        Some(p) if p.sa_sigaction != libc::SIG_DFL && p.sa_sigaction != libc::SIG_IGN => {
            // SAFETY: it was installed with these flags for this signal.
            unsafe {
                if p.sa_flags & libc::SA_SIGINFO != 0 {
                    let f: unsafe extern "C" fn(c_int, *mut siginfo_t, *mut ucontext_t) =
                        core::mem::transmute(p.sa_sigaction);
                    f(signal, info, uc);
                } else {
                    let f: unsafe extern "C" fn(c_int) = core::mem::transmute(p.sa_sigaction);
                    f(signal);
                }
            }
        }
        // It happens again, with the default action.
        // SAFETY: an action of the kernel's.
        _ => unsafe {
            let _ = set_action(signal, libc::SIG_DFL, 0, 0);
        },
    }
}
