//! Holding values in registers for a while, and seeing whether they are still there.
//!
//! Each function fills registers, does nothing for some rounds (a few nanoseconds each) that only
//! assembly can do nothing in, and compares. A thread that is preempted meanwhile must not notice.

use std::arch::{is_x86_feature_detected, naked_asm};

/// Fills all general registers and the red zone with values that depend on `seed`. 0: all kept
/// their values.
///
/// ```text
///   rsp + 8   rounds left
///   rsp + 0   seed
///   rsp - 8, rsp - 64, rsp - 128   in the red zone
/// ```
#[unsafe(naked)]
pub extern "C" fn general(seed: u64, rounds: u64) -> u64 {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rsi",
        "push rdi",
        "lea rax, [rdi + 1]",
        "lea rbx, [rdi + 2]",
        "lea rcx, [rdi + 3]",
        "lea rdx, [rdi + 4]",
        "lea rsi, [rdi + 5]",
        "lea rbp, [rdi + 6]",
        ".irp i, 8, 9, 10, 11, 12, 13, 14, 15",
        "lea r\\i, [rdi + \\i]",
        ".endr",
        "mov [rsp - 8], rax",
        "mov [rsp - 64], rbx",
        "mov [rsp - 128], rcx",
        "2:",
        "dec qword ptr [rsp + 8]",
        "jnz 2b",
        // What differs, of each register, gathered in rax.
        "sub rax, 1",
        "sub rbx, 2",
        "sub rcx, 3",
        "sub rdx, 4",
        "sub rsi, 5",
        "sub rbp, 6",
        ".irp r, rax, rbx, rcx, rdx, rsi, rdi, rbp",
        "xor \\r, [rsp]",
        ".endr",
        ".irp r, rbx, rcx, rdx, rsi, rdi, rbp",
        "or rax, \\r",
        ".endr",
        ".irp i, 8, 9, 10, 11, 12, 13, 14, 15",
        "sub r\\i, \\i",
        "xor r\\i, [rsp]",
        "or rax, r\\i",
        ".endr",
        ".irp offset, 8, 64, 128",
        "mov rcx, [rsp - \\offset]",
        "sub rcx, [rsp]",
        "mov [rsp - \\offset], rcx",
        ".endr",
        "sub qword ptr [rsp - 8], 1",
        "sub qword ptr [rsp - 64], 2",
        "sub qword ptr [rsp - 128], 3",
        "or rax, [rsp - 8]",
        "or rax, [rsp - 64]",
        "or rax, [rsp - 128]",
        "add rsp, 16",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}

/// Sets the carry, parity, adjust, sign, overflow and direction flags and clears the zero flag.
/// Returns the flags afterwards.
#[unsafe(naked)]
pub extern "C" fn flags(rounds: u64) -> u64 {
    naked_asm!(
        "mov rcx, rdi",
        "mov al, 0x7f",
        // 0x82: two bits set (parity), negative, overflow, carry from the low half.
        "add al, 3",
        "stc",
        "std",
        "2:",
        "lea rcx, [rcx - 1]",
        "jrcxz 3f",
        "jmp 2b",
        "3:",
        "pushfq",
        "pop rax",
        "cld",
        "ret",
    )
}

/// The flags that [`flags`] sets, and those that it looks at.
pub const FLAGS_SET: u64 = 0x0c95;
/// See [`FLAGS_SET`].
pub const FLAGS_MASK: u64 = 0x0cd5;

/// Copies `bytes` with one instruction, which an interruption leaves half done: forwards, or
/// backwards if `down`.
///
/// # Safety
///
/// As `memcpy`.
#[unsafe(naked)]
pub unsafe extern "C" fn copy(to: *mut u8, from: *const u8, bytes: usize, down: bool) {
    naked_asm!(
        "test cl, cl",
        "mov rcx, rdx",
        "jz 2f",
        "lea rdi, [rdi + rdx - 1]",
        "lea rsi, [rsi + rdx - 1]",
        "std",
        "2:",
        "rep movsb",
        "cld",
        "ret",
    )
}

/// x87 and SSE control words, and the x87 stack.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fp {
    pub values: [f64; 8],
    pub mxcsr: u32,
    pub cw: u16,
}

impl Fp {
    /// All combinations of SSE and x87 rounding, flushing and precision.
    pub fn kind(i: u64) -> Fp {
        let (rounding, precision) = (i as u32 % 4, (i / 4 % 2) as u16);
        Fp {
            values: std::array::from_fn(|k| (i + 1) as f64 * 0.3 + k as f64),
            mxcsr: 0x1f80 | rounding << 13 | ((i / 8) as u32 % 2) << 15,
            cw: 0x007f | (3 - rounding as u16) << 10 | if precision == 1 { 0x300 } else { 0x200 },
        }
    }

    /// As at the start of a thread.
    pub fn initial() -> Fp {
        Fp { values: [0.0; 8], mxcsr: 0x1f80, cw: 0x037f }
    }
}

/// Loads `fp`, and after `rounds` stores it again.
#[unsafe(naked)]
pub extern "C" fn floating(fp: &mut Fp, rounds: u64) {
    naked_asm!(
        "fninit",
        "fldcw [rdi + 68]",
        "ldmxcsr [rdi + 64]",
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7",
        "fld qword ptr [rdi + 8 * \\i]",
        ".endr",
        "2:",
        "dec rsi",
        "jnz 2b",
        ".irp i, 7, 6, 5, 4, 3, 2, 1, 0",
        "fstp qword ptr [rdi + 8 * \\i]",
        ".endr",
        "fnstcw [rdi + 68]",
        "stmxcsr [rdi + 64]",
        "mov dword ptr [rsp - 8], 0x1f80",
        "ldmxcsr [rsp - 8]",
        "fninit",
        "ret",
    )
}

/// Calls `f` with the control words of `fp` loaded; stores those that are there afterwards.
#[unsafe(naked)]
pub extern "C" fn control_words_across(fp: &mut Fp, f: extern "C" fn()) {
    naked_asm!(
        "push rbx",
        "mov rbx, rdi",
        "fldcw [rbx + 68]",
        "ldmxcsr [rbx + 64]",
        "call rsi",
        "fnstcw [rbx + 68]",
        "stmxcsr [rbx + 64]",
        "mov dword ptr [rsp - 8], 0x1f80",
        "ldmxcsr [rsp - 8]",
        "fninit",
        "pop rbx",
        "ret",
    )
}

/// The control words of the caller.
#[unsafe(naked)]
pub extern "C" fn control_words(fp: &mut Fp) {
    naked_asm!("fnstcw [rdi + 68]", "stmxcsr [rdi + 64]", "ret")
}

/// Vector and mask registers.
#[repr(C, align(64))]
#[derive(Clone, Debug, PartialEq)]
pub struct Vectors {
    pub vectors: [[u64; 8]; 32],
    pub masks: [u64; 8],
}

impl Vectors {
    /// Nothing.
    pub fn zero() -> Vectors {
        Vectors { vectors: [[0; 8]; 32], masks: [0; 8] }
    }

    /// Words that are different everywhere and for each seed; zero where `words` and `registers`
    /// say that there is nothing.
    fn pattern(seed: u64, registers: usize, words: usize) -> Vectors {
        let mut rng = super::Rng(seed);
        let mut v = Vectors::zero();
        v.vectors[..registers].iter_mut().for_each(|r| r[..words].fill_with(|| rng.next()));
        if words == 8 {
            v.masks.fill_with(|| rng.next());
        }
        v
    }
}

type Hold = unsafe extern "C" fn(&Vectors, &mut Vectors, u64);

/// Which registers there are here: a name, how to hold them, how many, and how many 64-bit words
/// each has.
pub fn vector_kinds() -> Vec<(&'static str, Hold, usize, usize)> {
    let mut kinds: Vec<(_, Hold, _, _)> = vec![("xmm", xmm, 16, 2)];
    if is_x86_feature_detected!("avx") {
        kinds.push(("ymm", ymm, 16, 4));
    }
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
        kinds.push(("zmm and k", zmm, 32, 8));
    }
    kinds
}

/// Fills the registers of `kind`, and after `rounds` looks at them.
pub fn vectors_are_kept(kind: (&str, Hold, usize, usize), seed: u64, rounds: u64) {
    let (name, hold, registers, words) = kind;
    let expected = Vectors::pattern(seed, registers, words);
    let mut found = Vectors::zero();
    // SAFETY: `vector_kinds` has found that the CPU has these registers.
    unsafe { hold(&expected, &mut found, rounds) };
    assert_eq!(found, expected, "{name}");
}

#[unsafe(naked)]
unsafe extern "C" fn xmm(from: &Vectors, to: &mut Vectors, rounds: u64) {
    naked_asm!(
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "movups xmm\\i, [rdi + 64 * \\i]",
        ".endr",
        "2:",
        "dec rdx",
        "jnz 2b",
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "movups [rsi + 64 * \\i], xmm\\i",
        ".endr",
        "ret",
    )
}

#[unsafe(naked)]
unsafe extern "C" fn ymm(from: &Vectors, to: &mut Vectors, rounds: u64) {
    naked_asm!(
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "vmovups ymm\\i, [rdi + 64 * \\i]",
        ".endr",
        "2:",
        "dec rdx",
        "jnz 2b",
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "vmovups [rsi + 64 * \\i], ymm\\i",
        ".endr",
        "vzeroupper",
        "ret",
    )
}

#[unsafe(naked)]
unsafe extern "C" fn zmm(from: &Vectors, to: &mut Vectors, rounds: u64) {
    naked_asm!(
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, \
         23, 24, 25, 26, 27, 28, 29, 30, 31",
        "vmovups zmm\\i, [rdi + 64 * \\i]",
        ".endr",
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7",
        "kmovq k\\i, [rdi + 2048 + 8 * \\i]",
        ".endr",
        "2:",
        "dec rdx",
        "jnz 2b",
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, \
         23, 24, 25, 26, 27, 28, 29, 30, 31",
        "vmovups [rsi + 64 * \\i], zmm\\i",
        ".endr",
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7",
        "kmovq [rsi + 2048 + 8 * \\i], k\\i",
        ".endr",
        "vzeroupper",
        "ret",
    )
}
