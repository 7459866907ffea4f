//! Files: reading, writing, synchronising, locking.

use super::{
    EAGAIN_, Restart, aliases, always, blocker, raw, rest, returned, try_then_wait, wait_for,
};
use crate::cancel;
use crate::interrupt::Call;
use crate::signal::{self, Section};
use crate::sys::{is_nonblocking, ready};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use libc::*;
use quaver::foreign::futex::Limits;
use quaver::foreign::{lock, thread};

const RWF_NOWAIT: usize = 8;

fn is_regular(fd: c_int) -> bool {
    // SAFETY: an all-zero stat, filled by the kernel.
    let mut st: stat = unsafe { core::mem::zeroed() };
    raw(SYS_fstat, [fd as usize, &raw mut st as usize, 0, 0, 0, 0]) == 0
        && st.st_mode & S_IFMT == S_IFREG
}

/// Descriptors that were regular files when they were last written to, on file systems that cannot
/// be asked not to wait. A guess, because a descriptor may have been closed by whatever means: it
/// saves asking, not looking.
static REGULAR: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

fn word_and_bit(fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    Some((REGULAR.get(usize::try_from(fd).ok()? / 64)?, 1 << (fd % 64)))
}

fn was_regular(fd: c_int) -> bool {
    word_and_bit(fd).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
}

fn remember_regular(fd: c_int) {
    if let Some((word, bit)) = word_and_bit(fd) {
        word.fetch_or(bit, Relaxed);
    }
}

/// One is held by whoever reads from a file's position, so that what it reads in two parts is one
/// piece, as it is in the kernel.
static POSITIONS: [AtomicU32; 64] = [const { AtomicU32::new(lock::FREE) }; 64];

/// Holds the position of a file, and runs no handlers, which may read, too.
struct Position(&'static AtomicU32, #[allow(dead_code, reason = "ends after the lock")] Section);

impl Position {
    fn hold(fd: c_int) -> Position {
        let (section, word) = (Section::enter(), &POSITIONS[fd as usize % POSITIONS.len()]);
        lock::lock(word, &Limits::NONE);
        Position(word, section)
    }
}

impl Drop for Position {
    fn drop(&mut self) {
        lock::unlock(self.0);
    }
}

/// Reads: at `offset`, or -1 for the file's position.
fn do_read(fd: c_int, vec: &[iovec], offset: i64, real: impl Fn() -> isize) -> isize {
    let wanted: usize = vec.iter().map(|v| v.iov_len).sum();
    let without_waiting = |vec: &[iovec], offset: i64, flags: usize| {
        raw(SYS_preadv2, [fd as usize, vec.as_ptr() as usize, vec.len(), offset as usize, 0, flags])
    };
    let first = || {
        let _position = (offset < 0).then(|| Position::hold(fd));
        match without_waiting(vec, offset, RWF_NOWAIT) {
            // Not in the page cache, or nothing there yet.
            EAGAIN_ if is_nonblocking(fd) && !is_regular(fd) => real(),
            r if r == -(EOPNOTSUPP as isize)
                || r == -(EINVAL as isize)
                || r == -(ESPIPE as isize) =>
            {
                if ready(fd, POLLIN) || is_nonblocking(fd) {
                    real()
                } else {
                    EAGAIN_
                }
            }
            // The part that is in the page cache; the program wants the rest as well.
            r if r > 0 && (r as usize) < wanted && is_regular(fd) => {
                let at = if offset < 0 { offset } else { offset + r as i64 };
                more(r, without_waiting(&rest(vec, r as usize), at, 0))
            }
            r => r,
        }
    };
    try_then_wait(Restart::Yes, first, |_| {
        let _position = (offset < 0 && is_regular(fd)).then(|| Position::hold(fd));
        real()
    })
}

/// Writes all of `vec` as a waiting `writev` would: what `without_waiting` does not take follows
/// from outside the workers. `now` makes the program's own call, for files that cannot be asked not
/// to wait.
pub(super) fn write_all(
    fd: c_int,
    vec: &[iovec],
    without_waiting: impl Fn(&[iovec]) -> isize,
    waiting: impl Fn(&[iovec]) -> isize,
) -> isize {
    let total: usize = vec.iter().map(|v| v.iov_len).sum();
    let Some(me) = blocker() else { return waiting(vec) };
    cancel::test();
    if was_regular(fd) && is_regular(fd) {
        return waiting(vec);
    }
    let first = without_waiting(vec);
    let unsupported = [EOPNOTSUPP, EINVAL, ESPIPE].iter().any(|e| first == -(*e as isize));
    if first == total as isize || first < 0 && first != EAGAIN_ && !unsupported {
        return first;
    }
    if is_regular(fd) {
        // Never waits for anybody.
        remember_regular(fd);
        return more(first.max(0), waiting(&rest(vec, first.max(0) as usize)));
    }
    if is_nonblocking(fd) {
        return if unsupported { waiting(vec) } else { first };
    }
    if signal::in_child_of_vfork() {
        return more(first.max(0), waiting(&rest(vec, first.max(0) as usize)));
    }
    let call = Call::begin(me, true);
    thread::try_yield();
    let mut done = first.max(0) as usize;
    let r = wait_for(&call, |_| {
        loop {
            match waiting(&rest(vec, done)) {
                // Interrupted by a signal of the runtime's after a part.
                r if r > 0 && done + (r as usize) < total && !call.is_broken() => {
                    done += r as usize
                }
                r => return r,
            }
        }
    });
    drop(call);
    cancel::test();
    more(done as isize, r)
}

/// A part that was written, and what came of the rest.
fn more(done: isize, r: isize) -> isize {
    if r >= 0 {
        done + r
    } else if done > 0 {
        done
    } else {
        r
    }
}

fn do_writev(fd: c_int, vec: &[iovec]) -> isize {
    let no_wait = |v: &[iovec]| {
        raw(SYS_pwritev2, [fd as usize, v.as_ptr() as usize, v.len(), usize::MAX, 0, RWF_NOWAIT])
    };
    let wait = |v: &[iovec]| raw(SYS_writev, [fd as usize, v.as_ptr() as usize, v.len(), 0, 0, 0]);
    write_all(fd, vec, no_wait, wait)
}

fn do_write(fd: c_int, buffer: *const c_void, n: usize) -> isize {
    do_writev(fd, &[iovec { iov_base: buffer.cast_mut(), iov_len: n }])
}

fn read_impl(fd: c_int, buffer: *mut c_void, n: usize) -> isize {
    let vec = [iovec { iov_base: buffer, iov_len: n }];
    returned(do_read(fd, &vec, -1, || raw(SYS_read, [fd as usize, buffer as usize, n, 0, 0, 0])))
}

fn pread_impl(fd: c_int, buffer: *mut c_void, n: usize, offset: off_t) -> isize {
    let real = || raw(SYS_pread64, [fd as usize, buffer as usize, n, offset as usize, 0, 0]);
    if offset < 0 {
        return returned(real());
    }
    let vec = [iovec { iov_base: buffer, iov_len: n }];
    returned(do_read(fd, &vec, offset, real))
}

fn fcntl_impl(fd: c_int, command: c_int, argument: usize) -> c_int {
    let a = [fd as usize, command as usize, argument, 0, 0, 0];
    match command {
        F_SETLKW | F_OFD_SETLKW => {
            let try_it = if command == F_SETLKW { F_SETLK } else { F_OFD_SETLK };
            let first = || match raw(SYS_fcntl, [fd as usize, try_it as usize, argument, 0, 0, 0]) {
                r if r == -(EACCES as isize) => EAGAIN_,
                r => r,
            };
            returned(try_then_wait(Restart::Yes, first, |_| raw(SYS_fcntl, a))) as c_int
        }
        // The C library's knows the old ways of asking for an owner.
        F_GETOWN => {
            // SAFETY: handed on.
            unsafe {
                crate::real::real!(fcntl64(fd => c_int, command => c_int, argument => usize)
                    -> c_int)
            }
        }
        _ => returned(raw(SYS_fcntl, a)) as c_int,
    }
}

aliases! {
    /// See `read(2)`.
    fn read(fd: c_int, buffer: *mut c_void, n: usize) -> isize = read_impl(fd, buffer, n);
    /// `read` as called by libraries.
    fn __read(fd: c_int, buffer: *mut c_void, n: usize) -> isize = read_impl(fd, buffer, n);
    /// `read` of code that checks the sizes of its buffers.
    fn __read_chk(fd: c_int, buffer: *mut c_void, n: usize, size: usize) -> isize = {
        if n > size {
            crate::say::fatal(format_args!("buffer overflow detected in read"));
        }
        read_impl(fd, buffer, n)
    };
    /// See `pread(2)`.
    fn pread(fd: c_int, buffer: *mut c_void, n: usize, offset: off_t) -> isize =
        pread_impl(fd, buffer, n, offset);
    /// See `pread(2)`.
    fn pread64(fd: c_int, buffer: *mut c_void, n: usize, offset: off_t) -> isize =
        pread_impl(fd, buffer, n, offset);
    /// See `readv(2)`.
    fn readv(fd: c_int, vec: *const iovec, n: c_int) -> isize = {
        let real = || raw(SYS_readv, [fd as usize, vec as usize, n as usize, 0, 0, 0]);
        match usize::try_from(n) {
            Ok(len) if len <= 1024 => {
                // SAFETY: the caller's contract.
                returned(do_read(fd, unsafe { core::slice::from_raw_parts(vec, len) }, -1, real))
            }
            _ => returned(real()),
        }
    };
    /// See `write(2)`.
    fn write(fd: c_int, buffer: *const c_void, n: usize) -> isize =
        returned(do_write(fd, buffer, n));
    /// `write` as called by libraries.
    fn __write(fd: c_int, buffer: *const c_void, n: usize) -> isize =
        returned(do_write(fd, buffer, n));
    /// See `writev(2)`.
    fn writev(fd: c_int, vec: *const iovec, n: c_int) -> isize = match usize::try_from(n) {
        Ok(len) if len <= 1024 => {
            // SAFETY: the caller's contract.
            returned(do_writev(fd, unsafe { core::slice::from_raw_parts(vec, len) }))
        }
        _ => returned(raw(SYS_writev, [fd as usize, vec as usize, n as usize, 0, 0, 0])),
    };
    /// See `fsync(2)`.
    fn fsync(fd: c_int) -> c_int = always(Restart::Yes, SYS_fsync, [fd as usize, 0, 0, 0, 0, 0]);
    /// See `fdatasync(2)`.
    fn fdatasync(fd: c_int) -> c_int =
        always(Restart::Yes, SYS_fdatasync, [fd as usize, 0, 0, 0, 0, 0]);
    /// See `msync(2)`.
    fn msync(at: *mut c_void, n: usize, flags: c_int) -> c_int =
        always(Restart::Yes, SYS_msync, [at as usize, n, flags as usize, 0, 0, 0]);
    /// See `flock(2)`.
    fn flock(fd: c_int, operation: c_int) -> c_int = {
        let first = || match raw(SYS_flock,
            [fd as usize, (operation | LOCK_NB) as usize, 0, 0, 0, 0]) {
            r if r == EAGAIN_ && operation & LOCK_NB != 0 => -(EWOULDBLOCK as isize),
            r => r,
        };
        let again = || raw(SYS_flock, [fd as usize, operation as usize, 0, 0, 0, 0]);
        if operation & LOCK_NB != 0 {
            returned(again()) as c_int
        } else {
            returned(try_then_wait(Restart::Yes, first, |_| again())) as c_int
        }
    };
    /// See `fcntl(2)`.
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int =
        fcntl_impl(fd, command, argument);
    /// See `fcntl(2)`.
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int =
        fcntl_impl(fd, command, argument);
}
