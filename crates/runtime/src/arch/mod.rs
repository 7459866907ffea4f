//! What depends on the processor: context switch, user-mode resume, segment bases, signals to
//! oneself.

pub(crate) mod entry;
#[cfg(not(loom))]
mod fence;
pub(crate) mod pkru;
pub(crate) mod probe;
pub(crate) mod raise;
pub(crate) mod resume;
pub(crate) mod segment;
pub(crate) mod switch;

#[cfg(not(loom))]
pub(crate) use fence::fence;
