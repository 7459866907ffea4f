//! Preemption probes for compiled programs: rewrites the assembly text that gcc, clang or rustc
//! made (x86-64, AT&T syntax).
//!
//! A *probe* compares a byte of the thread control block with zero and goes to a stub where it is
//! not: a place at which a runtime can switch to another thread without a signal. Probes are
//! inserted after all optimisation, so that compilers optimise as without them. Every cycle in
//! the control flow of a function passes one; small loops are replicated, so that one serves many
//! instructions.
//!
//! ```text
//!   text -> parse -> labels, functions -> code (effects of instructions, from the assembler's own
//!        bytes) -> cfg -> liveness, loops -> plan -> stubs, copies -> text
//! ```
//!
//! * [`rewrite()`]: the whole of it.
//! * [`abi`]: what a probe and a runtime agree on.
//! * [`plan`]: where probes go. [`replicate`]: loops written several times.
//! * [`liveness`]: what a stub says is alive, and why it must not say less.
//! * [`note`]: what an object says about itself.
//! * [`check`]: whether a cycle was missed.
//! * [`driver`]: the program `quaver-as`, which is used in place of `as`.
//! * [`torture`]: a runtime that proves that stubs say all that lives.
//!
//! What is not understood stays as it was, and is counted in the [`Report`]: a function, or the
//! whole text.
#![forbid(unsafe_code)]

pub mod assembler;
pub mod bounded;
pub mod calls;
pub mod cfg;
pub mod cfi;
pub mod check;
pub mod code;
pub mod driver;
pub mod effects;
pub mod functions;
pub mod graph;
pub mod labels;
pub mod liveness;
pub mod note;
pub mod parse;
pub mod plan;
pub mod regs;
pub mod replicate;
pub mod report;
pub mod rewrite;
pub mod rustc;
pub mod settings;
pub mod source;
pub mod stub;
pub mod tables;
pub mod torture;

pub use quaver_probe_abi as abi;

pub use assembler::{Assembler, Error};
pub use report::{LeftAlone, Report};
pub use rewrite::{Options, Rewritten, reassemble, rewrite};
