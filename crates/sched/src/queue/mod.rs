//! Run queues of task handles, for authors of policies.
//!
//! | type | who adds | who takes | bounded | a pair of add and take costs |
//! |---|---|---|---|---|
//! | [`Ring`] | its owner | its owner; others steal | yes | one compare-and-swap |
//! | [`List`] | anyone | anyone | no | two short spin-locked sections |
//! | [`Heap`]: by a key | anyone | anyone | no | the same, and `O(log n)` comparisons |
//! | [`LocalQueue`]: ring, then list | its owner | its owner; others steal | no | as the ring while it suffices |
//! | [`WorkerQueues`]: one `LocalQueue` a worker | each worker its own | each worker; idle ones steal half | no | the same |
//!
//! All of them are first in, first out, a [`Heap`] among tasks with equal keys. A task may be in
//! one queue at a time. Misuse (an operation of the owner called by two threads at once, a task
//! added twice) loses or repeats tasks, but it is never undefined behaviour: the queues hold
//! numbers only and consist of atomics.
//!
//! # Rules for callers
//!
//! The operations never allocate and never block in the kernel. [`List`] spins while another thread
//! holds its lock for a few instructions, so a caller must not be preempted by the *host's*
//! scheduler inside them: the host disables preemption around every call of a policy, as
//! [`Policy`](crate::Policy) demands.
//!
//! # Seeing what others enqueue
//!
//! `len`, `is_empty` and [`WorkerQueues::any_waiting`] are loads with acquire ordering. They see
//! every task whose enqueue happened before the call. A host that goes to sleep on "nothing waits"
//! must order *announce that I sleep* before *look at the queues* with a sequentially consistent
//! fence, and whoever enqueues must order *enqueue* before *look for sleepers* in the same way.
//! Then one of the two sees the other.

mod heap;
mod list;
mod local;
#[cfg(all(test, loom))]
mod model;
mod moves;
mod ring;
#[cfg(all(test, not(loom)))]
mod tests;
mod workers;

pub(crate) use heap::HeapNode;
pub use heap::{Heap, Nodes};
pub use list::{Links, List};
pub use local::LocalQueue;
pub(crate) use moves::Moves;
pub use ring::{Ring, RingFull};
pub use workers::WorkerQueues;

/// How many tasks a worker's ring holds before its overflow list is used: 1 KiB, enough that
/// overflow is rare.
pub const RING_CAPACITY: usize = 256;
