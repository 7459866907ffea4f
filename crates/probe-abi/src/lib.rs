//! What a preemption probe and a runtime agree on: `quaver-probes` writes the probes, `quaver` is
//! such a runtime.
//!
//! A probe looks at words in the thread control block, which `%fs` points to. glibc reserves the
//! bytes 0x80..0x280 of it (`__glibc_unused2` of `tcbhead_t`), uses none of them, and sets them to
//! zero for every thread. So a probe needs no symbol and no relocation, and in a thread that no
//! runtime has touched it is never hit.
//!
//! | at        | size | meaning |
//! |-----------|------|---------|
//! | `%fs:0x80`| 1 | [`WORD`]: not 0: the probe goes to its stub |
//! | `%fs:0x84`| 4 | [`COUNTDOWN`], signed: stubs subtract 1, and return if that is not negative |
//! | `%fs:0x88`| 8 | the entry for [`VectorClass::None`] |
//! | `%fs:0x90`| 8 | the entry for [`VectorClass::Xmm`] |
//! | `%fs:0x98`| 8 | the entry for [`VectorClass::Ymm`] |
//! | `%fs:0xa0`| 8 | the entry for [`VectorClass::Zmm`] |
//! | `%fs:0xa8`| 8 | the entry for [`VectorClass::All`] |
//!
//! # What an entry finds
//!
//! ```text
//!   (%rsp)            return address, in the stub
//!   8(%rsp)           mask of the live registers, 8 bytes
//!   16..144(%rsp)     the red zone of the interrupted function: leave it alone
//! ```
//!
//! * Mask: bit *n* is general register *n* in the order of the encoding (rax, rcx, rdx, rbx, rsp,
//!   rbp, rsi, rdi, r8..r15); bits 16..31 are 0. What is not in the mask may be overwritten. The
//!   registers that a callee saves, and rsp, are always in it: unwinders need them.
//! * The arithmetic flags may be overwritten: either they are dead, or the probe has saved them.
//!   The direction flag is clear, as the ABI wants it; the control bits of x87 and MXCSR must be
//!   kept.
//! * The countdown goes on: whoever sets the word stores 0 or less there to be called at the first
//!   probe, *n* to be called at the one after *n* others, and renews it at each call.
//! * The stack is aligned to 8 bytes only.
//! * An entry returns with `ret`, and begins with `endbr64` where indirect branches are tracked.
#![no_std]
#![forbid(unsafe_code)]

/// Offset from `%fs` of the byte that a probe compares with 0.
pub const WORD: u32 = 0x80;

/// Offset from `%fs` of the countdown, an `i32`.
pub const COUNTDOWN: u32 = 0x84;

/// Offset from `%fs` of the first of five entry pointers, 8 bytes each.
pub const ENTRIES: u32 = 0x88;

/// Bytes below the stack pointer that a function may use without saying so.
pub const RED_ZONE: u32 = 128;

/// General registers that are always in the mask: rbx, rsp, rbp and r12 to r15.
pub const ALWAYS_LIVE: u16 = 0xf038;

/// Which vector state may be live at a probe. Each class contains those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum VectorClass {
    /// No vector register and no x87 register.
    None = 0,
    /// xmm0 to xmm15.
    Xmm = 1,
    /// ymm0 to ymm15.
    Ymm = 2,
    /// zmm0 to zmm31 and the mask registers k0 to k7.
    Zmm = 3,
    /// Also the x87 or MMX registers; or nothing is known.
    All = 4,
}

impl VectorClass {
    /// Number of classes, and of entry pointers.
    pub const COUNT: usize = 5;

    /// Offset from `%fs` of the pointer to this class's entry.
    pub const fn entry(self) -> u32 {
        ENTRIES + 8 * self as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_words_lie_in_the_bytes_that_glibc_reserves() {
        let end = ENTRIES + 8 * VectorClass::COUNT as u32;
        for (word, size) in [(WORD, 1), (COUNTDOWN, 4), (ENTRIES, 8), (VectorClass::All.entry(), 8)]
        {
            assert!(word.is_multiple_of(size), "{word:#x}");
            assert!((0x80..0x280).contains(&word) && word + size <= end, "{word:#x}");
        }
        assert_eq!(VectorClass::All.entry() + 8, end);
    }
}
