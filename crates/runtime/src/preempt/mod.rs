#![doc = include_str!("README.md")]

mod gate;
mod handler;
mod in_library;
#[cfg(feature = "inspect")]
pub mod inspect;
pub(crate) mod ranges;
mod sigsegv;

pub(crate) use gate::{disable, enable, take_deferred};
pub(crate) use handler::{install, on_signal, send, shadow_stack_active, signal_is_valid};
pub(crate) use in_library::InLibrary;
pub(crate) use ranges::refresh;
pub(crate) use sigsegv::{AltStack, install as install_overflow_report};

pub use gate::{NoPreempt, is_preemptible, no_preempt};
