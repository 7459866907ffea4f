//! Operands of instructions as registers of uops.

use iced_x86::{Instruction, OpKind, Register};

use crate::uop::{Op, Uop, reg};

/// Which class of left-out instructions an instruction is of; an index into `CLASSES`.
pub(super) type Refused = u8;

/// Emits the uops of one instruction.
pub(super) struct Emit<'a> {
    pub(super) i: &'a Instruction,
    uops: &'a mut Vec<Uop>,
}

/// Logarithm of a size in bytes.
pub(super) fn log(bytes: usize) -> u8 {
    bytes.trailing_zeros() as u8
}

/// The number of a general or vector register.
pub(super) fn number(register: Register) -> u8 {
    match register {
        Register::AH | Register::CH | Register::DH | Register::BH => {
            register as u8 - Register::AH as u8
        }
        Register::None | Register::RIP => reg::ZERO,
        _ => register.full_register().number() as u8,
    }
}

fn is_high(register: Register) -> bool {
    matches!(register, Register::AH | Register::CH | Register::DH | Register::BH)
}

impl<'a> Emit<'a> {
    pub(super) fn new(i: &'a Instruction, uops: &'a mut Vec<Uop>) -> Emit<'a> {
        Emit { i, uops }
    }

    /// What the model leaves out whatever the mnemonic.
    pub(super) fn refuse(&self) -> Option<Refused> {
        let i = self.i;
        let registers = (0..i.op_count()).filter(|&n| i.op_kind(n) == OpKind::Register);
        for register in registers.map(|n| i.op_register(n)) {
            if register.is_st() || register.is_mm() {
                return Some(1);
            }
            let vector = register.is_vector_register();
            if register.is_zmm() || register.is_k() || vector && register.number() > 15 {
                return Some(2);
            }
            if register.is_segment_register() || register.is_cr() || register.is_dr() {
                return Some(4);
            }
        }
        if i.has_op_mask() || matches!(i.encoding(), iced_x86::EncodingKind::EVEX) {
            return Some(2);
        }
        let base = [i.memory_base(), i.memory_index()];
        if base.iter().any(|r| r.is_gpr32() || *r == Register::EIP) {
            return Some(3);
        }
        if base[1].is_vector_register() {
            return Some(5);
        }
        let short = (0..i.op_count()).any(|n| {
            matches!(
                i.op_kind(n),
                OpKind::MemorySegESI
                    | OpKind::MemorySegSI
                    | OpKind::MemorySegEDI
                    | OpKind::MemorySegDI
                    | OpKind::MemoryESEDI
                    | OpKind::MemoryESDI
            )
        });
        short.then_some(3)
    }

    pub(super) fn push(&mut self, uop: Uop) {
        self.uops.push(uop);
    }

    /// Operand `n` is in memory.
    pub(super) fn in_memory(&self, n: u32) -> bool {
        self.i.op_kind(n) == OpKind::Memory
    }

    /// Logarithm of the bytes of operand `n`, which is a register or in memory.
    pub(super) fn size(&self, n: u32) -> u8 {
        match self.i.op_kind(n) {
            OpKind::Register => log(self.i.op_register(n).size()),
            _ => log(self.i.memory_size().size()),
        }
    }

    /// A uop with the address of the memory operand.
    pub(super) fn address(&self, op: Op, size: u8, dst: u8) -> Uop {
        let i = self.i;
        Uop {
            size,
            dst,
            a: number(i.memory_base()),
            b: number(i.memory_index()),
            seg: segment(i.segment_prefix()),
            scale: log(i.memory_index_scale() as usize),
            imm: i.memory_displacement64() as i64,
            ..Uop::new(op)
        }
    }

    pub(super) fn load(&mut self, size: u8, dst: u8) {
        let uop = self.address(Op::Load, size, dst);
        self.push(uop);
    }

    pub(super) fn store(&mut self, size: u8, data: u8) {
        let uop = self.address(Op::Store, size, data);
        self.push(uop);
    }

    /// The register with operand `n`, which is read; and the immediate, if it is one.
    pub(super) fn source(&mut self, n: u32) -> (u8, i64) {
        match self.i.op_kind(n) {
            OpKind::Register => (self.read(self.i.op_register(n), reg::T1), 0),
            OpKind::Memory => {
                self.load(self.size(n), reg::T0);
                (reg::T0, 0)
            }
            _ => (reg::IMM, self.i.immediate(n) as i64),
        }
    }

    /// The uops' register with the value of `register`; `temporary` if it is the second byte of
    /// one.
    pub(super) fn read(&mut self, register: Register, temporary: u8) -> u8 {
        if is_high(register) {
            self.push(Uop { dst: temporary, a: number(register), ..Uop::new(Op::High) });
            return temporary;
        }
        number(register)
    }

    /// Operand 0 as source and destination: the registers to read and to write.
    pub(super) fn target(&mut self) -> (u8, u8) {
        if self.in_memory(0) {
            self.load(self.size(0), reg::T0);
            return (reg::T0, reg::T2);
        }
        let register = self.i.op_register(0);
        let a = self.read(register, reg::T2);
        (a, if is_high(register) { reg::T2 } else { a })
    }

    /// Operand 0 as destination only: the register to write.
    pub(super) fn result(&self) -> u8 {
        let plain = !self.in_memory(0) && !is_high(self.i.op_register(0));
        if plain { number(self.i.op_register(0)) } else { reg::T2 }
    }

    /// Brings what was written into `out` to operand `n`.
    pub(super) fn finish(&mut self, n: u32, out: u8) {
        if self.in_memory(n) {
            self.store(self.size(n), out);
        } else if is_high(self.i.op_register(n)) {
            let dst = number(self.i.op_register(n));
            self.push(Uop { dst, a: out, ..Uop::new(Op::SetHigh) });
        } else if number(self.i.op_register(n)) != out {
            let dst = number(self.i.op_register(n));
            self.push(Uop { dst, a: 0, b: out, size: self.size(n), ..Uop::new(Op::Mov) });
        }
    }
}

/// The register with a segment's base.
pub(super) fn segment(prefix: Register) -> u8 {
    match prefix {
        Register::FS => reg::FS,
        Register::GS => reg::GS,
        _ => reg::ZERO,
    }
}
