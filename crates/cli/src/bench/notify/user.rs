//! User interrupts of threads that are no workers, with a handler as short as can be.

use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Duration;

use anyhow::{Context, anyhow};
use quaver::platform::user_interrupts_alone::{Alone, Registration};

use super::measure::{HANDLED, HANDLED_AT};

/// Routes: to the receiver, and of the ticks that it posts to itself.
const ROUTE: usize = 0;
const TICKS: usize = 1;

const NOTHING: u64 = u64::MAX;
/// What the handler sends, so that the next tick arrives.
static REFILL: AtomicU64 = AtomicU64::new(NOTHING);

std::arch::global_asm!(
    ".pushsection .text.quaver_bench_user_interrupt, \"ax\", @progbits",
    "quaver_bench_user_interrupt:",
    "push rax",
    "push rdx",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "mov [rip + {at}], rax",
    "lock inc qword ptr [rip + {handled}]",
    "mov rax, [rip + {refill}]",
    "cmp rax, {nothing}",
    "je 2f",
    ".byte 0xf3, 0x0f, 0xc7, 0xf0", // senduipi rax
    "2:",
    "pop rdx",
    "pop rax",
    "add rsp, 8",                    // the vector
    ".byte 0xf3, 0x0f, 0x01, 0xec", // uiret
    ".popsection",
    at = sym HANDLED_AT,
    handled = sym HANDLED,
    refill = sym REFILL,
    nothing = const NOTHING as i64,
);

unsafe extern "C" {
    /// No function that can be called.
    #[link_name = "quaver_bench_user_interrupt"]
    static ENTRY: u8;
}

pub(super) fn find() -> anyhow::Result<Alone> {
    Alone::find().map_err(|why| anyhow!("not on this machine: {why}"))
}

/// The calling thread is the receiver from now on.
pub(super) fn receive(alone: Alone) -> anyhow::Result<Registration> {
    // SAFETY: the entry above keeps registers and red zone, and ends with `uiret`.
    unsafe { alone.receive(&raw const ENTRY as usize, ROUTE) }.context("cannot be interrupted")
}

/// The calling thread can send; what it sends.
pub(super) fn sender(alone: Alone) -> anyhow::Result<u64> {
    alone.attach().context("cannot send")?;
    alone.operand(ROUTE).context("there is no route")
}

/// Interrupts the receiver.
///
/// # Safety
///
/// `operand` is of [`sender`], in the same thread, and the receiver has been there.
#[inline(always)]
pub(super) unsafe fn send(operand: u64) {
    // SAFETY: changes memory of the kernel only; the caller's contract.
    unsafe {
        std::arch::asm!(".byte 0xf3, 0x0f, 0xc7, 0xf0", in("rax") operand,
            options(nostack, preserves_flags))
    }
}

/// Calls `watch` while the CPU's timer interrupts the calling thread, which is bound to that CPU.
pub(super) fn with_timer<T>(period: Duration, watch: impl FnOnce() -> T) -> anyhow::Result<T> {
    let alone = find()?;
    let registration = receive(alone)?;
    let started = alone.start_timer(&registration, TICKS, period);
    let result = started.context("the CPU's timer cannot be had").and_then(|_| {
        let operand = alone.operand(TICKS).context("there is no route")?;
        REFILL.store(operand, Relaxed);
        // SAFETY: the calling thread has the table, and the route leads to itself.
        unsafe { send(operand) };
        Ok(watch())
    });
    alone.end(registration);
    REFILL.store(NOTHING, Relaxed);
    result
}
