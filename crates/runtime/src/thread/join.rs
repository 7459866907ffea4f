//! Waiting for a thread's end.

use super::control::Uthread;
use super::handle::{Thread, ThreadId};
use super::life::Wait;
use super::{packet, recycle_here};
use crate::block;
use crate::park;
use crate::preempt;
use crate::runtime::{Inner, ShutDown};
use crate::worker::carrier::{After, Carrier};
use crate::worker::scheduler;
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

/// The right to wait for a thread's end and to take its result. Dropping it detaches the thread.
pub struct JoinHandle<T> {
    thread: Thread,
    result: PhantomData<T>,
}

// SAFETY: the handle gives access to the result, a `T`, from whatever thread has it.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: a shared handle gives no access to the result.
unsafe impl<T> Sync for JoinHandle<T> {}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("thread", &self.thread).finish_non_exhaustive()
    }
}

impl<T> JoinHandle<T> {
    /// Of a thread that has just been started.
    pub(super) fn new(rt: &'static Inner, handle: u32, name: Option<Box<str>>) -> JoinHandle<T> {
        let id = ThreadId(rt.table.get(handle).id.get());
        JoinHandle { thread: Thread { rt, handle, id, name }, result: PhantomData }
    }

    /// Waits for the thread's end and returns its result, or the payload of its panic. Its
    /// thread-locals have been destroyed by then.
    ///
    /// A user thread gives its worker to others meanwhile; a kernel thread sleeps.
    ///
    /// # Errors
    ///
    /// The panic's payload. If the runtime is shut down before the thread has ended, the payload is
    /// a [`ShutDown`] (only a kernel thread can see that).
    /// # Panics
    ///
    /// On the thread itself, which would wait for ever.
    #[track_caller]
    pub fn join(self) -> std::thread::Result<T> {
        assert!(!self.is_current(), "a user thread cannot join itself");
        self.join_or_error().unwrap_or_else(|e| Err(Box::new(e)))
    }

    /// As [`join`](Self::join), for at most `timeout`.
    ///
    /// # Errors
    ///
    /// The handle, if the thread has not ended by then.
    ///
    /// ```
    /// # quaver::Builder::new().workers(1).build().unwrap().run(|| {
    /// use std::time::Duration;
    ///
    /// let sleeper = quaver::spawn(|| quaver::sleep(Duration::from_millis(20)));
    /// let sleeper = sleeper.join_timeout(Duration::from_micros(1)).unwrap_err();
    /// sleeper.join().unwrap();
    /// # });
    /// ```
    pub fn join_timeout(self, timeout: Duration) -> Result<std::thread::Result<T>, JoinHandle<T>> {
        match self.wait(park::deadline_after(timeout)) {
            Wait::Done => Ok(self.take()),
            Wait::TimedOut => Err(self),
            Wait::ShutDown => Ok(Err(Box::new(ShutDown))),
        }
    }

    pub(crate) fn join_or_error(self) -> Result<std::thread::Result<T>, ShutDown> {
        match self.wait(None) {
            Wait::Done => Ok(self.take()),
            _ => Err(ShutDown),
        }
    }

    /// The result of a thread that is DONE.
    fn take(self) -> std::thread::Result<T> {
        let t = self.block();
        // SAFETY: DONE: the result is there and the thread is off its stack. The handle ends here
        // without its destructor, so this is the one taking.
        let result = unsafe { packet::take_result::<T>(t) };
        let rt = self.thread.rt;
        let mut this = core::mem::ManuallyDrop::new(self);
        this.thread.name = None;
        recycle_here(rt, t);
        result
    }

    /// Waits for DONE.
    #[inline]
    fn wait(&self, deadline: Option<Instant>) -> Wait {
        let t = self.block();
        if t.life.is_done() { Wait::Done } else { self.wait_long(t, deadline) }
    }

    fn wait_long(&self, t: &'static Uthread, deadline: Option<Instant>) -> Wait {
        let me = park::current();
        t.joiner.store(me.into_raw(), Relaxed);
        let _waiting = park::waits_for(c"end of thread", t);
        if deadline.is_none()
            && let Some(me) = super::raw::current()
            && suspend(self.thread.rt, me, t)
        {
            return Wait::Done;
        }
        t.life.wait(|| park::park_deadline(me, deadline), || self.thread.rt.has_stopped())
    }

    /// Is it the calling thread?
    fn is_current(&self) -> bool {
        super::raw::current().is_some_and(|me| core::ptr::eq(me, self.block()))
    }

    /// Has the thread ended? Joining it then does not wait.
    pub fn is_finished(&self) -> bool {
        self.block().life.is_done()
    }

    /// The thread's number.
    pub fn id(&self) -> ThreadId {
        self.thread.id
    }

    /// Makes the thread more or less urgent: 0 to 7, the most urgent; larger values are taken
    /// for 7. A waiting thread goes to the tail of its new level, and a running one may be
    /// preempted at once for what is more urgent now. Never blocks. `false`: the policy heeds
    /// no priorities (only `priority` does), and nothing was changed.
    pub fn set_priority(&self, priority: u8) -> bool {
        let Thread { rt, handle, .. } = self.thread;
        super::set_priority(rt, rt.table.get(handle), priority)
    }

    /// The thread, to be [unparked](Thread::unpark).
    pub fn thread(&self) -> &Thread {
        &self.thread
    }

    /// Its place in the table.
    pub(crate) fn raw(&self) -> u32 {
        self.thread.handle
    }

    fn block(&self) -> &'static Uthread {
        self.thread.rt.table.get(self.thread.handle)
    }
}

/// Waits until `t`, of which the calling thread is the joiner, is DONE. `false`: not so, because it
/// is a thread of another runtime than `rt`.
#[inline]
fn suspend(rt: &Inner, me: &'static Uthread, t: &'static Uthread) -> bool {
    preempt::assert_enabled();
    me.preempt_disable();
    // SAFETY: preemption is disabled, and the reference is not used after the switch.
    let same = core::ptr::eq(unsafe { Carrier::here() }.rt(), rt);
    if same {
        // SAFETY: the calling thread, preemption disabled.
        unsafe { scheduler::leave(me, After::Join(me, t)) };
    }
    me.preempt_enable();
    if same {
        t.life.wait_until_done();
        block::leave_again(me);
    }
    same
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let t = self.block();
        // Released also if the result's destructor panics.
        let _release = Release(self.thread.rt, t);
        if t.life.detach() {
            packet::drop_result(t);
        }
    }
}

/// The handle needs nothing more of the thread.
struct Release(&'static Inner, &'static Uthread);

impl Drop for Release {
    fn drop(&mut self) {
        if self.1.life.release() {
            recycle_here(self.0, self.1);
        }
    }
}
