//! The predecoded form: what an instruction is made of, for the functional core and the timing
//! model.

/// Registers of uops. 0 to 15 are the general registers in the processor's order (`RAX` is 0).
pub mod reg {
    /// RAX.
    pub const RAX: u8 = 0;
    /// RCX.
    pub const RCX: u8 = 1;
    /// RDX.
    pub const RDX: u8 = 2;
    /// RBX.
    pub const RBX: u8 = 3;
    /// RSP.
    pub const RSP: u8 = 4;
    /// RBP.
    pub const RBP: u8 = 5;
    /// RSI.
    pub const RSI: u8 = 6;
    /// RDI.
    pub const RDI: u8 = 7;
    /// R11, which `syscall` overwrites.
    pub const R11: u8 = 11;
    /// Lives within an instruction: what it has loaded.
    pub const T0: u8 = 16;
    /// Lives within an instruction: an operand.
    pub const T1: u8 = 17;
    /// Lives within an instruction: the result.
    pub const T2: u8 = 18;
    /// Lives within an instruction: a copy of an operand.
    pub const T3: u8 = 19;
    /// Base of segment FS.
    pub const FS: u8 = 24;
    /// Base of segment GS.
    pub const GS: u8 = 25;
    /// Always 0.
    pub const ZERO: u8 = 30;
    /// As a second source: the uop's immediate.
    pub const IMM: u8 = 31;
    /// The vector register that lives within an instruction; 0 to 15 are XMM and YMM.
    pub const VT: u8 = 16;
}

/// What a uop does. `a` and `b` are its sources; `size` is 1 << `Uop::size` bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs)] // named after the instructions whose work they do
pub enum Op {
    // Memory: address from `seg`, `a` (base), `b` (index), `scale`, `imm`.
    Load,
    /// Stores `dst`.
    Store,
    /// The address itself.
    Lea,
    /// Loads `1 << size` bytes into vector register `dst`, the rest zeros; `aux` bit 0: must be
    /// aligned.
    LoadVector,
    StoreVector,
    // Moves
    Mov,
    /// Sign extension from `1 << aux` bytes.
    MovSx,
    /// Zero extension from `1 << aux` bytes.
    MovZx,
    /// Bits 8 to 15 of `a`.
    High,
    /// Puts `a` into bits 8 to 15 of `dst`.
    SetHigh,
    Cmov,
    SetCc,
    // Computation
    Add,
    Adc,
    Sub,
    Sbb,
    And,
    Or,
    Xor,
    Andn,
    Cmp,
    Test,
    Inc,
    Dec,
    Neg,
    Not,
    Shl,
    Shr,
    Sar,
    Rol,
    Ror,
    Rcl,
    Rcr,
    /// Count in `aux`, or CL if it is 255.
    Shld,
    Shrd,
    /// Like the shifts, without flags: BMI2.
    Shlx,
    Shrx,
    Sarx,
    Rorx,
    /// Two or three operands: low half, flags.
    Imul,
    /// RDX:RAX = RAX * a.
    MulWide,
    ImulWide,
    /// dst:aux = RDX * a, no flags.
    Mulx,
    Div,
    Idiv,
    /// `aux`: 0 leaves the bit, 1 sets, 2 resets, 3 complements it.
    Bt,
    /// a + (b >> 3) & -(1 << size): where `bt` to memory finds its bit.
    BtAddress,
    Bsf,
    Bsr,
    Tzcnt,
    Lzcnt,
    Popcnt,
    Bswap,
    Bextr,
    Blsi,
    Blsr,
    Blsmsk,
    Bzhi,
    Pdep,
    Pext,
    Adcx,
    Adox,
    Crc32,
    /// CBW and its like: `dst` of this size from its lower half.
    Widen,
    /// CWD and its like: RDX from the sign of RAX.
    Sign,
    /// Compares RAX with `a`, sets flags; RAX and `dst` become: equal: `b`; otherwise `a`.
    CmpXchg,
    CmpXchg16,
    // Flags
    SetFlags,
    GetFlags,
    /// `imm`: 0 clc, 1 stc, 2 cmc, 3 cld, 4 std, 5 lahf, 6 sahf.
    FlagOp,
    // Control
    /// To `imm` if condition `aux` holds.
    Jcc,
    /// `aux`: 0 loop, 1 loope, 2 loopne, 3 jrcxz, 4 jecxz.
    Loop,
    Jmp,
    /// To `a`.
    JmpReg,
    // Strings: `aux` bit 0: rep or repe, bit 1: repne
    Movs,
    Stos,
    Lods,
    Scas,
    Cmps,
    // The system
    Syscall,
    Cpuid,
    Rdtsc,
    Rdtscp,
    Xgetbv,
    LoadMxcsr,
    StoreMxcsr,
    LoadX87Control,
    Breakpoint,
    Invalid,
    /// An instruction that the model leaves out: `aux` says which class.
    Unsupported,
    /// Nothing: also fences, prefetches and hints.
    Nop,
    // User interrupts and xUI
    Senduipi,
    Uiret,
    Stui,
    Clui,
    Testui,
    SetTimer,
    ClearTimer,
    /// A vector operation: `aux` is a [`crate::vop::Vop`].
    Vector,
}

/// A predecoded piece of an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Uop {
    /// What it does.
    pub op: Op,
    /// Logarithm of the operand's bytes.
    pub size: u8,
    /// Destination.
    pub dst: u8,
    /// First source, or base of an address.
    pub a: u8,
    /// Second source, or index of an address.
    pub b: u8,
    /// Of an address: `FS`, `GS` or `ZERO`.
    pub seg: u8,
    /// Of an address: logarithm of the index's factor.
    pub scale: u8,
    /// Depends on `op`.
    pub aux: u8,
    /// Immediate operand, displacement or target.
    pub imm: i64,
    /// The last uop of its instruction.
    pub last: bool,
    /// The instruction has the safepoint prefix.
    pub safepoint: bool,
    /// Other cores see the instruction as one with all before it: a locked one, or MFENCE.
    pub ordered: bool,
    /// Bytes of its instruction.
    pub length: u8,
    /// Where its instruction begins, in bytes from the begin of the block.
    pub offset: u16,
}

impl Uop {
    /// A uop without operands.
    pub fn new(op: Op) -> Uop {
        Uop {
            op,
            size: 3,
            dst: reg::ZERO,
            a: reg::ZERO,
            b: reg::ZERO,
            seg: reg::ZERO,
            scale: 0,
            aux: 0,
            imm: 0,
            last: false,
            safepoint: false,
            ordered: false,
            length: 0,
            offset: 0,
        }
    }
}
