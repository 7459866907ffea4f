//! User threads by handle.

use crate::JoinHandle;
use crate::runtime::{Inner, NoRuntime};
use crate::thread::stack::OwnStack;
use crate::thread::{self, raw};
pub use crate::thread::{
    raw::{try_yield, try_yield_before_wait},
    run_time::count as count_run_time,
};
use crate::tsc;
use core::ops::Range;
use core::sync::atomic::Ordering::*;
pub use quaver_sched::{Attributes, DEFAULT_PRIORITY};
use std::io;
use std::time::Duration;

/// A user thread. Only what is alive may be asked; nothing here keeps it so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserThread(u32);

/// The calling user thread; `None` on kernel threads.
#[inline]
pub fn current() -> Option<UserThread> {
    raw::current_handle().map(UserThread)
}

/// Starts a thread with a handle to join it.
///
/// # Errors
///
/// No runtime runs, or no thread can be made.
pub fn spawn(
    name: Option<Box<str>>,
    f: impl FnOnce() + Send + 'static,
) -> io::Result<(JoinHandle<()>, UserThread)> {
    spawn_with(name, &Attributes::default(), f)
}

/// [`spawn`] with a weight, a priority and a kind of service, for policies that heed them.
///
/// # Errors
///
/// As [`spawn`].
pub fn spawn_with(
    name: Option<Box<str>>,
    attributes: &Attributes,
    f: impl FnOnce() + Send + 'static,
) -> io::Result<(JoinHandle<()>, UserThread)> {
    // SAFETY: no memory is given.
    unsafe { spawn_on(WantedStack::Size(0), name, attributes, f) }
}

/// What a thread is to run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedStack {
    /// At least this many usable bytes; the runtime's threads have some anyhow.
    Size(usize),
    /// This memory, which is not unmapped at the end. It has no guard.
    Memory(Range<usize>),
}

/// The smallest memory that a thread may run on.
pub fn smallest_memory() -> usize {
    OwnStack::smallest()
}

/// [`spawn_with`] on a chosen stack.
///
/// # Safety
///
/// Memory that is given is writable, and nobody else uses it before the thread has been joined; for
/// ever if it is detached.
///
/// # Errors
///
/// As [`spawn`]; `InvalidInput` if the memory is too small for a preempted thread.
pub unsafe fn spawn_on(
    stack: WantedStack,
    name: Option<Box<str>>,
    attributes: &Attributes,
    f: impl FnOnce() + Send + 'static,
) -> io::Result<(JoinHandle<()>, UserThread)> {
    let rt = Inner::running().ok_or_else(|| io::Error::other(NoRuntime))?;
    let stack = match stack {
        WantedStack::Size(bytes) => OwnStack::if_larger(bytes, rt.config.stack_size)?,
        WantedStack::Memory(memory) => {
            // SAFETY: the caller's contract.
            let given = unsafe { OwnStack::given(memory) };
            Some(given.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?)
        }
    };
    // SAFETY: everything is 'static.
    let handle = unsafe { thread::spawn_with(rt, f, name, attributes, stack) }?;
    let thread = UserThread(handle.raw());
    Ok((handle, thread))
}

/// Does the policy heed [`Attributes::priority`]? False also where no runtime runs.
pub fn heeds_priority() -> bool {
    Inner::latest().is_some_and(|rt| rt.policy.heeds_priority())
}

/// How many workers there are, and the CPUs that each has to itself, if the user has said so.
/// `None`: no runtime runs.
pub fn workers() -> Option<(usize, &'static [usize])> {
    Inner::latest().map(|rt| (rt.config.workers, &*rt.config.cpus))
}

/// Is `fs_base` the thread pointer of a user thread, which may have ended and been joined?
pub fn is_fs_base(fs_base: usize) -> bool {
    Inner::latest().is_some_and(|rt| rt.table.owns(fs_base))
}

impl UserThread {
    /// Its number, for [`from_number`](Self::from_number).
    pub fn number(self) -> u32 {
        self.0
    }

    /// The thread of this number, or another that has it by now.
    pub fn from_number(number: u32) -> UserThread {
        UserThread(number)
    }

    /// How long it has run on workers since it began; `None`: there is no such thread, or nobody
    /// counts ([`count_run_time`]). Time in calls that block outside the workers is not in it; time
    /// in which the kernel ran something else in the worker's place is. Never blocks.
    pub fn run_time(self) -> Option<Duration> {
        Inner::latest().filter(|rt| rt.accounts)?;
        Some(tsc::to_duration(self.block()?.ran.get()))
    }

    /// The thread pointer of its TLS block, which is what `pthread_self` returns on it.
    pub fn fs_base(self) -> usize {
        self.block().map_or(0, |t| t.fs.get())
    }

    /// Its stack, without the guard.
    pub fn stack(self) -> Range<usize> {
        let rt = Inner::latest();
        rt.zip(self.block()).map_or(0..0, |(rt, t)| rt.table.stack(t))
    }

    /// Gives it a name for debuggers, which stands for the one that it was started with, if that
    /// had any: up to the first zero, UTF-8. Nothing but zeros: it goes by its first name again.
    /// Never blocks, allocates nothing.
    pub fn set_label(self, label: [u8; 16]) {
        if let Some(t) = self.block() {
            t.label.set(label);
        }
    }

    /// As [`JoinHandle::set_priority`](crate::JoinHandle::set_priority).
    pub fn set_priority(self, priority: u8) -> bool {
        let rt = Inner::latest();
        rt.zip(self.block()).is_some_and(|(rt, t)| thread::set_priority(rt, t, priority))
    }

    /// Makes it look at [`Limits::interrupted`](super::futex::Limits::interrupted) if it waits, or
    /// at its next wait. May come too late; costs the thread a spurious wake-up at worst.
    pub fn interrupt(self) {
        raw::unpark(self.0);
    }

    /// The kernel thread that runs it at this moment, for signals, on a worker, or in a system call
    /// that the runtime has found blocking; `None` where none does. Out of date at once.
    pub fn runs_on(self) -> Option<i32> {
        if let Some(tid) = self.block().map(|t| t.away.load(Relaxed)).filter(|&tid| tid > 0) {
            return Some(tid);
        }
        let slots = Inner::latest()?.slots();
        let slot = slots.iter().find(|s| s.running().is_some_and(|(_, r)| r.task.0 == self.0))?;
        Some(slot.tid.load(Relaxed)).filter(|&tid| tid != 0)
    }

    /// For a signal handler on the kernel thread that makes it: is the thread in a system call that
    /// the runtime has found blocking? Then the call may be ended with `EINTR`, and the thread
    /// makes it again when it is on a worker.
    pub fn end_call(self) -> bool {
        let away = |tid: i32| (tid != 0).then_some(-1);
        self.block().is_some_and(|t| t.away.fetch_update(SeqCst, SeqCst, away).is_ok())
    }

    fn block(self) -> Option<&'static thread::control::Uthread> {
        Inner::latest()?.table.get_checked(self.0)
    }
}

/// From now on a stack overflow ends the process by `SIGSEGV`, as in C, and not by `SIGABRT`, as in
/// Rust.
pub fn overflow_is_a_fault() {
    crate::preempt::overflow_is_a_fault();
}

/// Runs the destructors of the calling thread's thread-local variables and `pthread_setspecific`
/// values, as at its end.
pub fn run_tls_destructors() {
    if let (Some(rt), Some(_)) = (Inner::latest(), raw::current())
        && let Some(tls) = rt.table.tls()
    {
        tls.run_destructors();
    }
}
