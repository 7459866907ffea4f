//! Sets of registers and flags: the values that data flow computes with.
//!
//! ```text
//!   bits    0..16  general registers, by their number in the encoding
//!          16..32  xmm0-15                 32..48  bits 128..256 of ymm0-15
//!          48..64  bits 256..512 of zmm0-15 64..80 zmm16-31
//!          80..88  k0-7                    88      all x87 and MMX registers
//!          96..102 OF SF ZF AF CF PF, in the order of the decoder's bits
//! ```

use std::ops::{BitAnd, BitOr, BitOrAssign, Not};

use iced_x86::Register;

use crate::abi::{ALWAYS_LIVE, VectorClass};

/// A set of registers, parts of vector registers, and flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Regs(pub u128);

impl Regs {
    /// Nothing.
    pub const NONE: Regs = Regs(0);
    /// Everything, with the bits that mean nothing.
    pub const ALL: Regs = Regs(u128::MAX);
    /// The sixteen general registers.
    pub const GENERAL: Regs = Regs(0xffff);
    /// The carry flag.
    pub const CARRY: Regs = Regs(1 << 100);
    /// All arithmetic flags, the carry included.
    pub const FLAGS: Regs = Regs(0x3f << 96);
    /// All vector, mask and x87 registers.
    pub const VECTORS: Regs = Regs(((1 << 73) - 1) << 16);
    /// The upper parts of ymm0-15, and of zmm0-15.
    pub const UPPER: Regs = Regs(((1 << 32) - 1) << 32);
    /// The x87 and MMX registers.
    pub const X87: Regs = Regs(1 << 88);

    /// General register `number`.
    pub const fn general(number: u32) -> Regs {
        Regs(1 << number)
    }

    /// All vector registers of `width` and narrower ones, without x87.
    pub fn vectors(width: VectorClass) -> Regs {
        let mut bits: u128 = 0xffff << 16;
        if width >= VectorClass::Ymm {
            bits |= 0xffff << 32;
        }
        if width >= VectorClass::Zmm {
            bits |= ((1 << 40) - 1) << 48;
        }
        Regs(bits)
    }

    /// Flags from the decoder's bits.
    pub fn flags(bits: u32) -> Regs {
        Regs(u128::from(bits & 0x3f) << 96)
    }

    /// All bits of `register` that it names, and nothing for those that are not followed here
    /// (segment, instruction pointer).
    pub fn of(register: Register) -> Regs {
        let number = register.number() as u32;
        if register.is_gpr() {
            return Regs::general(register.full_register().number() as u32);
        }
        if register.is_k() {
            return Regs(1 << (80 + number));
        }
        if register.is_st() || register.is_mm() {
            return Regs::X87;
        }
        if !register.is_vector_register() {
            return Regs::NONE;
        }
        if number >= 16 {
            return Regs(1 << (64 + number - 16));
        }
        let mut bits = 1 << (16 + number);
        if register.is_ymm() || register.is_zmm() {
            bits |= 1 << (32 + number);
        }
        if register.is_zmm() {
            bits |= 1 << (48 + number);
        }
        Regs(bits)
    }

    /// Whether nothing is in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the two have something in common.
    pub fn meets(self, other: Regs) -> bool {
        self.0 & other.0 != 0
    }

    /// Those of `self` that are not in `other`.
    pub fn without(self, other: Regs) -> Regs {
        self & !other
    }

    /// The mask of a stub: general registers, with those that are always live.
    pub fn mask(self) -> u16 {
        (self.0 & 0xffff) as u16 | ALWAYS_LIVE
    }

    /// The smallest class that contains the vector state in the set.
    pub fn class(self) -> VectorClass {
        let has = |from: u32, count: u32| (self.0 >> from) & ((1 << count) - 1) != 0;
        if has(88, 1) {
            VectorClass::All
        } else if has(48, 40) {
            VectorClass::Zmm
        } else if has(32, 16) {
            VectorClass::Ymm
        } else if has(16, 16) {
            VectorClass::Xmm
        } else {
            VectorClass::None
        }
    }
}

impl BitOr for Regs {
    type Output = Regs;
    fn bitor(self, other: Regs) -> Regs {
        Regs(self.0 | other.0)
    }
}

impl BitOrAssign for Regs {
    fn bitor_assign(&mut self, other: Regs) {
        self.0 |= other.0;
    }
}

impl BitAnd for Regs {
    type Output = Regs;
    fn bitand(self, other: Regs) -> Regs {
        Regs(self.0 & other.0)
    }
}

impl Not for Regs {
    type Output = Regs;
    fn not(self) -> Regs {
        Regs(!self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_found_in_their_classes() {
        assert_eq!(Regs::of(Register::AH), Regs::general(0));
        assert_eq!(Regs::of(Register::R15D), Regs::general(15));
        assert_eq!(Regs::of(Register::XMM3).class(), VectorClass::Xmm);
        assert_eq!(Regs::of(Register::YMM3).class(), VectorClass::Ymm);
        assert_eq!(Regs::of(Register::ZMM3).class(), VectorClass::Zmm);
        assert_eq!(Regs::of(Register::XMM16).class(), VectorClass::Zmm);
        assert_eq!(Regs::of(Register::K7).class(), VectorClass::Zmm);
        assert_eq!(Regs::of(Register::ST0).class(), VectorClass::All);
        assert_eq!(Regs::of(Register::FS), Regs::NONE);
        assert_eq!(Regs::ALL.class(), VectorClass::All);
        assert_eq!(Regs::FLAGS.class(), VectorClass::None);
        assert!(Regs::FLAGS.meets(Regs::CARRY));
    }

    #[test]
    fn callee_saved_registers_are_always_in_the_mask() {
        assert_eq!(Regs::NONE.mask(), ALWAYS_LIVE);
        assert_eq!(Regs::general(1).mask(), ALWAYS_LIVE | 2);
    }
}
