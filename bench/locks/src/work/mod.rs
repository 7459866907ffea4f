//! What threads do with the locks.

pub mod crew;
pub mod crowd;
pub mod hash;
pub mod random;
pub mod runnable;
pub mod shared;
