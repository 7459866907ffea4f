//! Runs unmodified pthread programs on user threads: `quaver run -- program`, which preloads this
//! library.
//!
//! Each module defines functions of the C library in front of the C library's own.

mod affinity;
mod attributes;
mod c11;
mod cancel;
mod cpu_time;
mod exec;
mod inline_calls;
mod interrupt;
mod io;
mod memory;
mod mutex;
mod name;
mod net;
mod nice;
mod privileges;
mod raw_calls;
mod real;
mod refuse;
mod robust;
mod say;
mod schedule;
mod signal;
mod start;
mod state;
mod stats;
mod sync;
mod sys;
mod thread;
mod time;
mod unwind;
mod vfork;
