//! What the operating system and the C library do to a whole process: forks, and signals that the C
//! library keeps for itself.

pub mod fork;
pub mod reserved;
