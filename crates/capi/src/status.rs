//! What went wrong: a number for programs, a sentence for people.

use core::ffi::{CStr, c_char, c_int};
use std::cell::RefCell;

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
    /// The token that the wait took was cancelled.
    Cancelled = 10, c"cancelled";
}

/// A failure on its way out.
pub(crate) struct Failure(Status, Option<String>);

impl Failure {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Failure {
        Failure(status, Some(message.into()))
    }

    /// Keeps the message for the calling thread and returns the number.
    pub(crate) fn report(self) -> c_int {
        let number = self.0 as c_int;
        let text = self.1.as_deref().map_or(Status::text(number).to_bytes(), str::as_bytes);
        // Fails only while the thread's variables are being destroyed.
        let _ = LAST.try_with(|last| last.borrow_mut().get_or_insert_default().set(text));
        number
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure(status, None)
    }
}

/// A thread's last message, always at the same place, so that C may keep the pointer.
struct Last(Box<[u8; Last::SIZE]>);

impl Default for Last {
    fn default() -> Last {
        Last(Box::new([0; Last::SIZE]))
    }
}

impl Last {
    /// A longer message is cut.
    const SIZE: usize = 1024;

    fn set(&mut self, text: &[u8]) {
        let mut n = text.len().min(Last::SIZE - 1);
        // Not within a character.
        while n < text.len() && text[n] & 0xc0 == 0x80 {
            n -= 1;
        }
        for (to, &from) in self.0.iter_mut().zip(&text[..n]) {
            *to = if from == 0 { b'?' } else { from };
        }
        self.0[n] = 0;
    }
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// See `quaver.h`.
#[unsafe(no_mangle)]
pub extern "C" fn quaver_strerror(status: c_int) -> *const c_char {
    Status::text(status).as_ptr()
}

/// See `quaver.h`.
#[unsafe(no_mangle)]
pub extern "C" fn quaver_last_message() -> *const c_char {
    LAST.try_with(|last| last.borrow_mut().get_or_insert_default().0.as_ptr().cast())
        .unwrap_or(c"".as_ptr())
}
