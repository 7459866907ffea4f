//! Random instructions: all opcodes of the legacy and VEX maps, with operands in memory moved to
//! where the test has some. And what is compared of them.

#![allow(dead_code)] // no test uses all of it

pub mod program;

use iced_x86::{
    ConstantOffsets, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register, RflagsBits,
};
use quaver_uarch::cpu::flag;
use quaver_uarch::exec::for_machine;
use quaver_uarch::uop::Op;
use quaver_uarch::{Fault, Machine, decode};

use crate::native::State;

/// Where the instruction is.
pub const CODE: u64 = 0x2000_0000;
/// Where its operands are.
pub const DATA: u64 = 0x2001_0000;
/// Bytes of them.
pub const DATA_SIZE: usize = 16384;

/// Numbers that look random; the same for the same seed (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    /// A number of a kind that finds mistakes: edges, small ones, floating point, anything.
    fn value(&mut self) -> u64 {
        let any = self.next();
        match self.below(10) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << (any & 63),
            3 => (1 << (any & 63)) - 1,
            4 => any & 0xff,
            5 => any & 0xffff_ffff,
            6 => (any as i32 as f64 / 16.0).to_bits(),
            7 => {
                let pair = [any as i16 as f32 / 8.0, (any >> 16) as i16 as f32];
                u64::from(pair[0].to_bits()) | u64::from(pair[1].to_bits()) << 32
            }
            8 => [f64::NAN, f64::INFINITY, -0.0, 1.5, 1e300, 3e9, -2.5, 1e-310][any as usize & 7]
                .to_bits(),
            _ => any,
        }
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_exact_mut(8) {
            word.copy_from_slice(&self.value().to_le_bytes());
        }
    }

    pub fn state(&mut self) -> State {
        let mut v = [[0; 32]; 16];
        v.iter_mut().for_each(|v| self.fill(v));
        let flags = self.next() & flag::STATUS | flag::FIXED;
        State { r: std::array::from_fn(|_| self.value()), rip: CODE, flags, v }
    }
}

/// An instruction.
pub struct Sample {
    pub bytes: [u8; 16],
    pub instruction: Instruction,
}

impl Sample {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.instruction.len()]
    }
}

/// Bytes that may be an instruction.
fn bytes(random: &mut Random) -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut at = 0;
    let mut put = |byte| {
        bytes[at] = byte;
        at += 1;
    };
    if random.below(3) == 0 {
        // VEX: three bytes, opcode
        put(0xc4);
        let map = [1, 1, 2, 3][random.below(4) as usize];
        put(random.byte() & 0xe0 | map);
        let unused = if random.below(2) == 0 { 0x78 } else { random.byte() & 0x78 };
        put(random.byte() & 0x87 | unused);
    } else {
        if random.below(16) == 0 {
            put(0x36);
        }
        match random.below(8) {
            0 | 1 => put(0x66),
            2 => put(0xf2),
            3 => put(0xf3),
            4 if random.below(4) == 0 => put(0xf0),
            _ => {}
        }
        if random.below(2) == 0 {
            put(0x40 | random.byte() & 15);
        }
        match random.below(6) {
            0 | 1 => {}
            2 | 3 => put(0x0f),
            map => {
                put(0x0f);
                put(if map == 4 { 0x38 } else { 0x3a });
            }
        }
    }
    while at < 16 {
        bytes[at] = random.byte();
        at += 1;
    }
    bytes
}

/// A random instruction that may work with `state`, whose registers are changed so that addresses
/// lie in `data`; or nothing.
pub fn sample(random: &mut Random, state: &mut State, data: &mut [u8]) -> Option<Sample> {
    let target = DATA
        + 1024
        + if random.below(4) == 0 { random.below(14000) } else { random.below(430) * 32 };
    sample_at(random, state, data, target)
}

/// The same, with operands in memory from `target` on.
pub fn sample_at(
    random: &mut Random,
    state: &mut State,
    data: &mut [u8],
    target: u64,
) -> Option<Sample> {
    let mut bytes = bytes(random);
    let mut decoder = Decoder::with_ip(64, &bytes, CODE, DecoderOptions::NONE);
    let mut i = decoder.decode();
    let offsets = decoder.get_constant_offsets(&i);
    if i.is_invalid() || unwanted(&i, &bytes) {
        return None;
    }
    if (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory) || i.mnemonic() == Mnemonic::Lea {
        aim(&i, offsets, &mut bytes, state, target)?;
        i = Decoder::with_ip(64, &bytes, CODE, DecoderOptions::NONE).decode();
    }
    prepare(random, &i, state, data, target);
    Some(Sample { bytes, instruction: i })
}

/// What has other effects than on registers and memory, or results that no manual defines.
fn unwanted(i: &Instruction, bytes: &[u8]) -> bool {
    use Mnemonic as M;
    let narrow = i.has_lock_prefix() && i.op0_kind() == OpKind::Register;
    let branch = i.is_jcc_short_or_near()
        || i.is_jmp_short_or_near()
        || i.is_call_near()
        || i.is_jmp_near_indirect()
        || i.is_call_near_indirect()
        || i.mnemonic() == M::Ret
        || matches!(i.mnemonic(), M::Loop | M::Loope | M::Loopne | M::Jrcxz | M::Jecxz);
    let prefixed = [0x66, 0xf2, 0xf3].iter().any(|p| bytes[..i.len() - 1].contains(p));
    let shld16 = matches!(i.mnemonic(), M::Shld | M::Shrd)
        && i.op0_kind() == OpKind::Register
        && i.op0_register().is_gpr16();
    let swap16 = i.mnemonic() == M::Bswap && i.op0_register().is_gpr16();
    let segment = matches!(i.segment_prefix(), Register::FS | Register::GS);
    let wide = i.memory_size().size() == 2 && matches!(i.mnemonic(), M::Shld | M::Shrd);
    let mxcsr = matches!(i.mnemonic(), M::Ldmxcsr | M::Vldmxcsr | M::Stmxcsr | M::Vstmxcsr);
    let state = mxcsr
        || matches!(i.mnemonic(), M::Popfq | M::Fldcw)
        // It pushes the trap flag, with which the CPU is stepped.
        || i.mnemonic() == M::Pushfq
        // With REX.B these bytes are XCHG to some.
        || i.mnemonic() == M::Pause && i.len() > 2;
    // Branches of 16 bits, and loops with a REP prefix, differ between vendors.
    narrow || shld16 || swap16 || segment || wide || state || branch && prefixed
}

/// Makes the address of the operand in memory `target`.
fn aim(
    i: &Instruction,
    offsets: ConstantOffsets,
    bytes: &mut [u8; 16],
    state: &mut State,
    target: u64,
) -> Option<()> {
    let (base, index) = (i.memory_base(), i.memory_index());
    let scaled = match index {
        Register::None => 0,
        index if index.is_gpr64() => {
            state.r[index.number()].wrapping_mul(i.memory_index_scale().into())
        }
        _ => return None,
    };
    if base.is_gpr64() && base != index {
        state.r[base.number()] =
            target.wrapping_sub(scaled).wrapping_sub(i.memory_displacement64());
        return Some(());
    }
    if index == Register::None && offsets.has_displacement() && offsets.displacement_size() == 4 {
        let from = if base == Register::RIP { i.next_ip() } else { 0 };
        let displacement = (target.wrapping_sub(from)) as u32;
        bytes[offsets.displacement_offset()..][..4].copy_from_slice(&displacement.to_le_bytes());
        return (matches!(base, Register::RIP | Register::None)).then_some(());
    }
    None
}

/// Makes it likely that the instruction does something.
fn prepare(random: &mut Random, i: &Instruction, state: &mut State, data: &mut [u8], target: u64) {
    use Mnemonic as M;
    let uses = |r: Register| i.memory_base() == r || i.memory_index() == r;
    let place = (target - DATA) as usize;
    if i.is_string_instruction() {
        state.r[6] = DATA + 4096 + random.below(4096);
        state.r[7] = DATA + 4096 + random.below(4096);
        if random.below(4) == 0 {
            state.flags |= flag::DF;
        }
        if random.below(2) == 0 {
            // Comparisons that go on for a while
            data[4096..9000].fill(random.byte());
        }
        state.r[1] = random.below(40);
    } else {
        state.flags &= !flag::DF;
    }
    if i.is_stack_instruction() && !uses(Register::RSP) {
        state.r[4] = DATA + 8192 + random.below(1024) * 8;
        if i.mnemonic() == M::Ret {
            let at = (state.r[4] - DATA) as usize;
            data[at..at + 8].copy_from_slice(&random.below(1 << 46).to_le_bytes());
        }
    }
    match i.mnemonic() {
        M::Leave => state.r[5] = DATA + 8192 + random.below(512) * 8,
        M::Jmp | M::Call if i.op0_kind() == OpKind::Register => {
            state.r[i.op0_register().number()] = random.below(1 << 46);
        }
        M::Jmp | M::Call if i.op0_kind() == OpKind::Memory => {
            data[place..place + 8].copy_from_slice(&random.below(1 << 46).to_le_bytes());
        }
        M::Cmpxchg if random.below(2) == 0 && !uses(Register::RAX) => {
            let mut word = [0; 8];
            word.copy_from_slice(&data[place..place + 8]);
            let in_register = i.op0_kind() == OpKind::Register && !i.op0_register().is_gpr8();
            state.r[0] = if in_register {
                state.r[i.op0_register().full_register().number()]
            } else {
                u64::from_le_bytes(word)
            };
        }
        M::Cmpxchg8b | M::Cmpxchg16b
            if random.below(2) == 0 && !uses(Register::RAX) && !uses(Register::RDX) =>
        {
            let half = if i.mnemonic() == M::Cmpxchg8b { 4 } else { 8 };
            for (register, from) in [(0, place), (2, place + half)] {
                let mut word = [0; 8];
                word[..half].copy_from_slice(&data[from..from + half]);
                state.r[register] = u64::from_le_bytes(word);
            }
        }
        M::Div | M::Idiv if random.below(4) != 0 && !uses(Register::RDX) => {
            state.r[2] = random.below(2)
        }
        M::Loop | M::Loope | M::Loopne | M::Jrcxz | M::Jecxz => state.r[1] = random.below(3),
        M::Bt | M::Bts | M::Btr | M::Btc if i.op0_kind() == OpKind::Memory => {
            let register = i.op1_register();
            if register.is_gpr() && !uses(register.full_register()) {
                state.r[register.full_register().number()] = random.below(2048).wrapping_sub(1024);
            }
        }
        _ => {}
    }
}

/// Whether the model has the instruction at `CODE`, and it needs neither the machine nor user
/// interrupts.
pub fn is_for_this_test(machine: &mut Machine) -> bool {
    let block = decode::block(&mut machine.memory, CODE).expect("code can be fetched");
    for uop in &block.uops {
        let base = [uop.dst, uop.b].iter().any(|&r| r == 24 || r == 25);
        let special = matches!(
            uop.op,
            Op::Unsupported
                | Op::Invalid
                | Op::Breakpoint
                | Op::Uiret
                | Op::Stui
                | Op::Clui
                | Op::Testui
        );
        if for_machine(uop.op) || special || base && uop.op == Op::Mov {
            return false;
        }
        if uop.last {
            return true;
        }
    }
    true
}

/// The bits of RFLAGS that an instruction leaves undefined.
pub fn undefined(instruction: &Instruction) -> u64 {
    let mut bits = instruction.rflags_undefined();
    // Once around and back to the beginning: to the decoder no rotation, and some CPUs change OF.
    if matches!(instruction.mnemonic(), Mnemonic::Rcl | Mnemonic::Rcr) {
        let count = instruction.try_immediate(1).unwrap_or(0) & 31;
        bits |= if count > 1 { RflagsBits::OF } else { 0 };
    }
    [
        (RflagsBits::CF, flag::CF),
        (RflagsBits::PF, flag::PF),
        (RflagsBits::AF, flag::AF),
        (RflagsBits::ZF, flag::ZF),
        (RflagsBits::SF, flag::SF),
        (RflagsBits::OF, flag::OF),
    ]
    .into_iter()
    .filter(|(bit, _)| bits & bit != 0)
    .fold(0, |mask, (_, bit)| mask | bit)
}

/// Whether the model's fault is what Linux makes this signal of.
pub fn same_kind(signal: i32, fault: Fault) -> bool {
    match fault {
        Fault::Divide => signal == libc::SIGFPE,
        Fault::Invalid => signal == libc::SIGILL,
        Fault::Read { .. } | Fault::Write { .. } | Fault::Fetch { .. } | Fault::Protection(_) => {
            signal == libc::SIGSEGV || signal == libc::SIGBUS
        }
        Fault::Breakpoint | Fault::Unsupported(_) => false,
    }
}
