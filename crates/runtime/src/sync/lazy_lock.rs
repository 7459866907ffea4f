//! A value that is made when it is first used.

use super::OnceLock;
use crate::park::shim::const_unless_loom;
use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};

/// A value that is made by a closure when it is first used, with the interface of
/// [`std::sync::LazyLock`].
///
/// Threads that come while the closure runs wait for it; user threads give their worker to others.
///
/// # Examples
///
/// ```
/// use quaver::sync::LazyLock;
///
/// static SQUARES: LazyLock<Vec<u32>> = LazyLock::new(|| (0..10).map(|i| i * i).collect());
///
/// assert_eq!(SQUARES[3], 9);
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    cell: OnceLock<T>,
    /// Taken out by the run that makes the value; empty without a value means that it panicked.
    make: Cell<Option<F>>,
}

// SAFETY: `make` is accessed by the one closure that `cell` lets run (or through `&mut`); it may be
// another thread's.
unsafe impl<T: Send + Sync, F: Send> Sync for LazyLock<T, F> {}

impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}
impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    const_unless_loom! {
        /// Creates a value that `make` will make.
        pub fn new(make: F) -> LazyLock<T, F> {
            LazyLock { cell: OnceLock::new(), make: Cell::new(Some(make)) }
        }
    }

    /// The value; made now if it was not used before. The same as dereferencing.
    ///
    /// # Panics
    ///
    /// If the closure panics or has panicked.
    #[inline]
    pub fn force(this: &LazyLock<T, F>) -> &T {
        this.cell.get_or_init(|| match this.make.take() {
            Some(make) => make(),
            None => panic!("LazyLock instance has previously been poisoned"),
        })
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        LazyLock::force(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> Self {
        LazyLock::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut d = f.debug_tuple("LazyLock");
        match self.cell.get() {
            Some(value) => d.field(value),
            None => d.field(&format_args!("<uninit>")),
        };
        d.finish()
    }
}
