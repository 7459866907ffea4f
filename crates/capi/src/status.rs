//! What went wrong: a number for programs, a sentence for people.

use core::ffi::{CStr, c_char, c_int};
use std::cell::RefCell;
use std::ffi::CString;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        /// `enum quaver_status`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(i32)]
        pub enum Status {
            $($(#[$doc])* $name = $value,)*
        }

        impl Status {
            fn text(number: c_int) -> &'static CStr {
                match number {
                    $($value => $text,)*
                    _ => c"not a quaver status",
                }
            }
        }
    };
}

statuses! {
    /// Success.
    Ok = 0, c"success";
    /// An argument cannot be used.
    Invalid = 1, c"an argument cannot be used";
    /// No runtime is running.
    NoRuntime = 2, c"no quaver runtime is running: call quaver_start first";
    /// The runtime cannot be started.
    Start = 3, c"the quaver runtime cannot be started";
    /// No thread can be made.
    Exhausted = 4, c"no further thread can be made";
    /// The time is over.
    TimedOut = 5, c"the time is over";
    /// It is in use.
    Busy = 6, c"it is in use";
    /// The channel is closed.
    Closed = 7, c"the channel is closed";
    /// The runtime has been shut down.
    ShutDown = 8, c"the quaver runtime has been shut down";
    /// Called in a state in which it may not be called.
    State = 9, c"called in a state in which it may not be called";
}

/// A failure on its way out.
pub(crate) struct Failure(Status, Option<String>);

impl Failure {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Failure {
        Failure(status, Some(message.into()))
    }

    /// Keeps the message for the calling thread and returns the number.
    pub(crate) fn report(self) -> c_int {
        let message = self.1.and_then(|m| CString::new(m.replace('\0', "?")).ok());
        // Fails only while the thread's variables are being destroyed.
        let _ = LAST.try_with(|last| last.replace(Some((self.0, message))));
        self.0 as c_int
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure(status, None)
    }
}

thread_local! {
    static LAST: RefCell<Option<(Status, Option<CString>)>> = const { RefCell::new(None) };
}

/// See `quaver.h`.
#[unsafe(no_mangle)]
pub extern "C" fn quaver_strerror(status: c_int) -> *const c_char {
    Status::text(status).as_ptr()
}

/// See `quaver.h`.
#[unsafe(no_mangle)]
pub extern "C" fn quaver_last_message() -> *const c_char {
    LAST.try_with(|last| match &*last.borrow() {
        None => c"".as_ptr(),
        Some((_, Some(message))) => message.as_ptr(),
        Some((status, None)) => Status::text(*status as c_int).as_ptr(),
    })
    .unwrap_or(c"".as_ptr())
}
