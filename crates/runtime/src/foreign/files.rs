//! Waiting for files that belong to others.

use super::futex::Limits;
use crate::reactor;
use crate::thread::raw;

/// A file and what is wanted of it.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Its descriptor; negative: nothing is waited for here.
    pub fd: i32,
    /// Events of `poll`.
    pub events: i16,
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// One of the files may be ready, or may have been closed or replaced: look.
    Ready,
    /// The deadline came.
    TimedOut,
    /// Interrupted, see [`Limits::interrupted`].
    Interrupted,
    /// One of these files cannot be waited for here, or the caller is not a user thread: it must
    /// wait in the kernel.
    Impossible,
}

/// Waits, as a user thread, until one of the files is ready. A file that is ready already ends the
/// wait at once. May end early.
///
/// Nothing is left behind: the files may be closed by anybody at any time. Of a file that is closed
/// while a thread waits for it, nothing is heard any more.
pub fn wait(files: &[Wanted], limits: &Limits<'_>) -> End {
    if raw::current().is_none_or(|t| t.no_preempt.get() != 0) {
        return End::Impossible;
    }
    let wanted =
        |file: &Wanted| reactor::Wanted { fd: file.fd, events: u32::from(file.events as u16) };
    let ask = || limits.is_interrupted();
    match reactor::wait_foreign(files.iter().map(wanted), limits.ends_at(), &ask) {
        reactor::End::Ready => End::Ready,
        reactor::End::TimedOut => End::TimedOut,
        reactor::End::Interrupted => End::Interrupted,
        reactor::End::Impossible => End::Impossible,
    }
}
