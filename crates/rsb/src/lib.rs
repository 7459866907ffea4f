//! System calls after which returns are predicted. Why, and what it brings: this crate's README.
//!
//! [`prepare`] once, then [`syscall`]; or [`refill`] straight after a system call, before the
//! function that made it returns.
//!
//! Nothing here but `prepare` allocates, takes a lock, or touches `errno`.

#![cfg(target_arch = "x86_64")]

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Once;

/// What the kernel does about speculative return stack overflow.
const VULNERABILITY: &str = "/sys/devices/system/cpu/vulnerabilities/spec_rstack_overflow";

static IS_NEEDED: AtomicBool = AtomicBool::new(false);

/// Finds out whether this kernel leaves wrong predictions, and so whether [`refill`] does
/// something; until then it does nothing. The first call reads a file, others cost nothing.
pub fn prepare() -> bool {
    static ASKED: Once = Once::new();
    ASKED.call_once(|| {
        let text = std::fs::read_to_string(VULNERABILITY);
        let is_lossy = text.is_ok_and(|text| is_lossy(&text));
        IS_NEEDED.store(is_lossy && !has_shadow_stack(), Relaxed);
    });
    IS_NEEDED.load(Relaxed)
}

/// Whether a kernel that says this of itself leaves its own addresses in the buffer. Where it lacks
/// the microcode, it is "Vulnerable: Safe RET, no microcode".
fn is_lossy(text: &str) -> bool {
    text.contains("Safe RET")
}

/// Makes a system call, and [refills](refill). The result is the kernel's, a negative error. Blocks
/// as the call does.
///
/// # Safety
///
/// The call must keep its promises with these arguments: it may read and write memory.
#[inline(always)]
pub unsafe fn syscall(number: i64, arguments: [u64; 6]) -> i64 {
    let result: i64;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the kernel changes rax, rcx and r11 only; effects on memory are the caller's promise.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    refill();
    result
}

/// Does this process run with CET shadow stacks? Calls without returns stay there, and a switch of
/// threads would have to switch them, too.
pub fn has_shadow_stack() -> bool {
    const ARCH_SHSTK_STATUS: u64 = 0x5005;
    let mut features = 0u64;
    let at = &raw mut features as u64;
    // SAFETY: the kernel writes one word, or fails.
    let result = unsafe { syscall(libc::SYS_arch_prctl, [ARCH_SHSTK_STATUS, at, 0, 0, 0, 0]) };
    result == 0 && features & 1 != 0
}

/// Puts 16 harmless addresses above what the kernel has left, if [`prepare`] says so. Takes 10 ns,
/// and 128 bytes of stack below the caller's. Never blocks; may be interrupted and preempted at any
/// instruction, and called in handlers of signals.
#[inline(always)]
pub fn refill() {
    if IS_NEEDED.load(Relaxed) {
        refill_here();
    }
}

#[inline(always)]
fn refill_here() {
    // SAFETY: `fill` comes back to label 2 with all registers but rcx as they were, and with the
    // stack pointer as it was. Without `nostack` nothing of the caller's is below that.
    unsafe {
        core::arch::asm!(
            "lea rcx, [rip + 2f]",
            "jmp {fill}",
            "2:",
            fill = sym fill,
            out("rcx") _,
            options(preserves_flags),
        );
    }
}

/// Calls 16 times without returning, and goes on at `rcx`: a return would take the newest address
/// out again. A guess that goes to one of these traps; nothing is run there but in vain.
///
/// On the stack are up to 16 return addresses, each to the next instruction. `lea` keeps the flags.
#[unsafe(naked)]
extern "C" fn fill() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa rsp, 0",
        ".cfi_register rip, rcx",
        ".rept 16",
        "call 3f",
        "int3",
        "3:",
        ".cfi_adjust_cfa_offset 8",
        ".endr",
        "lea rsp, [rsp + 128]",
        ".cfi_adjust_cfa_offset -128",
        "jmp rcx",
        ".cfi_endproc",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels' own words.
    #[test]
    fn kernels_say_what_they_do() {
        for lossy in ["Mitigation: Safe RET\n", "Vulnerable: Safe RET, no microcode\n"] {
            assert!(is_lossy(lossy), "{lossy}");
        }
        for other in [
            "Not affected\n",
            "Vulnerable\n",
            "Mitigation: SMT disabled\n",
            "Mitigation: IBPB\n",
            "Mitigation: IBPB on VMEXIT only\n",
            "Vulnerable: No microcode\n",
        ] {
            assert!(!is_lossy(other), "{other}");
        }
    }

    #[inline(never)]
    fn sum(depth: u64, seen: &mut Vec<u64>) -> u64 {
        if depth == 0 {
            refill_here();
            return 0;
        }
        let below = sum(depth - 1, seen);
        refill_here();
        seen.push(depth);
        below + depth
    }

    /// Whatever the processor guesses, functions return to where they were called.
    #[test]
    fn functions_return_as_before() {
        let mut seen = Vec::new();
        assert_eq!(sum(40, &mut seen), 820);
        assert!(seen.into_iter().eq(1..=40));
    }

    /// A leaf function may keep data below its stack pointer, unless it calls.
    #[test]
    fn nothing_of_the_callers_is_overwritten() {
        #[inline(never)]
        fn leaf(numbers: [u64; 14]) -> u64 {
            let kept = std::hint::black_box(numbers);
            refill_here();
            kept.iter().sum()
        }
        assert_eq!(leaf(std::array::from_fn(|i| i as u64)), 91);
    }

    /// The kernel of this machine, whichever it is, is asked once.
    #[test]
    fn the_kernel_is_asked() {
        let text = std::fs::read_to_string(VULNERABILITY).unwrap_or_default();
        assert_eq!(prepare(), is_lossy(&text) && !has_shadow_stack());
        assert_eq!(prepare(), IS_NEEDED.load(Relaxed));
    }
}
