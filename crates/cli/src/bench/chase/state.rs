//! Saving registers that a function call does not keep, as a scheduler must that interrupts a
//! thread at any instruction.

use std::arch::asm;
use std::mem::MaybeUninit;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// How much is saved and with what.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nothing more than a switch saves.
    General,
    /// All vector and mask registers, one by one.
    Moves,
    /// Those state components that are in use, as one instruction finds out.
    Xsavec,
    /// The same, each in its fixed place.
    Xsave,
}

/// x87, SSE, AVX, and the three components of AVX-512.
const COMPONENTS: u32 = 0b1110_0111;

/// The components above take 2,688 bytes in the standard format, and no more in the compact one.
#[repr(C, align(64))]
struct Area([u8; 2688]);

/// Where XSAVE says in it what it has saved.
const HEADER: Range<usize> = 512..576;

/// Fills an area with registers, and loads them from it.
type Save = unsafe fn(*mut u8);
type Restore = unsafe fn(*const u8);

impl State {
    /// All of them, the cheapest first.
    pub const ALL: [State; 4] = [State::General, State::Moves, State::Xsavec, State::Xsave];

    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            State::General => "general registers",
            State::Moves => "vector moves",
            State::Xsavec => "xsavec",
            State::Xsave => "xsave",
        }
    }

    /// Does this processor have the instructions?
    pub fn available(self) -> bool {
        match self {
            State::General => true,
            State::Moves => is_x86_feature_detected!("avx"),
            State::Xsavec => is_x86_feature_detected!("xsavec"),
            State::Xsave => is_x86_feature_detected!("xsave"),
        }
    }

    /// Calls `body` with the state saved on this stack, and restores it then.
    ///
    /// # Panics
    ///
    /// If this way is not [`available`](State::available).
    pub fn around(self, body: impl FnOnce()) {
        let (save, restore): (Save, Restore) = match self {
            State::General => return body(),
            State::Moves if is_x86_feature_detected!("avx512bw") => (save_512, restore_512),
            State::Moves => (save_256, restore_256),
            State::Xsavec => (xsavec, xrstor),
            State::Xsave => (xsave, xrstor),
        };
        assert!(self.available(), "this processor has no {}", self.name());
        // Not initialised: that would cost as much as saving.
        let mut area = MaybeUninit::<Area>::uninit();
        let at = area.as_mut_ptr().cast();
        // SAFETY: the processor has the instructions, and the area is large enough and aligned.
        unsafe { save(at) };
        body();
        // SAFETY: saved above. The registers get the values that they had, and the control words of
        // x87 and SSE are nowhere changed between.
        unsafe { restore(at) };
    }
}

/// # Safety
///
/// The processor must have XSAVE; `at` must be an area.
unsafe fn xsave(at: *mut u8) {
    // SAFETY: the caller's part.
    unsafe {
        clear_header(at);
        asm!("xsave64 [{}]", in(reg) at, in("eax") COMPONENTS, in("edx") 0);
    }
}

/// # Safety
///
/// The processor must have XSAVEC; `at` must be an area.
unsafe fn xsavec(at: *mut u8) {
    // SAFETY: the caller's part.
    unsafe {
        clear_header(at);
        asm!("xsavec64 [{}]", in(reg) at, in("eax") COMPONENTS, in("edx") 0);
    }
}

/// XSAVE and XSAVEC leave parts of the header alone, which XRSTOR wants zero.
///
/// # Safety
///
/// `at` must be an area.
unsafe fn clear_header(at: *mut u8) {
    // SAFETY: the caller's part.
    unsafe { at.add(HEADER.start).write_bytes(0, HEADER.len()) };
}

/// # Safety
///
/// [`xsave`] or [`xsavec`] must have filled the area.
unsafe fn xrstor(at: *const u8) {
    // SAFETY: the caller's part; the clobbers name every register that may change.
    unsafe {
        asm!("xrstor64 [rdi]", in("rdi") at, in("eax") COMPONENTS, in("edx") 0,
             clobber_abi("sysv64"));
    }
}

/// # Safety
///
/// The processor must have AVX-512BW; `at` must be an area.
unsafe fn save_512(at: *mut u8) {
    // SAFETY: the caller's part; 32 registers of 64 bytes and 8 of 8 fit.
    unsafe {
        asm!(
            ".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,\
             16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
            "vmovdqu64 [rdi + 64 * \\i], zmm\\i",
            ".endr",
            ".irp i,0,1,2,3,4,5,6,7",
            "kmovq [rdi + 2048 + 8 * \\i], k\\i",
            ".endr",
            in("rdi") at,
        );
    }
}

/// # Safety
///
/// As [`save_512`], which must have filled the area.
unsafe fn restore_512(at: *const u8) {
    // SAFETY: the caller's part; the clobbers name every register that changes: without AVX-512
    // the compiler uses none of the upper sixteen.
    unsafe {
        asm!(
            ".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,\
             16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
            "vmovdqu64 zmm\\i, [rdi + 64 * \\i]",
            ".endr",
            ".irp i,0,1,2,3,4,5,6,7",
            "kmovq k\\i, [rdi + 2048 + 8 * \\i]",
            ".endr",
            in("rdi") at,
            clobber_abi("sysv64"),
        );
    }
}

/// # Safety
///
/// The processor must have AVX; `at` must be an area.
unsafe fn save_256(at: *mut u8) {
    // SAFETY: the caller's part; 16 registers of 32 bytes fit.
    unsafe {
        asm!(
            ".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            "vmovdqu [rdi + 32 * \\i], ymm\\i",
            ".endr",
            in("rdi") at,
        );
    }
}

/// # Safety
///
/// As [`save_256`], which must have filled the area.
unsafe fn restore_256(at: *const u8) {
    // SAFETY: the caller's part; the clobbers name every register that changes.
    unsafe {
        asm!(
            ".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            "vmovdqu ymm\\i, [rdi + 32 * \\i]",
            ".endr",
            in("rdi") at,
            clobber_abi("sysv64"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is loaded can be stored again. Between the two calls nothing computes, so no register
    /// is used for anything else.
    #[test]
    fn every_register_has_its_place() {
        let pattern = |length: usize| {
            let mut area = Area([0; _]);
            area.0[..length].iter_mut().enumerate().for_each(|(i, byte)| *byte = (i % 251) as u8);
            area
        };
        if is_x86_feature_detected!("avx") {
            let (from, mut to) = (pattern(512), Area([0; _]));
            // SAFETY: the processor has the registers.
            unsafe {
                restore_256(from.0.as_ptr());
                save_256(to.0.as_mut_ptr());
            }
            assert_eq!(from.0, to.0);
        }
        if is_x86_feature_detected!("avx512bw") {
            let (from, mut to) = (pattern(2048 + 64), Area([0; _]));
            // SAFETY: as above.
            unsafe {
                restore_512(from.0.as_ptr());
                save_512(to.0.as_mut_ptr());
            }
            assert_eq!(from.0, to.0);
        }
    }

    #[test]
    fn the_body_is_called_and_floats_survive() {
        for state in State::ALL.into_iter().filter(|state| state.available()) {
            let half = std::hint::black_box(0.5f64);
            let mut sines = 0.0;
            state.around(|| sines = std::hint::black_box([0.1f64; 64]).map(f64::sin).iter().sum());
            assert!((sines - 64.0 * 0.1f64.sin()).abs() < 1e-9, "{state:?}");
            assert_eq!(half * 4.0, 2.0, "{state:?}");
        }
    }
}
