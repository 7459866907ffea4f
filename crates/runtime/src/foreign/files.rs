//! Waiting for files that belong to others.

use super::futex::Limits;
use crate::reactor;

pub use crate::reactor::{FileWait, Wanted};

/// Waits, as a user thread, until one of the files is ready. A file that is ready already ends the
/// wait at once. May end early.
///
/// Nothing is left behind: the files may be closed by anybody at any time. Of a file that is closed
/// while a thread waits for it, nothing is heard any more.
pub fn wait(files: &[Wanted], limits: &Limits<'_>) -> FileWait {
    reactor::wait_foreign(files, limits.ends_at(), || limits.is_interrupted())
}
