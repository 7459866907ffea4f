#![doc = include_str!("../README.md")]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
compile_error!("quaver-lock is for x86-64 Linux with glibc");

mod algorithm;
pub mod asm;
mod capi;
mod cell;
mod futex;
mod machine;
#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod modes;
pub mod monitor;
mod mutex;
mod node;
mod page;
pub mod parts;
mod raw;
pub mod slice;
#[cfg(all(test, feature = "host", not(loom)))]
mod windows;

/// One at a time: tests of what the whole process has once.
#[cfg(all(test, not(loom)))]
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

pub use cell::{held, pauses};
pub use mutex::{Mutex, MutexGuard};
pub use raw::Lock;
