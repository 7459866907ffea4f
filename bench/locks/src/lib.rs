#![doc = include_str!("../README.md")]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
compile_error!("quaver-bench-locks is for x86-64 Linux with glibc");

pub mod locks;
pub mod measure;
pub mod programs;
pub mod work;

pub use locks::Kind;
