//! Descriptors of this crate's beside the program's, which may count on having the smallest free
//! number, and close numbers that it does not know.

use rustix::io::{fcntl_dupfd_cloexec, write};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Programs choose no numbers from here on for their own.
const OUT_OF_THE_WAY: i32 = 512;

/// The same file under a number that programs do not use, if the process may have such numbers.
pub(crate) fn out_of_the_way(file: OwnedFd) -> OwnedFd {
    fcntl_dupfd_cloexec(&file, OUT_OF_THE_WAY).unwrap_or(file)
}

/// From now on the calling kernel thread has descriptors of its own, of which `kept` is the only
/// one so far: what it opens takes no number of the program's. `false`: the kernel cannot (before
/// Linux 5.9), and nothing has changed.
pub(crate) fn have_own(kept: Option<BorrowedFd<'_>>) -> bool {
    // The others are closed in the copy, or what the program closes would stay open.
    let kept = kept.map(|kept| kept.as_raw_fd() as u64);
    let up_to = kept.map_or(u64::from(u32::MAX), |kept| kept.wrapping_sub(1));
    let is_first = kept == Some(0);
    if !is_first && !close_range(0, up_to) {
        return false;
    }
    kept.is_none_or(|kept| close_range(kept + 1, u64::from(u32::MAX)))
}

/// Says something on the standard error of the process, which a thread with descriptors of its own
/// does not have. As far as that can be done.
pub(crate) fn complain(text: &str) {
    let own = pidfd_open(getpid(), PidfdFlags::empty());
    let stderr = own.and_then(|own| pidfd_getfd(own, 2, PidfdGetfdFlags::empty()));
    if let Ok(stderr) = stderr {
        let _ = write(stderr, format!("quaver-share: {text}\n").as_bytes());
    }
}

/// Closes these in a table of the calling thread's own, which is made if it has none.
fn close_range(first: u64, last: u64) -> bool {
    const UNSHARE: u64 = 1 << 1;
    // SAFETY: no memory is involved; who shares the table with this thread keeps it.
    let result =
        unsafe { quaver_rsb::syscall(libc::SYS_close_range, [first, last, UNSHARE, 0, 0, 0]) };
    result == 0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use rustix::io::{Errno, fcntl_getfd};
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn a_thread_has_files_of_its_own() {
        let [kept, other] = [(); 2].map(|()| File::open("/dev/null").expect("it is there"));
        let kept = out_of_the_way(kept.into());
        assert!(kept.as_raw_fd() >= OUT_OF_THE_WAY);
        let own = || {
            // SAFETY: only asked for.
            let is_open = |fd: i32| fcntl_getfd(unsafe { BorrowedFd::borrow_raw(fd) }).is_ok();
            assert!(have_own(Some(kept.as_fd())));
            assert!(is_open(kept.as_raw_fd()) && !is_open(other.as_raw_fd()));
            let opened = OwnedFd::from(File::open("/dev/null").expect("it is there"));
            assert_eq!(opened.as_raw_fd(), 0, "all numbers are free");
            assert!(have_own(None) && !is_open(kept.as_raw_fd()));
            // It has been closed.
            std::mem::forget(opened);
        };
        std::thread::scope(|s| s.spawn(own).join().expect("no panic"));
        for file in [kept.as_fd(), other.as_fd()] {
            assert_ne!(fcntl_getfd(file), Err(Errno::BADF), "others keep theirs");
        }
    }
}
