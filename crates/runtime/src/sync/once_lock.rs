//! A value that is written once.

use super::Once;
use crate::park::shim::const_unless_loom;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::panic::{RefUnwindSafe, UnwindSafe};

/// A cell that is written at most once, with the interface of [`std::sync::OnceLock`].
///
/// Threads that come while the value is being made wait for it; user threads give their worker to
/// others. Reading a value that is there costs one load.
///
/// # Examples
///
/// ```
/// use quaver::sync::OnceLock;
///
/// static NAME: OnceLock<String> = OnceLock::new();
///
/// assert_eq!(NAME.get(), None);
/// assert_eq!(NAME.get_or_init(|| "quaver".into()), "quaver");
/// assert_eq!(NAME.set("other".into()), Err("other".into()));
/// ```
pub struct OnceLock<T> {
    /// Complete exactly if the value is there.
    once: Once,
    value: UnsafeCell<MaybeUninit<T>>,
    _owns: PhantomData<T>,
}

// SAFETY: the value may be made on one thread and dropped on another.
unsafe impl<T: Send> Send for OnceLock<T> {}
// SAFETY: `&T` is given to all threads, and any of them may make the value.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T: UnwindSafe> UnwindSafe for OnceLock<T> {}
impl<T: RefUnwindSafe + UnwindSafe> RefUnwindSafe for OnceLock<T> {}

impl<T> OnceLock<T> {
    const_unless_loom! {
        /// Creates an empty cell.
        pub fn new() -> OnceLock<T> {
            OnceLock {
                once: Once::new(),
                value: UnsafeCell::new(MaybeUninit::uninit()),
                _owns: PhantomData,
            }
        }
    }

    /// The value, if it is there. Never waits.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        if self.once.is_completed() {
            // SAFETY: complete, so the value is there and not written any more.
            Some(unsafe { self.assume_there() })
        } else {
            None
        }
    }

    /// The value, if it is there.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        if self.once.is_completed() {
            // SAFETY: complete, so the value is there.
            Some(unsafe { self.value.get_mut().assume_init_mut() })
        } else {
            None
        }
    }

    /// Waits until the value is there.
    pub fn wait(&self) -> &T {
        self.once.wait_force();
        // SAFETY: complete.
        unsafe { self.assume_there() }
    }

    /// Writes the value, unless there is one. Waits for another thread that is making it.
    ///
    /// # Errors
    ///
    /// `value`, if there is one already.
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| match value.take() {
            Some(value) => value,
            None => unreachable!("called once"),
        });
        match value {
            None => Ok(()),
            Some(value) => Err(value),
        }
    }

    /// The value; made by `f` if it is not there. Of several threads one runs its closure, and the
    /// others wait.
    ///
    /// # Panics
    ///
    /// If `f` does; the cell then stays empty.
    #[inline]
    pub fn get_or_init<F: FnOnce() -> T>(&self, f: F) -> &T {
        match self.get() {
            Some(value) => value,
            None => self.init(f),
        }
    }

    #[cold]
    fn init<F: FnOnce() -> T>(&self, f: F) -> &T {
        self.once.call_once_force(|_| {
            let value = f();
            // SAFETY: the one closure that runs has the cell to itself until it ends.
            unsafe { (*self.value.get()).write(value) };
        });
        // SAFETY: the call returned, so a closure has run to its end.
        unsafe { self.assume_there() }
    }

    /// Takes the cell apart.
    pub fn into_inner(mut self) -> Option<T> {
        self.take()
    }

    /// Takes the value out; the cell is empty again.
    pub fn take(&mut self) -> Option<T> {
        if self.once.is_completed() {
            self.once = Once::new();
            // SAFETY: it was complete, so the value is there, and from now on it counts as gone.
            Some(unsafe { mem::replace(self.value.get_mut(), MaybeUninit::uninit()).assume_init() })
        } else {
            None
        }
    }

    /// # Safety
    ///
    /// `once` is complete.
    unsafe fn assume_there(&self) -> &T {
        // SAFETY: the caller's contract.
        unsafe { (*self.value.get()).assume_init_ref() }
    }
}

impl<T> Drop for OnceLock<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        OnceLock::new()
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> Self {
        let cell = OnceLock::new();
        match cell.set(value) {
            Ok(()) => cell,
            Err(_) => unreachable!("the cell was empty"),
        }
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> Self {
        self.get().map_or_else(OnceLock::new, |value| OnceLock::from(value.clone()))
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut d = f.debug_tuple("OnceLock");
        match self.get() {
            Some(value) => d.field(value),
            None => d.field(&format_args!("<uninit>")),
        };
        d.finish()
    }
}
