//! What the operating system and the C library do to a whole process: forks, and signals that the C
//! library keeps for itself. Memory from the kernel.

pub mod fork;
pub(crate) mod pages;
pub mod reserved;
pub(crate) mod turns;
