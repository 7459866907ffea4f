//! What stops an instruction, and what stops a run.

use thiserror::Error;

/// Why an instruction could not be executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Fault {
    /// A load from a page that is not mapped or may not be read.
    #[error("memory fault: it reads {address:#x}, where nothing can be read")]
    Read {
        /// The first byte that cannot be accessed.
        address: u64,
    },
    /// A store to a page that is not mapped or may not be written.
    #[error("memory fault: it writes {address:#x}, where nothing can be written")]
    Write {
        /// The first byte that cannot be accessed.
        address: u64,
    },
    /// No instruction can be fetched here.
    #[error("memory fault: there is no code at {address:#x}")]
    Fetch {
        /// Where fetch went.
        address: u64,
    },
    /// Division by zero, or a quotient that is too large.
    #[error("division by zero, or a quotient that is too large")]
    Divide,
    /// An operand of 16 or 32 bytes that must be aligned, or another general protection.
    #[error("general protection: {0}")]
    Protection(&'static str),
    /// `ud2`, or bytes that are no instruction.
    #[error("invalid instruction")]
    Invalid,
    /// `int3`.
    #[error("breakpoint")]
    Breakpoint,
    /// An instruction that the model leaves out.
    #[error("the model does not have this instruction: {0}")]
    Unsupported(&'static str),
}

impl Fault {
    /// A load failed at `address`.
    pub fn read(address: u64) -> Fault {
        Fault::Read { address }
    }

    /// A store failed at `address`.
    pub fn write(address: u64) -> Fault {
        Fault::Write { address }
    }
}

/// What ended a run before the program did.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Error {
    /// The file is no program for this model.
    #[error("{0}")]
    Program(String),
    /// The parameters of the timing model cannot be used.
    #[error("parameters: {0}")]
    Parameters(String),
    /// An instruction could not be executed.
    #[error("{address:#x}: {text}: {fault}")]
    Fault {
        /// Of the instruction.
        address: u64,
        /// Its disassembly.
        text: String,
        /// Why.
        fault: Fault,
    },
    /// A system call that the model does not serve.
    #[error(
        "{address:#x}: syscall: system call {number} is not served; \
         crates/uarch/README.md lists those that are"
    )]
    Call {
        /// Of the instruction.
        address: u64,
        /// Of the call.
        number: u64,
    },
    /// The bound was reached.
    #[error(
        "{address:#x}: {text}: the program has not ended after {instructions} instructions; \
         raise the bound if it is no endless loop"
    )]
    Endless {
        /// Of the next instruction.
        address: u64,
        /// Its disassembly.
        text: String,
        /// The bound.
        instructions: u64,
    },
    /// Interrupts come so fast that the program gets nowhere.
    #[error(
        "{address:#x}: {text}: the program stands still here, interrupted {interrupts} times \
         before this instruction is done; let interrupts come less often"
    )]
    Swamped {
        /// Of the last instruction that was done.
        address: u64,
        /// Its disassembly.
        text: String,
        /// Interrupts since.
        interrupts: u64,
    },
}
