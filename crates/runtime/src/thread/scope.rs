//! Threads that may borrow from their caller, as `std::thread::scope`.

use super::{JoinHandle, spawn_scoped};
use crate::park;
use crate::runtime::{Inner, NoRuntime};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicUsize, Ordering::*};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

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
    owner: park::Waiter,
}

impl Data {
    /// A thread's closure and, if nobody will take it, its result are gone: nothing of it borrows any more.
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

/// Runs `f` with a scope in which threads may borrow from the environment. All threads have ended when this returns;
/// those that were not joined are waited for.
///
/// # Panics
///
/// If `f` panics, or a thread that was not joined has panicked.
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
pub fn scope<'env, T>(f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    let scope = Scope {
        data: Arc::new(Data {
            running: AtomicUsize::new(0),
            panics: AtomicUsize::new(0),
            owner: park::current(),
        }),
        scope: PhantomData,
        env: PhantomData,
    };
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    while scope.data.running.load(Acquire) != 0 {
        park::park(scope.data.owner);
    }
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
    pub fn spawn<T: Send + 'scope>(
        &'scope self,
        f: impl FnOnce() -> T + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, T> {
        let Some(rt) = Inner::running() else { panic!("cannot spawn a user thread: {NoRuntime}") };
        self.data.running.fetch_add(1, Relaxed);
        let data = self.data.clone();
        let body = move || {
            catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
                data.panics.fetch_add(1, Relaxed);
                resume_unwind(panic)
            })
        };
        // SAFETY: `scope` returns only after the thread has called `Data::leave`, which it does when its closure is gone
        // and its result, if the handle was dropped, too. A handle that still exists cannot leave the scope.
        let handle = match unsafe { spawn_scoped(rt, body, self.data.clone()) } {
            Ok(handle) => handle,
            Err(e) => {
                self.data.running.fetch_sub(1, Relaxed);
                panic!("cannot spawn a user thread: {e}")
            }
        };
        ScopedJoinHandle { handle, data: self.data.clone(), scope: PhantomData }
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the thread's end; see [`JoinHandle::join`].
    ///
    /// # Errors
    ///
    /// The payload of the thread's panic. The scope does not panic for it then.
    pub fn join(self) -> std::thread::Result<T> {
        let result = self.handle.join();
        if result.is_err() {
            self.data.panics.fetch_sub(1, Relaxed);
        }
        result
    }

    /// Has the thread ended?
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}
