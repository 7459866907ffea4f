//! Code that keeps everything in registers, one class after the other.
//!
//! Each function fills the registers of its class with different values, computes with them, and
//! writes them to memory.

use super::{Scenario, mix};
use crate::boundaries::stepper::step;
use core::arch::naked_asm;
use std::arch::is_x86_feature_detected;

pub(super) const ALL: &[Scenario] = &[
    Scenario::plain("general-registers", || held(general)),
    Scenario::plain("flags", || held(flags)),
    Scenario::plain("string-copy", || held(string)),
    Scenario::plain("x87", || held(x87)),
    Scenario::plain("mxcsr", || held(mxcsr)),
    Scenario::plain("sse", || held(sse)),
    Scenario::only_if("avx", || is_x86_feature_detected!("avx2"), || held(avx)),
    Scenario::only_if("avx512", has_avx512, || held(avx512)),
    Scenario::only_if("avx512-masks", has_avx512, || held(masks)),
    Scenario::only_if("protection-keys", has_protection_keys, || held(protection_keys)),
];

fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
}

/// Has the kernel switched protection keys on? (CPUID leaf 7: OSPKE.)
fn has_protection_keys() -> bool {
    core::arch::x86_64::__cpuid_count(7, 0).ecx & 1 << 4 != 0
}

/// What a function works on: input, then output.
#[repr(C, align(64))]
struct Memory {
    input: [u64; 256],
    output: [u64; 256],
}

fn held(f: unsafe extern "C" fn(&mut Memory)) -> u64 {
    let mut memory = Memory { input: core::array::from_fn(|i| mix(i as u64, 1)), output: [0; 256] };
    // SAFETY: the CPU has these registers, or the scenario would not be available.
    step(|| unsafe { f(&mut memory) });
    memory.output.into_iter().fold(0, mix)
}

/// All general registers but the stack pointer, and the red zone.
#[unsafe(naked)]
unsafe extern "C" fn general(memory: &mut Memory) {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov rax, [rdi + 8]",
        "mov rbx, [rdi + 16]",
        "mov rcx, [rdi + 24]",
        "mov rdx, [rdi + 32]",
        "mov rsi, [rdi + 40]",
        "mov rbp, [rdi + 48]",
        ".irp i, 8, 9, 10, 11, 12, 13, 14, 15",
        "mov r\\i, [rdi + 8 * \\i]",
        ".endr",
        "mov [rsp - 8], rax",
        "mov [rsp - 64], rbx",
        "mov [rsp - 128], rcx",
        "imul rax, rbx",
        "adc rcx, rdx",
        "rol rsi, 7",
        "lea rbp, [rbp + 4 * r8]",
        "bswap r9",
        "popcnt r10, r10",
        "not r11",
        "xchg r12, r13",
        "sbb r14, r15",
        "cmovc r15, r8",
        "xadd r12, rbx",
        "xor rax, [rsp - 8]",
        "xor rbx, [rsp - 64]",
        "xor rcx, [rsp - 128]",
        "mov [rdi + 2048], rax",
        "mov [rdi + 2056], rbx",
        "mov [rdi + 2064], rcx",
        "mov [rdi + 2072], rdx",
        "mov [rdi + 2080], rsi",
        "mov [rdi + 2088], rbp",
        ".irp i, 8, 9, 10, 11, 12, 13, 14, 15",
        "mov [rdi + 2048 + 8 * \\i], r\\i",
        ".endr",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}

/// Each arithmetic flag and the direction flag, set and clear. The trap flag is taken out of what
/// is stored.
#[unsafe(naked)]
unsafe extern "C" fn flags(memory: &mut Memory) {
    naked_asm!(
        "xor ecx, ecx",
        "2:",
        "mov rax, [rdi + 8 * rcx]",
        "add al, ah",
        "lea rcx, [rcx]",
        "pushfq",
        "pop rdx",
        "and edx, 0xcd5",
        "mov [rdi + 2048 + 8 * rcx], rdx",
        "std",
        "pushfq",
        "pop rdx",
        "and edx, 0xcd5",
        "mov [rdi + 2112 + 8 * rcx], rdx",
        "cmc",
        "setc [rdi + 2176 + rcx]",
        "seto [rdi + 2192 + rcx]",
        "cld",
        "inc ecx",
        "cmp ecx, 8",
        "jne 2b",
        "ret",
    )
}

/// String instructions, which are interrupted between two repetitions, forwards and backwards.
#[unsafe(naked)]
unsafe extern "C" fn string(memory: &mut Memory) {
    naked_asm!(
        "mov rdx, rdi",
        "mov rsi, rdx",
        "lea rdi, [rdx + 2048]",
        "mov ecx, 40",
        "rep movsb",
        "std",
        "lea rsi, [rdx + 255]",
        "lea rdi, [rdx + 2048 + 255]",
        "mov ecx, 40",
        "rep movsb",
        "cld",
        "mov eax, 0x77",
        "lea rdi, [rdx + 2048 + 300]",
        "mov ecx, 12",
        "rep stosd",
        "lea rdi, [rdx + 2048 + 300]",
        "mov ecx, 100",
        "repe scasd",
        "mov [rdx + 2048 + 512], rcx",
        "ret",
    )
}

/// The whole x87 stack and its control word: each rounding.
#[unsafe(naked)]
unsafe extern "C" fn x87(memory: &mut Memory) {
    naked_asm!(
        "fninit",
        "mov word ptr [rsp - 8], 0x037f",
        "xor ecx, ecx",
        "2:",
        "fldcw [rsp - 8]",
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7",
        "fild qword ptr [rdi + 8 * \\i]",
        ".endr",
        "fdivp st(1), st",
        "fxch st(3)",
        "fsqrt",
        "faddp st(2), st",
        "fabs",
        "fscale",
        ".irp i, 0, 1, 2, 3, 4, 5",
        "fstp qword ptr [rdi + 2048 + 8 * \\i]",
        ".endr",
        "mov rax, [rdi + 2048]",
        "xor [rdi + 2112 + rcx], rax",
        "fnstcw [rdi + 2176 + rcx]",
        "add word ptr [rsp - 8], 0x0400",
        "add ecx, 8",
        "cmp ecx, 32",
        "jne 2b",
        "fninit",
        "ret",
    )
}

/// Rounding, flushing and sticky exceptions of SSE.
#[unsafe(naked)]
unsafe extern "C" fn mxcsr(memory: &mut Memory) {
    naked_asm!(
        "mov dword ptr [rsp - 8], 0x1f80",
        "xor ecx, ecx",
        "2:",
        "ldmxcsr [rsp - 8]",
        "cvtsi2sd xmm0, qword ptr [rdi + 8 * rcx]",
        "cvtsi2sd xmm1, qword ptr [rdi + 8 * rcx + 8]",
        "divsd xmm0, xmm1",
        "sqrtsd xmm2, xmm0",
        "cvtsd2si rax, xmm0",
        "movsd [rdi + 2048 + 8 * rcx], xmm0",
        "movsd [rdi + 2112 + 8 * rcx], xmm2",
        "mov [rdi + 2176 + 8 * rcx], rax",
        "stmxcsr [rdi + 2240 + 8 * rcx]",
        "add dword ptr [rsp - 8], 0x2000",
        "inc ecx",
        "cmp ecx, 8",
        "jne 2b",
        "mov dword ptr [rsp - 8], 0x1f80",
        "ldmxcsr [rsp - 8]",
        "ret",
    )
}

#[unsafe(naked)]
unsafe extern "C" fn sse(memory: &mut Memory) {
    naked_asm!(
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "movdqa xmm\\i, [rdi + 16 * \\i]",
        ".endr",
        "mov ecx, 2",
        "2:",
        ".irp i, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "paddq xmm\\i, xmm0",
        "pshufd xmm0, xmm\\i, 0x93",
        ".endr",
        "dec ecx",
        "jnz 2b",
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "movdqa [rdi + 2048 + 16 * \\i], xmm\\i",
        ".endr",
        "ret",
    )
}

#[unsafe(naked)]
unsafe extern "C" fn avx(memory: &mut Memory) {
    naked_asm!(
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "vmovdqa ymm\\i, [rdi + 32 * \\i]",
        ".endr",
        "mov ecx, 2",
        "2:",
        ".irp i, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "vpaddq ymm\\i, ymm\\i, ymm0",
        "vpermq ymm0, ymm\\i, 0x93",
        ".endr",
        "dec ecx",
        "jnz 2b",
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "vmovdqa [rdi + 2048 + 32 * \\i], ymm\\i",
        ".endr",
        "vzeroupper",
        // From here on the upper halves are in their initial state.
        "paddq xmm0, xmm1",
        "movdqa [rdi + 2048], xmm0",
        "ret",
    )
}

#[unsafe(naked)]
unsafe extern "C" fn avx512(memory: &mut Memory) {
    naked_asm!(
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, \
         23, 24, 25, 26, 27, 28, 29, 30, 31",
        "vmovdqa64 zmm\\i, [rdi + 64 * \\i]",
        ".endr",
        ".irp i, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, \
         23, 24, 25, 26, 27, 28, 29, 30, 31",
        "vpaddq zmm\\i, zmm\\i, zmm0",
        "vpermq zmm0, zmm\\i, 0x93",
        ".endr",
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, \
         23, 24, 25, 26, 27, 28, 29, 30, 31",
        "vmovdqa64 [rdi + 2048 + 64 * \\i], zmm\\i",
        ".endr",
        "vzeroupper",
        "ret",
    )
}

#[unsafe(naked)]
unsafe extern "C" fn masks(memory: &mut Memory) {
    naked_asm!(
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7",
        "kmovq k\\i, [rdi + 8 * \\i]",
        ".endr",
        "kaddq k0, k0, k1",
        "kxorq k1, k1, k2",
        "kshiftlq k2, k3, 5",
        "kandnq k3, k4, k5",
        "kunpckdq k4, k5, k6",
        "kortestq k6, k7",
        "setc al",
        "vmovdqu8 zmm5 {{k7}} {{z}}, [rdi]",
        "vmovdqu64 [rdi + 2304], zmm5",
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7",
        "kmovq [rdi + 2048 + 8 * \\i], k\\i",
        ".endr",
        "mov [rdi + 2112], al",
        "vzeroupper",
        "ret",
    )
}

/// Access rights by protection key; key 15 is nobody's.
#[unsafe(naked)]
unsafe extern "C" fn protection_keys(memory: &mut Memory) {
    naked_asm!(
        "xor ecx, ecx",
        "rdpkru",
        "mov esi, eax",
        "xor eax, 0xc0000000",
        "wrpkru",
        "nop",
        "nop",
        "nop",
        "rdpkru",
        "xor eax, esi",
        "mov [rdi + 2048], rax",
        "mov eax, esi",
        "xor edx, edx",
        "wrpkru",
        "rdpkru",
        "xor eax, esi",
        "mov [rdi + 2056], rax",
        "ret",
    )
}
