//! Random programs: blocks of random instructions, loops with few rounds, branches forward, calls
//! and returns. All that they write is in [`super::DATA`].
//!
//! RSP and the counters of loops, R12 to R15, belong to the frame; all other registers are the
//! instructions'.

use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

use super::{CODE, DATA, DATA_SIZE, Random, sample_at};

/// Where programs are; instructions are tried out before, at [`CODE`].
pub const PROGRAM: u64 = CODE + 4096;
/// The most bytes that a program has.
pub const PROGRAM_SIZE: usize = (DATA - PROGRAM) as usize;
/// The stack pointer at the begin. Operands in memory end well below it.
pub const STACK: u64 = DATA + DATA_SIZE as u64 - 64;
/// The function of each depth below the main program; one calls those that are deeper.
const FUNCTIONS: usize = 2;

/// Whether a register is the frame's.
fn of_frame(number: usize) -> bool {
    number == 4 || number >= 12
}

/// Whether an instruction takes a bit by a number that is in a register of its address.
fn is_bit_far(i: &Instruction) -> bool {
    let bits = [Mnemonic::Bt, Mnemonic::Bts, Mnemonic::Btr, Mnemonic::Btc];
    let number = i.op1_register().full_register();
    bits.contains(&i.mnemonic())
        && i.op0_kind() == OpKind::Memory
        && [i.memory_base(), i.memory_index()].contains(&number)
        && number != Register::None
}

/// A program that is being made.
struct Maker<'a> {
    random: &'a mut Random,
    code: Vec<u8>,
    data: Vec<u8>,
    info: InstructionInfoFactory,
    /// Places of displacements, and the function that each means.
    calls: Vec<(usize, usize)>,
    /// Says whether this machine's CPU has an instruction, and executes it without a fault.
    works: &'a mut dyn FnMut(&super::Sample, &super::State) -> bool,
}

/// A program, and where it ends. `works` says whether an instruction at [`CODE`] can be taken.
pub fn program(
    random: &mut Random,
    works: &mut dyn FnMut(&super::Sample, &super::State) -> bool,
) -> (Vec<u8>, u64) {
    let mut maker = Maker {
        random,
        code: Vec::new(),
        data: vec![0; DATA_SIZE],
        info: InstructionInfoFactory::new(),
        calls: Vec::new(),
        works,
    };
    maker.block(0, 0, 24);
    // Once around the functions, to the end.
    let over = maker.forward(&[0xe9]);
    let mut begins = Vec::new();
    for depth in 1..=FUNCTIONS {
        begins.push(maker.code.len());
        maker.block(depth, 0, 6);
        maker.code.push(0xc3);
    }
    maker.arrive(over);
    for (place, function) in std::mem::take(&mut maker.calls) {
        let distance = begins[function] as i32 - (place as i32 + 4);
        maker.code[place..place + 4].copy_from_slice(&distance.to_le_bytes());
    }
    let end = PROGRAM + maker.code.len() as u64;
    assert!(maker.code.len() < PROGRAM_SIZE, "a program of {} bytes", maker.code.len());
    (maker.code, end)
}

impl Maker<'_> {
    /// A branch forward: its opcode, and four bytes of displacement for [`Maker::arrive`].
    fn forward(&mut self, opcode: &[u8]) -> usize {
        self.code.extend(opcode);
        self.code.extend([0; 4]);
        self.code.len()
    }

    /// Where a branch forward goes: here.
    fn arrive(&mut self, from: usize) {
        let distance = (self.code.len() - from) as i32;
        self.code[from - 4..from].copy_from_slice(&distance.to_le_bytes());
    }

    /// `mov register, value`, of 64 bits.
    fn set(&mut self, register: usize, value: u64) {
        self.code.extend([0x48 | (register >> 3) as u8, 0xb8 | (register & 7) as u8]);
        self.code.extend(value.to_le_bytes());
    }

    /// Up to `most` pieces, in a function of this depth and in so many loops.
    fn block(&mut self, depth: usize, loops: usize, most: u64) {
        for _ in 0..2 + self.random.below(most) {
            match self.random.below(16) {
                0 | 1 => self.branch(depth, loops),
                2 if loops < 2 && (depth == 0 || loops == 0) => self.rounds(depth, loops),
                3 if depth < FUNCTIONS => self.call(depth),
                4 => self.push_and_pop(depth, loops),
                5 => self.jump_by_register(),
                _ => self.instruction(),
            }
        }
    }

    /// A conditional branch, of either length, over a few instructions.
    fn branch(&mut self, depth: usize, loops: usize) {
        let condition = self.random.below(16) as u8;
        if self.random.below(2) == 0 {
            let from = self.forward(&[0x0f, 0x80 | condition]);
            self.block(depth, loops.max(1), 4);
            self.arrive(from);
            return;
        }
        self.code.extend([0x70 | condition, 0]);
        let from = self.code.len();
        self.instruction();
        let distance = self.code.len() - from;
        self.code[from - 1] = i8::try_from(distance).expect("one instruction is short") as u8;
    }

    /// A loop with a few rounds: `mov counter, n`, a block, `dec counter; jnz`.
    fn rounds(&mut self, depth: usize, loops: usize) {
        let counter = (12 - 8 + loops + if depth == 0 { 0 } else { 1 + depth }) as u8;
        let rounds = 1 + self.random.below(5) as u32;
        self.code.extend([0x41, 0xb8 | counter]);
        self.code.extend(rounds.to_le_bytes());
        let top = self.code.len();
        self.block(depth, loops + 1, 4);
        self.code.extend([0x41, 0xff, 0xc8 | counter, 0x0f, 0x85]);
        let distance = top as i32 - (self.code.len() as i32 + 4);
        self.code.extend(distance.to_le_bytes());
    }

    /// A call of a deeper function: its address is in the instruction, or in a register.
    fn call(&mut self, depth: usize) {
        let function = depth + self.random.below((FUNCTIONS - depth) as u64) as usize;
        let direct = self.random.below(2) == 0;
        // call; or lea rax, [rip]
        let from = self.forward(if direct { &[0xe8] } else { &[0x48, 0x8d, 0x05] });
        self.calls.push((from - 4, function));
        if !direct {
            self.code.extend([0xff, 0xd0]);
        }
    }

    /// `push`, a few instructions, `pop`.
    fn push_and_pop(&mut self, depth: usize, loops: usize) {
        // RAX to RBX, and RBP to RDI.
        let mut any = || [0, 1, 2, 3, 5, 6, 7][self.random.below(7) as usize];
        let (from, to) = (any(), any());
        self.code.push(0x50 | from);
        self.block(depth, loops.max(1), 2);
        self.code.push(0x58 | to);
    }

    /// `lea rcx, [rip]; jmp rcx`, over an instruction.
    fn jump_by_register(&mut self) {
        let from = self.forward(&[0x48, 0x8d, 0x0d]);
        self.code.extend([0xff, 0xe1]);
        self.instruction();
        self.arrive(from);
    }

    /// A random instruction that is no branch, with what its address needs before it.
    fn instruction(&mut self) {
        // Half of them have an operand in memory.
        let in_memory = self.random.below(2) == 0;
        loop {
            // Half of them meet in a few lines, so that loads and stores overlap.
            let target = DATA
                + match self.random.below(4) {
                    0 => 1024 + self.random.below(8000),
                    1 => 1024 + self.random.below(250) * 32,
                    _ => 2048 + self.random.below(96),
                };
            let mut state = self.random.state();
            let before = state.clone();
            let Some(mut sample) = sample_at(self.random, &mut state, &mut self.data, target)
            else {
                continue;
            };
            let i = sample.instruction;
            let memory = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
            let relative = memory && i.memory_base() == Register::RIP;
            if memory != in_memory && !i.is_string_instruction()
                || i.flow_control() != iced_x86::FlowControl::Next
                || i.is_stack_instruction()
                // Its address is the number of a bit, too: far from the data.
                || is_bit_far(&i)
                || relative && i.mnemonic() == Mnemonic::Lea
            {
                continue;
            }
            let writes_frame = self.info.info(&i).used_registers().iter().any(|used| {
                let register = used.register().full_register();
                let read = matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
                register.is_gpr() && of_frame(register.number()) && !read
            });
            // What the operand's address, the length of a string and the like need.
            let mut needed: Vec<usize> = (0..16).filter(|&r| state.r[r] != before.r[r]).collect();
            let index = i.memory_index();
            if index.is_gpr64() {
                needed.push(index.number());
            }
            if writes_frame || needed.iter().any(|&r| of_frame(r)) {
                continue;
            }
            if !(self.works)(&sample, &state) {
                continue;
            }
            needed.iter().for_each(|&r| self.set(r, state.r[r]));
            if i.is_string_instruction() {
                let backwards = state.flags & quaver_uarch::cpu::flag::DF != 0;
                self.code.push(if backwards { 0xfd } else { 0xfc });
            }
            if relative {
                let at = PROGRAM + self.code.len() as u64;
                let mut decoder = Decoder::with_ip(64, &sample.bytes, at, DecoderOptions::NONE);
                let moved = decoder.decode();
                let place = decoder.get_constant_offsets(&moved).displacement_offset();
                let displacement = target.wrapping_sub(moved.next_ip()) as u32;
                sample.bytes[place..place + 4].copy_from_slice(&displacement.to_le_bytes());
            }
            self.code.extend(sample.bytes());
            return;
        }
    }
}
