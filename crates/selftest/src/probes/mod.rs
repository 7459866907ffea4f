//! Do probes change a program? Compiles programs plainly and with probes, and compares what they
//! print.
//!
//! ```text
//!   source ── gcc ───────────────────────────────> plain    ── runs ──> its lines
//!          ── quaver cc gcc, reassembled ────────> the same file, byte for byte
//!          ── quaver cc gcc, copies only ────────> control  ── runs ──> the same lines
//!          ── quaver cc gcc ── torture linked ───> probes   ── runs ──> the same lines, and hits
//! ```
//!
//! * **Torture** ([`quaver_probes::torture`]): every probe hits, in every thread. Another thread
//!   runs at each and overwrites all registers; only what the stub calls alive is kept. Now and
//!   then the stack is unwound from a stub.
//! * **Programs** ([`source`]): the 24 of `bench/programs`, two of this crate's in C++, each by all
//!   compilers at five levels; or random ones of csmith's. A *turn* builds each once, the next one
//!   by another compiler or at another level ([`builds`]), so that a short run sees some of all.
//! * **Hits** are what counts: turns follow with more work for each program until there are enough.
//! * **Nothing is left out in silence.** A text that the rewriter leaves as it was, a program that
//!   cannot be built with probes, or that hangs, is a difference too.
//!
//! What differs stays in a folder: source, plain and probed program.

pub mod builds;
pub mod compare;
pub mod hunt;
pub mod random;
pub mod report;
pub mod source;
pub mod toolchain;

pub use hunt::{Hunt, Progress, Work};
pub use report::{Difference, Report};
