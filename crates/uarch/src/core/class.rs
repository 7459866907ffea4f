//! What the timing model must know of a uop: its unit, and the registers that it reads and writes.

use super::parameters::Class;
use crate::uop::{Op, Uop, reg};
use crate::vop::Vop;

/// Registers of the timing model: 0 to 31 as in [`reg`], then vectors, then those below.
pub(super) const VECTORS: u8 = 32;
/// The status flags.
pub(super) const FLAGS: u8 = 64;
/// Lives within a sequence of microcode.
pub(super) const MICRO: u8 = 65;
/// All registers.
pub(super) const REGISTERS: usize = 66;
/// No register.
pub(super) const NONE: u8 = 255;

/// What a uop needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    pub(super) class: Class,
    pub(super) reads: [u8; 6],
    pub(super) writes: [u8; 3],
    /// It is gone after renaming.
    pub(super) how: How,
}

/// How a uop is executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum How {
    /// On a port.
    Unit,
    /// Not at all; its result does not depend on anything.
    Nothing,
    /// Not at all; its destination is another name of its source.
    Rename,
}

struct Build {
    needs: Needs,
    reads: usize,
    writes: usize,
}

impl Build {
    fn read(&mut self, register: u8) -> &mut Self {
        let none = matches!(register, reg::ZERO | reg::IMM | NONE);
        if !none && !self.needs.reads[..self.reads].contains(&register) {
            self.needs.reads[self.reads] = register;
            self.reads += 1;
        }
        self
    }

    fn write(&mut self, register: u8) -> &mut Self {
        if !matches!(register, reg::ZERO | reg::IMM | NONE) {
            self.needs.writes[self.writes] = register;
            self.writes += 1;
        }
        self
    }
}

fn vector(register: u8) -> u8 {
    VECTORS + (register & 31)
}

/// What a uop needs, but for sequences of microcode and strings.
pub(super) fn needs(u: &Uop) -> Needs {
    let mut b = Build {
        needs: Needs { class: Class::Alu, reads: [NONE; 6], writes: [NONE; 3], how: How::Unit },
        reads: 0,
        writes: 0,
    };
    // A result of 8 or 16 bits is merged into the register.
    let partial = u.size < 2;
    use Op::*;
    match u.op {
        Load | LoadVector => {
            b.needs.class = Class::Load;
            b.read(u.seg).read(u.a).read(u.b);
            if u.op == LoadVector {
                b.write(vector(u.dst));
            } else {
                b.write(u.dst);
            }
            if partial && u.op == Load && u.dst < 16 {
                b.read(u.dst);
            }
        }
        Store | StoreVector => {
            b.needs.class = Class::StoreAddress;
            b.read(u.seg).read(u.a).read(u.b);
            b.read(if u.op == StoreVector { vector(u.dst) } else { u.dst });
        }
        Lea if u.dst == reg::RSP && u.a == reg::RSP && u.b == reg::ZERO && u.size == 3 => {
            // The stack engine's.
            b.needs.how = How::Rename;
            b.read(u.a).write(u.dst);
        }
        Lea => {
            b.read(u.a).read(u.b).write(u.dst);
        }
        Mov if u.b == reg::IMM && u.size >= 2 => {
            // The rename stage writes small constants.
            b.write(u.dst);
            let temporary = (16..24).contains(&u.dst);
            b.needs.how = if temporary { How::Nothing } else { How::Unit };
        }
        Mov if u.size >= 2 && u.b != reg::ZERO => {
            b.read(u.b).write(u.dst);
            b.needs.how = How::Rename;
        }
        Mov => {
            b.read(u.b).read(u.dst).write(u.dst);
        }
        MovSx | MovZx | High => {
            b.read(u.a).write(u.dst);
            if u.op != High && partial {
                b.read(u.dst);
            }
        }
        SetHigh => {
            b.read(u.a).read(u.dst).write(u.dst);
        }
        Cmov => {
            b.needs.class = Class::Condition;
            b.read(u.a).read(u.b).read(FLAGS).write(u.dst);
        }
        SetCc => {
            b.needs.class = Class::Condition;
            b.read(FLAGS).read(u.dst).write(u.dst);
        }
        Xor | Sub if u.a == u.b && u.dst == u.a && u.size >= 2 => {
            b.needs.how = How::Nothing;
            b.write(u.dst).write(FLAGS);
        }
        Add | Sub | And | Or | Xor | Andn | Inc | Dec | Neg | Not | Blsi | Blsr | Blsmsk => {
            b.read(u.a).write(u.dst);
            if !matches!(u.op, Inc | Dec | Neg | Not | Blsi | Blsr | Blsmsk) {
                b.read(u.b);
            }
            if u.op != Not {
                b.write(FLAGS);
            }
            if partial {
                b.read(u.dst);
            }
        }
        Adc | Sbb | Rcl | Rcr | Adcx | Adox => {
            b.needs.class = Class::Shift;
            b.read(u.a).read(u.b).read(FLAGS).write(u.dst).write(FLAGS);
        }
        Cmp | Test => {
            b.read(u.a).read(u.b).write(FLAGS);
        }
        Shl | Shr | Sar | Rol | Ror => {
            b.needs.class = Class::Shift;
            b.read(u.a).read(u.b).write(u.dst).write(FLAGS);
            if u.b != reg::IMM {
                b.read(FLAGS);
            }
        }
        Shlx | Shrx | Sarx | Rorx => {
            b.needs.class = Class::Shift;
            b.read(u.a).read(u.b).write(u.dst);
        }
        Shld | Shrd => {
            b.needs.class = Class::Bits;
            b.read(u.a).read(u.b).read(u.dst).write(u.dst).write(FLAGS);
            if u.aux == 255 {
                b.read(reg::RCX);
            }
        }
        Imul => {
            b.needs.class = Class::Multiply;
            b.read(u.a).read(u.b).write(u.dst).write(FLAGS);
        }
        MulWide | ImulWide => {
            b.needs.class = Class::Multiply;
            b.read(u.a).read(reg::RAX).write(reg::RAX).write(FLAGS);
            if u.size > 0 {
                b.write(reg::RDX);
            }
        }
        Mulx => {
            b.needs.class = Class::Multiply;
            b.read(u.a).read(reg::RDX).write(u.dst).write(u.aux);
        }
        Div | Idiv => {
            b.needs.class = if u.size == 3 { Class::Divide64 } else { Class::Divide32 };
            b.read(u.a).read(reg::RAX).read(reg::RDX);
            b.write(reg::RAX).write(reg::RDX).write(FLAGS);
        }
        Bt => {
            b.needs.class = Class::Shift;
            b.read(u.a).read(u.b).write(FLAGS);
            if u.aux != 0 {
                b.write(u.dst);
            }
        }
        Bsf | Bsr | Tzcnt | Lzcnt | Popcnt | Bzhi | Bextr => {
            b.needs.class = Class::Bits;
            b.read(u.a).read(u.b).write(u.dst).write(FLAGS);
            if matches!(u.op, Bsf | Bsr) {
                b.read(u.dst);
            }
        }
        Pdep | Pext | Crc32 => {
            b.needs.class = Class::Bits;
            b.read(u.a).read(u.b).write(u.dst);
        }
        Bswap => {
            b.needs.class = Class::Shift;
            b.read(u.a).write(u.dst);
        }
        BtAddress => {
            b.read(u.a).read(u.b).write(u.dst);
        }
        Widen => {
            b.read(reg::RAX).write(reg::RAX);
        }
        Sign => {
            b.read(reg::RAX).write(reg::RDX);
        }
        CmpXchg => {
            b.read(u.a).read(u.b).read(reg::RAX);
            b.write(u.dst).write(reg::T1).write(FLAGS);
        }
        SetFlags => {
            b.needs.class = Class::Slow;
            b.read(u.a).write(FLAGS);
        }
        GetFlags => {
            b.read(FLAGS).write(u.dst);
        }
        FlagOp => {
            b.read(FLAGS).write(FLAGS);
            if u.imm == 6 {
                b.read(reg::RAX);
            }
            if u.imm == 5 {
                b.read(reg::RAX).write(reg::RAX);
            }
        }
        Jcc => {
            b.needs.class = Class::Branch;
            b.read(FLAGS);
        }
        Loop => {
            b.needs.class = Class::Branch;
            b.read(reg::RCX).read(FLAGS);
            if u.aux < 3 {
                b.write(reg::RCX);
            }
        }
        Jmp => b.needs.class = Class::Branch,
        JmpReg => {
            b.needs.class = Class::Branch;
            b.read(u.a);
        }
        Testui => {
            b.write(FLAGS);
        }
        // One after the other, as the flag is written.
        Clui => {
            b.read(MICRO).write(MICRO);
        }
        Nop => b.needs.how = How::Nothing,
        LoadMxcsr | StoreMxcsr | LoadX87Control => {
            b.needs.class = Class::Slow;
            b.read(u.a).write(u.dst);
        }
        Op::Vector => vector_needs(u, &mut b),
        _ => b.needs.class = Class::Slow,
    }
    b.needs
}

fn vector_needs(u: &Uop, b: &mut Build) {
    use Vop::*;
    let vop = Vop::ALL[usize::from(u.aux)];
    b.needs.class = unit(vop);
    let (dst, first, second) = (vector(u.dst), vector(u.a), vector(u.b));
    match vop {
        Zeroupper | Zeroall => b.needs.how = How::Nothing,
        Whole if u.scale == 1 || u.size == 5 => {
            b.needs.how = How::Rename;
            b.read(second).write(dst);
        }
        Pxor | Psubb | Psubd | Psubq if u.a == u.b => {
            b.needs.how = How::Nothing;
            b.write(dst);
        }
        Ptest | Comiss | Comisd => {
            b.read(first).read(second).write(FLAGS);
        }
        Pextrb | Pextrw | Pextrd | Pextrq | Pmovmskb | Movmskps | Movmskpd | Cvtss2si
        | Cvttss2si | Cvtsd2si | Cvttsd2si => {
            b.read(second).write(u.dst);
        }
        Movd => {
            b.read(u.b).write(dst);
        }
        Pinsrb | Pinsrw | Pinsrd | Pinsrq => {
            b.read(first).read(u.b).write(dst);
        }
        // Compilers clear the destination first.
        Cvtsi2ss | Cvtsi2sd => {
            b.read(first).read(u.b).write(dst);
        }
        Pblendvb | Blendvps | Blendvpd => {
            b.read(first).read(second).read(vector((u.imm >> 4) as u8 & 15)).write(dst);
        }
        _ => {
            b.read(first);
            if u.seg != reg::IMM {
                b.read(second);
            }
            b.write(dst);
        }
    }
}

fn unit(vop: Vop) -> Class {
    use Vop::*;
    match vop {
        Psllw | Pslld | Psllq | Psrlw | Psrld | Psrlq | Psraw | Psrad | Vpsllvd | Vpsllvq
        | Vpsrlvd | Vpsrlvq | Vpsravd => Class::VectorShift,
        Pmullw | Pmulhw | Pmulhuw | Pmulhrsw | Pmuludq | Pmuldq | Pmaddwd | Pmaddubsw | Psadbw => {
            Class::VectorMultiply
        }
        Pmulld => Class::Slow,
        Packsswb | Packssdw | Packuswb | Packusdw | Punpcklbw | Punpcklwd | Punpckldq
        | Punpcklqdq | Punpckhbw | Punpckhwd | Punpckhdq | Punpckhqdq | Pshufd | Pshufhw
        | Pshuflw | Pshufb | Palignr | Shufps | Shufpd | Pslldq | Psrldq | Movlps | Movhps
        | Movhlps | Movlhps | Movddup | Movshdup | Movsldup | Insertps | Broadcastb
        | Broadcastw | Broadcastd | Broadcastq | Pmovzxbw | Pmovzxbd | Pmovzxbq | Pmovzxwd
        | Pmovzxwq | Pmovzxdq | Pmovsxbw | Pmovsxbd | Pmovsxbq | Pmovsxwd | Pmovsxwq | Pmovsxdq => {
            Class::Shuffle
        }
        Vinsert128 | Vextract128 | Vperm2i128 | Vpermq | Vpermd | Broadcast128 => {
            Class::FromInteger
        }
        Addps | Addpd | Addss | Addsd | Subps | Subpd | Subss | Subsd | Addsubps | Addsubpd => {
            Class::FloatAdd
        }
        Mulps | Mulpd | Mulss | Mulsd | Minps | Minpd | Minss | Minsd | Maxps | Maxpd | Maxss
        | Maxsd | Cmpps | Cmppd | Cmpss | Cmpsd => Class::FloatMultiply,
        Divps | Divpd | Divss | Divsd => Class::FloatDivide,
        Sqrtps | Sqrtpd | Sqrtss | Sqrtsd => Class::FloatRoot,
        Cvtss2sd | Cvtsd2ss | Cvtps2pd | Cvtpd2ps | Cvtdq2ps | Cvtdq2pd | Cvtps2dq | Cvttps2dq
        | Cvtpd2dq | Cvttpd2dq => Class::Convert,
        Movd | Pinsrb | Pinsrw | Pinsrd | Pinsrq => Class::FromInteger,
        Cvtsi2ss | Cvtsi2sd => Class::Convert,
        Pextrb | Pextrw | Pextrd | Pextrq | Pmovmskb | Movmskps | Movmskpd | Ptest | Comiss
        | Comisd => Class::ToInteger,
        Cvtss2si | Cvttss2si | Cvtsd2si | Cvttsd2si => Class::Convert,
        Haddps | Haddpd | Hsubps | Hsubpd | Roundps | Roundpd | Roundss | Roundsd | Phaddw
        | Phaddd | Phsubw | Phsubd => Class::Slow,
        _ => Class::Vector,
    }
}
