//! A way to a running runtime.

use super::Inner;
use crate::lateness::Lateness;
use crate::stats::Stats;
use crate::thread::{self, JoinHandle};

/// A way to start user threads from anywhere, also from ordinary kernel threads. Cheap to copy; may
/// outlive the runtime.
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    pub(super) inner: &'static Inner,
}

impl Handle {
    /// The running runtime's handle.
    ///
    /// # Errors
    ///
    /// [`NoRuntime`] if there is none.
    pub fn current() -> Result<Handle, NoRuntime> {
        Inner::running().map(|inner| Handle { inner }).ok_or(NoRuntime)
    }

    /// Starts a user thread. From a kernel thread it goes to the shared queue, for whichever worker
    /// comes first.
    ///
    /// # Panics
    ///
    /// If no thread can be made, or the runtime has been shut down.
    #[track_caller]
    pub fn spawn<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        // SAFETY: everything is 'static.
        match unsafe { thread::spawn_unchecked(self.inner, f, None) } {
            Ok(handle) => handle,
            Err(e) => panic!("cannot spawn a user thread: {e}"),
        }
    }

    /// Starts a user thread that nobody will join: some nanoseconds cheaper than dropping a
    /// `JoinHandle`.
    ///
    /// # Errors
    ///
    /// As `std::thread::Builder::spawn`: no thread can be made, or the runtime has been shut down.
    pub fn spawn_detached(&self, f: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        thread::spawn_detached_on(self.inner, f)
    }

    /// How late preemptions came, so far, that had to be put off.
    pub fn lateness(&self) -> Lateness {
        self.inner.lateness()
    }

    /// What has been done so far.
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }
}

/// Something that needs a runtime was called when none was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no quaver runtime is running: use #[quaver::main] or quaver::Builder")]
pub struct NoRuntime;
