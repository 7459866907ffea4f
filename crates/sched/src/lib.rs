//! Scheduling policies and run queues: pure logic over task handles.
//!
//! Nothing here calls an operating system, reads a clock or holds a pointer to a thread: a task is
//! a number ([`Task`]), time is a number that the host passes in ([`Time`]). The same code
//! therefore schedules real user threads in the runtime and simulated ones in a simulator.
//!
//! * [`Policy`]: the interface, after Skyloft's Table 2 (SOSP '24, section 3.4).
//! * [`policies`]: the built-in ones; [`Spec`] chooses one by name.
//! * [`queue`]: run queues to build policies from.
//! * [`timers`]: which task wakes when.
//! * [`clock`]: when a worker must be interrupted, and when the clock may sleep.
//! * [`Tax`]: what preemptions may cost.
//! * [`steps`]: counting spans of time by their order of magnitude.
//! * [`random`]: the same numbers everywhere.
//! * [`settings`]: what a runtime can be told, as text.
//! * [`share`]: how several applications share cores.
#![no_std]

extern crate alloc;
#[cfg(any(test, feature = "std"))]
extern crate std;

mod attributes;
pub mod clock;
mod duration;
pub mod policies;
mod policy;
pub mod queue;
pub mod random;
pub mod settings;
pub mod share;
#[cfg(feature = "sources")]
mod sources;
mod spec;
pub mod steps;
mod sync;
mod table;
mod tax;
pub mod timers;

pub use attributes::{
    AttributeTable, Attributes, DEFAULT_PRIORITY, DEFAULT_WEIGHT, MAX_WEIGHT, PRIORITIES, Service,
};
pub use duration::{DURATION_FORMS, DurationError, format_duration, parse_duration};
pub use policy::{Class, Concerns, Pick, Place, Policy, Running, Task, Time, Why};
#[cfg(feature = "sources")]
pub use sources::SOURCES;
#[cfg(any(test, feature = "std"))]
pub use spec::Footprint;
pub use spec::{DEFAULT_QUANTUM, Spec, SpecError};
pub use sync::set_relax;
pub use tax::{Account, Tax, probe_quantum_for, quantum_for};
pub use timers::{TimerHeap, TimerRoom, TimerTable};
