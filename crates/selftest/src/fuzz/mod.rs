//! A differential fuzzer: random programs over the interfaces of pthreads, semaphores, signals and
//! files, run natively and on user threads ([`quaver run`](../../../docs/shim.md)), with the same
//! results or a report.
//!
//! # Programs are data
//!
//! A program is a list of [`Operation`]s, each for one of its threads; an interpreter in C
//! (`interpreter/`) performs them. An operation is a call, or a few (`hammer_mutex` locks many
//! times), and leaves a [`Record`](record::Record): the result, `errno`, and something more, such
//! as a checksum or how often a handler has run. A run's *trace* is the list of all records; it is
//! a file that both processes have mapped, so that of a run that hangs or crashes one knows how far
//! it came, and in which operations its threads are.
//!
//! # The same results whatever the interleaving
//!
//! A program is made of *steps* (`steps/`): small scenarios of one to all threads, with objects of
//! their own, such as "a thread waits in `pselect` with a mask, and another sends it the signal
//! that only this mask allows". The generator writes down one order of all operations in which none
//! waits for a later one. Within a step each operation waits, before it begins, until its
//! predecessors are *done*, or, where one of them blocks until it is released, until that has
//! *begun*. So
//!
//! * the order that was written down is a witness that no program deadlocks;
//! * a result depends on what is ordered before it, or, as in the sum that several threads add up
//!   under a lock, not on any order;
//! * a call that is to be interrupted by a signal allows that signal only while it waits
//!   (`sigsuspend`, `pselect`), or is sent it over and over until it has returned;
//! * every thread blocks all signals between steps, and one signal is used by one step at a time;
//! * a time-out that is to happen belongs to something that nobody releases until it has.
//!
//! Steps with different threads run beside each other. Waiting between operations uses flags,
//! `sched_yield` and sleep, nothing that is under test.
//!
//! # Differences
//!
//! Batches of programs run in one process after the other ([`run`]), natively and in each of
//! [`ways`](ways::all). What differs is run again alone; a process in which nothing moves any more
//! likewise, with more patience, so that a busy machine is no difference. A program that has been
//! confirmed is then made smaller ([`shrink`]): without a step it is still a valid program, since
//! dependencies exist only within steps, and between those that use the same signal, which are
//! computed anew.

pub mod ddmin;
pub mod hunt;
pub mod program;
pub mod record;
pub mod report;
pub mod run;
pub mod shrink;
mod steps;
pub mod ways;

pub use hunt::{Hunt, Progress};
pub use program::{Operation, Program};
pub use report::{Difference, Report};
