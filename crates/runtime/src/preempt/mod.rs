#![doc = include_str!("README.md")]

mod at_call;
mod blocked;
mod defer;
pub(crate) mod extension;
pub(crate) mod fault;
mod frame;
mod gate;
mod in_library;
#[cfg(feature = "inspect")]
pub mod inspect;
mod install;
mod instrumented;
mod judge;
mod notify;
pub(crate) mod own_stack;
mod place;
pub(crate) mod probe;
pub(crate) mod ranges;
mod request;
mod room;
mod signal;
mod sigsegv;
pub(crate) mod stranger;
pub(crate) mod user_interrupt;

pub(crate) use gate::{
    assert_disabled, assert_enabled, disable, enable, in_section, take_deferred,
};
pub(crate) use in_library::InLibrary;
pub(crate) use install::{install, signal_is_valid};
pub(crate) use instrumented::instrumented;
pub(crate) use notify::{Stage, attach, begins, ends, register, send, takes};
pub(crate) use own_stack::on_alternate_stack;
pub(crate) use probe::on_probe;
pub(crate) use ranges::refresh;
pub(crate) use request::Request;
pub(crate) use signal::on_signal;
pub(crate) use sigsegv::{AltStack, install as install_overflow_report, overflow_is_a_fault};
pub(crate) use user_interrupt::on_user_interrupt;

pub use at_call::at_call;
pub(crate) use at_call::has_got;
pub(crate) use gate::unstoppable;
pub use gate::{NoPreempt, is_preemptible, no_preempt};
