//! Threads that may borrow from their caller, as `std::thread::scope`.

use super::{Builder, JoinHandle, Thread};
use crate::park::{self, Waiter};
use crate::runtime::{Inner, NoRuntime, ShutDown};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicUsize, Ordering::*};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Where scoped threads are started; see [`scope`].
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    data: Arc<Data>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

#[derive(Debug)]
pub(crate) struct Data {
    running: AtomicUsize,
    /// Panics that nobody has seen by joining.
    panics: AtomicUsize,
    owner: Waiter,
    /// The runtime of its threads.
    rt: OnceLock<&'static Inner>,
}

/// Kernel threads that wait for the threads of a scope. Used by kernel threads only.
static OWNERS: Mutex<Vec<Waiter>> = Mutex::new(Vec::new());

/// A runtime has stopped: those who wait for its threads look again.
pub(crate) fn wake_owners() {
    OWNERS.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|&w| park::unpark(w));
}

impl Data {
    /// Waits until all threads have left.
    ///
    /// # Panics
    ///
    /// If they never will.
    #[track_caller]
    fn wait(&self) {
        if self.running.load(Acquire) == 0 {
            return;
        }
        let _waiting = park::waits_for(c"scope", self);
        let (Waiter::Kernel(me), Some(rt)) = (self.owner, self.rt.get()) else {
            while self.running.load(Acquire) != 0 {
                park::park(self.owner);
            }
            return;
        };
        OWNERS.lock().unwrap_or_else(PoisonError::into_inner).push(self.owner);
        while self.running.load(Acquire) != 0 && !rt.has_stopped() {
            park::park(self.owner);
        }
        let mut owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = |w: &Waiter| matches!(w, Waiter::Kernel(w) if core::ptr::eq(*w, me));
        if let Some(at) = owners.iter().position(mine) {
            owners.swap_remove(at);
        }
        drop(owners);
        // A thread that a system call has kept from being stopped still uses what it has borrowed.
        while self.running.load(Acquire) != 0 {
            if rt.is_gone() {
                panic!("the quaver runtime was shut down before the threads of a scope had ended");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A thread's closure and, if nobody will take it, its result are gone: nothing of it borrows
    /// any more.
    pub(super) fn leave(self: Arc<Self>) {
        let owner = self.owner;
        if self.running.fetch_sub(1, Release) == 1 {
            park::unpark(owner);
        }
    }
}

/// The right to join a scoped thread.
#[derive(Debug)]
pub struct ScopedJoinHandle<'scope, T> {
    handle: JoinHandle<T>,
    data: Arc<Data>,
    scope: PhantomData<&'scope ()>,
}

/// Runs `f` with a scope in which threads may borrow from the environment. All threads have ended
/// when this returns; those that were not joined are waited for.
///
/// # Panics
///
/// If `f` panics, or a thread that was not joined has panicked. On a kernel thread also if the
/// runtime is shut down before the scope's threads have ended, which are never run again then.
///
/// ```
/// # quaver::Builder::new().workers(1).build().unwrap().run(|| {
/// let mut numbers = vec![1, 2, 3];
/// let sum: i32 = quaver::scope(|s| {
///     let (left, right) = numbers.split_at_mut(1);
///     let a = s.spawn(move || left[0]);
///     let b = s.spawn(move || right.iter().sum::<i32>());
///     a.join().unwrap() + b.join().unwrap()
/// });
/// assert_eq!(sum, 6);
/// numbers.push(4);
/// # });
/// ```
#[track_caller]
pub fn scope<'env, T>(f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    let scope = Scope {
        data: Arc::new(Data {
            running: AtomicUsize::new(0),
            panics: AtomicUsize::new(0),
            owner: park::current(),
            rt: OnceLock::new(),
        }),
        scope: PhantomData,
        env: PhantomData,
    };
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    scope.data.wait();
    match result {
        Err(panic) => resume_unwind(panic),
        Ok(_) if scope.data.panics.load(Relaxed) != 0 => panic!("a scoped user thread panicked"),
        Ok(value) => value,
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a thread that may borrow what lives as long as the scope.
    ///
    /// # Panics
    ///
    /// As [`spawn`](super::spawn).
    #[track_caller]
    pub fn spawn<T: Send + 'scope>(
        &'scope self,
        f: impl FnOnce() -> T + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, T> {
        match self.start(Builder::new(), f) {
            Ok(handle) => handle,
            Err(e) => panic!("cannot spawn a user thread: {e}"),
        }
    }

    pub(super) fn start<T: Send + 'scope>(
        &'scope self,
        builder: Builder,
        f: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        let rt = Inner::running().ok_or_else(|| io::Error::other(NoRuntime))?;
        if !core::ptr::eq(*self.data.rt.get_or_init(|| rt), rt) {
            return Err(io::Error::other(ShutDown));
        }
        self.data.running.fetch_add(1, Relaxed);
        let data = self.data.clone();
        let body = move || {
            catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
                data.panics.fetch_add(1, Relaxed);
                resume_unwind(panic)
            })
        };
        // SAFETY: `scope` returns only after the thread has called `Data::leave`, which it does
        // when its closure is gone and its result, if the handle was dropped, too. A handle that
        // still exists cannot leave the scope.
        let handle = unsafe { builder.spawn_unchecked(rt, body, Some(self.data.clone())) };
        let handle = handle.inspect_err(|_| {
            self.data.running.fetch_sub(1, Relaxed);
        })?;
        Ok(ScopedJoinHandle { handle, data: self.data.clone(), scope: PhantomData })
    }
}

impl<'scope, T> ScopedJoinHandle<'scope, T> {
    /// Waits for the thread's end; see [`JoinHandle::join`].
    ///
    /// # Errors
    ///
    /// The payload of the thread's panic. The scope does not panic for it then.
    pub fn join(self) -> std::thread::Result<T> {
        seen(&self.data, self.handle.join())
    }

    /// As [`join`](Self::join), for at most `timeout`; see [`JoinHandle::join_timeout`].
    ///
    /// # Errors
    ///
    /// The handle, if the thread has not ended by then.
    pub fn join_timeout(
        self,
        timeout: Duration,
    ) -> Result<std::thread::Result<T>, ScopedJoinHandle<'scope, T>> {
        let ScopedJoinHandle { handle, data, scope } = self;
        match handle.join_timeout(timeout) {
            Ok(result) => Ok(seen(&data, result)),
            Err(handle) => Err(ScopedJoinHandle { handle, data, scope }),
        }
    }

    /// Has the thread ended?
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// The thread, to be [unparked](Thread::unpark).
    pub fn thread(&self) -> &Thread {
        self.handle.thread()
    }
}

/// A panic that a join has returned is not the scope's any more.
fn seen<T>(data: &Data, result: std::thread::Result<T>) -> std::thread::Result<T> {
    if result.is_err() {
        data.panics.fetch_sub(1, Relaxed);
    }
    result
}
