//! The architectural state of a core.

use crate::uintr::Uintr;
use crate::uop::reg;

/// Bits of RFLAGS.
pub mod flag {
    /// Carry.
    pub const CF: u64 = 1;
    /// Parity of the low byte.
    pub const PF: u64 = 1 << 2;
    /// Carry out of bit 3.
    pub const AF: u64 = 1 << 4;
    /// Zero.
    pub const ZF: u64 = 1 << 6;
    /// Sign.
    pub const SF: u64 = 1 << 7;
    /// Direction of string instructions.
    pub const DF: u64 = 1 << 10;
    /// Signed overflow.
    pub const OF: u64 = 1 << 11;
    /// What arithmetic changes.
    pub const STATUS: u64 = CF | PF | AF | ZF | SF | OF;
    /// What user code can set: the status flags, direction, nested task, alignment check and ID.
    pub const USER: u64 = STATUS | DF | 1 << 14 | 1 << 18 | 1 << 21;
    /// Always 1, and the interrupt flag, which is 1 in user code.
    pub const FIXED: u64 = 1 << 1 | 1 << 9;
}

/// A vector register: XMM in the lower half, YMM in all of it.
pub type Vector = [u8; 32];

/// MXCSR as programs find it: all exceptions masked, rounding to nearest.
pub const MXCSR: u32 = 0x1f80;

/// Registers. What is not here (CPUID, system calls) belongs to the machine around the core.
#[derive(Clone)]
pub struct Cpu {
    /// General registers, and those of uops ([`crate::uop::reg`]).
    pub r: [u64; 32],
    /// Vector registers; 16 is [`reg::VT`].
    pub v: [Vector; 32],
    /// RFLAGS.
    pub flags: u64,
    /// The next instruction.
    pub rip: u64,
    /// Control bits of vector arithmetic. Only their default works; exception flags are kept as
    /// stored.
    pub mxcsr: u32,
    /// User interrupts.
    pub uintr: Uintr,
}

impl Default for Cpu {
    fn default() -> Self {
        Cpu {
            r: [0; 32],
            v: [[0; 32]; 32],
            flags: flag::FIXED,
            rip: 0,
            mxcsr: MXCSR,
            uintr: Uintr::default(),
        }
    }
}

/// Values of `1 << size` bytes.
pub(crate) const MASK: [u64; 4] = [0xff, 0xffff, 0xffff_ffff, u64::MAX];
/// What a write of this size leaves of a general register: 32 bits clear the upper half.
const KEEP: [u64; 4] = [!0xff, !0xffff, 0, 0];

impl Cpu {
    #[inline]
    pub(crate) fn reg(&self, number: u8) -> u64 {
        self.r[usize::from(number & 31)]
    }

    #[inline]
    pub(crate) fn set(&mut self, number: u8, size: u8, value: u64) {
        let (register, size) = (&mut self.r[usize::from(number & 31)], usize::from(size & 3));
        *register = *register & KEEP[size] | value & MASK[size];
    }

    #[inline]
    pub(crate) fn vector(&self, number: u8) -> &Vector {
        &self.v[usize::from(number & 31)]
    }

    #[inline]
    pub(crate) fn vector_mut(&mut self, number: u8) -> &mut Vector {
        &mut self.v[usize::from(number & 31)]
    }

    /// The stack pointer.
    pub fn rsp(&self) -> u64 {
        self.reg(reg::RSP)
    }

    /// Whether the condition that an instruction's lowest four bits name holds.
    #[inline]
    pub(crate) fn condition(&self, code: u8) -> bool {
        use flag::{CF, OF, PF, SF, ZF};
        let f = self.flags;
        let less = (f & SF == 0) != (f & OF == 0);
        let holds = match code >> 1 {
            0 => f & OF != 0,
            1 => f & CF != 0,
            2 => f & ZF != 0,
            3 => f & (CF | ZF) != 0,
            4 => f & SF != 0,
            5 => f & PF != 0,
            6 => less,
            _ => less || f & ZF != 0,
        };
        holds != (code & 1 == 1)
    }
}
