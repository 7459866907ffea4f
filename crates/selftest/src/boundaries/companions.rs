//! The threads that a preempted one makes room for: always ready to run, and careless with
//! registers.

use super::stepper;
use core::arch::{asm, naked_asm};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::arch::is_x86_feature_detected;

/// How often a companion looks whether the thread that it keeps away has gone on elsewhere. Where
/// that cannot be (the thread waits for something that only this worker has), both would wait for
/// ever.
const PATIENCE: u32 = 10_000;

/// Threads that yield to each other until they are stopped.
#[derive(Debug)]
pub struct Companions<'a> {
    stop: &'a AtomicBool,
    rounds: &'a AtomicU64,
}

/// Runs `body` beside `count` companions. Returns its result; all companions have come to their
/// end.
pub fn beside<T>(count: usize, body: impl FnOnce() -> T) -> T {
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let result = quaver::scope(|s| {
        for i in 0..count {
            let companion = Companions { stop: &stop, rounds: &rounds };
            s.spawn(move || companion.run(i as u64));
        }
        let ended = Ended(&stop);
        let result = body();
        drop(ended);
        result
    });
    assert!(rounds.load(SeqCst) >= count as u64, "a companion has never run");
    result
}

struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

impl Companions<'_> {
    fn run(&self, seed: u64) {
        stepper::i_am_a_companion();
        let level = Level::detect();
        let (mut round, mut kept) = (seed, 0);
        while !self.stop.load(Relaxed) {
            round = round.wrapping_add(0x9e37_79b9_7f4a_7c15);
            fill(level, round);
            self.rounds.fetch_add(1, Relaxed);
            if stepper::keeps_it_away() {
                // The preempted thread shall go on elsewhere. Its next worker may need this CPU.
                os_yield();
                kept += 1;
                if kept > PATIENCE {
                    stepper::let_it_stay();
                }
            } else {
                kept = 0;
                // SAFETY: a plain function, which returns.
                unsafe { with_other_control_words(yield_now) };
            }
        }
    }
}

extern "C" fn yield_now() {
    quaver::yield_now();
}

/// Calls `f` with other rounding, flushing and precision than usual; a switch must keep them apart
/// from others'.
///
/// ```text
///   rsp + 0   the caller's MXCSR     rsp + 4   its x87 control word
///   rsp + 8   MXCSR for `f`          rsp + 12  x87 control word for `f`
/// ```
///
/// # Safety
///
/// `f` returns.
#[unsafe(naked)]
unsafe extern "C" fn with_other_control_words(f: extern "C" fn()) {
    naked_asm!(
        ".cfi_startproc",
        "sub rsp, 24",
        ".cfi_adjust_cfa_offset 24",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "mov dword ptr [rsp + 8], 0xff80",
        "mov word ptr [rsp + 12], 0x0e7f",
        "ldmxcsr [rsp + 8]",
        "fldcw [rsp + 12]",
        "call rdi",
        "ldmxcsr [rsp]",
        "fldcw [rsp + 4]",
        "add rsp, 24",
        ".cfi_adjust_cfa_offset -24",
        "ret",
        ".cfi_endproc",
    )
}

/// Lets other kernel threads run; `sched_yield` would let other user threads run.
fn os_yield() {
    // SAFETY: a system call without arguments.
    unsafe { asm!("syscall", inout("rax") libc::SYS_sched_yield => _, out("rcx") _, out("r11") _) };
}

/// The widest registers there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Level {
    Sse,
    Avx,
    Avx512,
}

impl Level {
    fn detect() -> Level {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
            Level::Avx512
        } else if is_x86_feature_detected!("avx") {
            Level::Avx
        } else {
            Level::Sse
        }
    }
}

/// Leaves `value` in every vector and mask register, and x87 registers full of ones before they are
/// emptied.
fn fill(level: Level, value: u64) {
    // SAFETY: registers that the compiler knows to be overwritten; the level was detected.
    unsafe {
        match level {
            Level::Avx512 => asm!(
                "vpbroadcastq zmm0, {v}",
                ".irp i, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, \
                 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
                "vmovdqa64 zmm\\i, zmm0",
                ".endr",
                ".irp i, 0, 1, 2, 3, 4, 5, 6, 7",
                "kmovq k\\i, {v}",
                ".endr",
                v = in(reg) value,
                out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _,
                out("zmm4") _, out("zmm5") _, out("zmm6") _, out("zmm7") _,
                out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _,
                out("zmm12") _, out("zmm13") _, out("zmm14") _, out("zmm15") _,
                out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _,
                out("zmm20") _, out("zmm21") _, out("zmm22") _, out("zmm23") _,
                out("zmm24") _, out("zmm25") _, out("zmm26") _, out("zmm27") _,
                out("zmm28") _, out("zmm29") _, out("zmm30") _, out("zmm31") _,
                out("k1") _, out("k2") _, out("k3") _, out("k4") _,
                out("k5") _, out("k6") _, out("k7") _,
                options(nostack),
            ),
            Level::Avx => asm!(
                "vmovq xmm0, {v}",
                "vinsertf128 ymm0, ymm0, xmm0, 1",
                ".irp i, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
                "vmovdqa ymm\\i, ymm0",
                ".endr",
                v = in(reg) value,
                out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
                out("ymm4") _, out("ymm5") _, out("ymm6") _, out("ymm7") _,
                out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
                out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
                options(nostack),
            ),
            Level::Sse => asm!(
                "movq xmm0, {v}",
                ".irp i, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
                "movdqa xmm\\i, xmm0",
                ".endr",
                v = in(reg) value,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack),
            ),
        }
        asm!(
            "fld1", "fld1", "fld1", "fld1", "fld1", "fld1", "fld1", "fld1",
            "fninit",
            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            options(nostack),
        );
    }
}
