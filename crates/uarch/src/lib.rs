//! A model of an x86-64 core in which interrupt hardware can be designed (xUI, ASPLOS 2025).
//!
//! The design: `crates/uarch/README.md`.
//!
//! ```
//! # fn main() -> Result<(), quaver_uarch::Error> {
//! // mov edi, 42; mov eax, 60; syscall
//! let code = [0xbf, 42, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05];
//! let mut machine = quaver_uarch::Machine::with_code(0x40_0000, &code);
//! assert_eq!(machine.run(1000)?, 42);
//! assert_eq!(machine.instructions(), 3);
//! # Ok(()) }
//! ```

pub mod core;
pub mod cpu;
pub mod decode;
pub mod elf;
pub mod exec;
pub mod fault;
pub mod kernel;
pub mod machine;
pub mod mechanism;
pub mod memory;
pub mod speculate;
pub mod system;
pub mod uintr;
pub mod uop;
pub mod vop;
pub mod workload;

pub use fault::{Error, Fault};
pub use machine::Machine;
pub use system::System;
