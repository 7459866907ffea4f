//! Waiting where [`crate::calls`] does not: in calls of kernel threads, and of user threads that
//! block in the kernel.

use super::served::failed;
use super::{kernel, table};
use crate::reactor::{self, FileWait, Wanted};
use crate::sys;
use crate::thread::raw;
use libc::{EAGAIN, EINTR, SYS_ppoll, pollfd};
use std::time::{Duration, Instant};

/// How often somebody looks who has nobody to tell it.
const NAP: Duration = Duration::from_millis(1);
/// How often a user thread that blocks in the kernel lets its caller look for signals.
const SLICE: Duration = Duration::from_millis(10);

/// How a call waits.
#[derive(Clone, Copy)]
pub(super) struct WaitManner {
    /// The caller makes it again when it says `EINTR`, and looks for signals in between.
    pub(super) interruptible: bool,
}

impl WaitManner {
    /// Waits until one of the files may be ready.
    pub(super) fn wait(self, files: &[Wanted], deadline: Option<Instant>) -> FileWait {
        let is_sliced = self.interruptible && raw::current().is_some();
        let slice = is_sliced.then(|| Instant::now() + SLICE);
        let until = match (slice, deadline) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        match reactor::wait_anywhere(files, until) {
            FileWait::TimedOut if deadline.is_none_or(|at| Instant::now() < at) => {
                FileWait::Interrupted
            }
            FileWait::Impossible => look_in_the_kernel(files, deadline),
            end => end,
        }
    }

    /// Makes a call, and again when `fd` is ready for `events`, unless calls on it do not wait.
    /// `option` says for how long.
    pub(super) fn until_ready(
        self,
        fd: i32,
        (events, option): (i16, i32),
        never: bool,
        mut call: impl FnMut() -> isize,
    ) -> isize {
        let mut deadline = None;
        loop {
            let result = call();
            if result != failed(EAGAIN) || never || sys::is_nonblocking(fd) {
                return result;
            }
            let deadline = *deadline.get_or_insert_with(|| {
                sys::timeout_of(fd, option).and_then(|time| Instant::now().checked_add(time))
            });
            match self.wait(&[Wanted::new(fd, events)], deadline) {
                FileWait::TimedOut => return result,
                FileWait::Interrupted if self.interruptible => return failed(EINTR),
                _ => {}
            }
        }
    }
}

/// Waits for a moment for files of the kernel's.
fn look_in_the_kernel(files: &[Wanted], deadline: Option<Instant>) -> FileWait {
    let left = deadline.map_or(NAP, |at| at.saturating_duration_since(Instant::now()));
    if left.is_zero() {
        return FileWait::TimedOut;
    }
    let kernels = files.iter().filter(|file| file.fd >= 0 && !table::is_socket(file.fd));
    let mut kernels: Vec<pollfd> =
        kernels.map(|file| pollfd { fd: file.fd, events: file.events, revents: 0 }).collect();
    let time = sys::timespec(left.min(NAP));
    let a = [kernels.as_mut_ptr() as usize, kernels.len(), &raw const time as usize, 0, 8, 0];
    // SAFETY: so many entries; the time lives across the call.
    unsafe { kernel(SYS_ppoll, a) };
    FileWait::Ready
}
