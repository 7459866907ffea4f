#![doc = include_str!("../README.md")]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
compile_error!("quaver-lock is for x86-64 Linux with glibc");

mod algorithm;
pub mod asm;
mod cell;
mod futex;
mod machine;
#[cfg(all(test, loom))]
mod models;
mod mutex;
mod node;
mod page;
mod raw;

pub use cell::held;
pub use mutex::{Mutex, MutexGuard};
pub use raw::Lock;
