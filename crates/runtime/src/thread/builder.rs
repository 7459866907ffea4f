//! How a thread is to be started.

use super::stack::OwnStack;
use super::{JoinHandle, Scope, ScopedJoinHandle, Start, scope};
use crate::runtime::{Inner, NoRuntime};
use quaver_sched::{Attributes, Service};
use std::io;
use std::sync::Arc;

/// Properties of a thread to be started.
///
/// ```
/// # quaver::Builder::new().workers(1).build().unwrap().run(|| {
/// let t = quaver::thread::Builder::new().name("worker".into()).spawn(|| {
///     assert_eq!(quaver::thread::current().unwrap().name().as_deref(), Some("worker"));
/// })?;
/// t.join().unwrap();
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Default)]
pub struct Builder {
    name: Option<String>,
    attributes: Attributes,
    stack_size: usize,
}

impl Builder {
    /// A thread without a name.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Names the thread, for debuggers and for the reports of panics and of stack overflows.
    /// `std::thread::current` does not know the name.
    #[must_use]
    pub fn name(mut self, name: String) -> Builder {
        self.name = Some(name);
        self
    }

    /// The thread's share of processor time, relative to others: 1 to 10000, default 100; values
    /// outside are taken for the nearest. Heeded by the policies `cfs` and `eevdf`.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Builder {
        self.attributes.weight = weight;
        self
    }

    /// How urgent the thread is: 0 to 7, the most urgent, default 3; larger values are taken for 7.
    /// Heeded by the policy `priority`. [`JoinHandle::set_priority`] changes it later.
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Builder {
        self.attributes.priority = priority;
        self
    }

    /// Whether somebody waits for the thread (the default), or it may have what the others leave.
    /// Heeded by the policy `shinjuku-shenango`.
    #[must_use]
    pub fn service(mut self, service: Service) -> Builder {
        self.attributes.service = service;
        self
    }

    /// Usable bytes of the thread's stack, if it needs more than [the runtime's threads
    /// have](crate::Builder::stack_size). Such a stack is mapped for this thread and unmapped at
    /// its end, which takes some microseconds; only touched pages take memory.
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_size = bytes;
        self
    }

    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// No runtime is running, the limit of threads is reached, or memory is exhausted.
    pub fn spawn<T: Send + 'static>(
        self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let rt = Inner::running().ok_or_else(|| io::Error::other(NoRuntime))?;
        // SAFETY: everything is 'static.
        unsafe { self.spawn_unchecked(rt, f, None) }
    }

    /// Starts a thread that may borrow what lives as long as the scope; see [`scope`].
    ///
    /// # Errors
    ///
    /// As [`spawn`](Builder::spawn).
    ///
    /// ```
    /// # quaver::Builder::new().workers(1).build().unwrap().run(|| {
    /// let word = String::from("borrowed");
    /// quaver::scope(|s| {
    ///     let builder = quaver::thread::Builder::new().name("reader".into());
    ///     let reader = builder.spawn_scoped(s, || word.len())?;
    ///     assert_eq!(reader.join().unwrap(), 8);
    ///     Ok::<(), std::io::Error>(())
    /// })
    /// # }).unwrap();
    /// ```
    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        f: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        scope.start(self, f)
    }

    /// Starts a thread; if it is one of a scope, it tells the scope when nothing of it borrows any
    /// more.
    ///
    /// # Safety
    ///
    /// The thread ends, or calls `Data::leave` of the scope, before anything ends that `f` or `T`
    /// borrows.
    pub(super) unsafe fn spawn_unchecked<T: Send>(
        self,
        rt: &'static Inner,
        f: impl FnOnce() -> T + Send,
        scope: Option<Arc<scope::Data>>,
    ) -> io::Result<JoinHandle<T>> {
        let name = self.name.map(String::into_boxed_str);
        let stack = OwnStack::if_larger(self.stack_size, rt.config.stack_size)?;
        let start = Start { name: name.clone(), scope, stack, ..Start::new(&self.attributes) };
        // SAFETY: handed on.
        let handle = unsafe { start.start(rt, f)? };
        Ok(JoinHandle::new(rt, handle, name))
    }
}

/// Starts a thread with a handle to join.
///
/// # Safety
///
/// The thread ends before anything that `f` or `T` borrows.
pub(crate) unsafe fn spawn_unchecked<T: Send>(
    rt: &'static Inner,
    f: impl FnOnce() -> T + Send,
    name: Option<Box<str>>,
) -> io::Result<JoinHandle<T>> {
    // SAFETY: handed on.
    unsafe { spawn_with(rt, f, name, &Attributes::default(), None) }
}

/// [`spawn_unchecked`] with what the policy is to know of the thread, and a stack of its own.
///
/// # Safety
///
/// As [`spawn_unchecked`].
pub(crate) unsafe fn spawn_with<T: Send>(
    rt: &'static Inner,
    f: impl FnOnce() -> T + Send,
    name: Option<Box<str>>,
    attributes: &Attributes,
    stack: Option<OwnStack>,
) -> io::Result<JoinHandle<T>> {
    let start = Start { name, stack, ..Start::new(attributes) };
    // SAFETY: handed on.
    let handle = unsafe { start.start(rt, f)? };
    Ok(JoinHandle::new(rt, handle, None))
}
