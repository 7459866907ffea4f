//! Scheduling policies and run queues: pure logic over task handles.
//!
//! Nothing here calls an operating system, reads a clock or holds a pointer to a thread: a task is a number
//! ([`Task`]), time is a number that the host passes in ([`Time`]). The same code therefore schedules real user
//! threads in the runtime, simulated ones in the simulator, and tasks of several processes in shared memory.
//!
//! Start with [`Policy`], the interface after Skyloft's Table 2 (SOSP '24, section 3.4).
#![no_std]

extern crate alloc;

mod policy;

pub use policy::{Class, Place, Pick, Policy, Running, Task, Time, Why};
