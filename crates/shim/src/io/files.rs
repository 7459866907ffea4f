//! Files: reading, writing, synchronising, locking.

use super::{EAGAIN_, Restart, Shim, aliases, always, blocker, raw, rest, returned, try_then_wait};
use crate::cancel;
use crate::signal::Section;
use crate::sys::{is_nonblocking, ready};
use core::ffi::{c_int, c_long, c_void};
use core::sync::atomic::AtomicU32;
use libc::*;
use quaver::foreign::futex::Limits;
use quaver::foreign::{calls, lock};

const RWF_NOWAIT: usize = 8;

fn is_regular(fd: c_int) -> bool {
    // SAFETY: an all-zero stat, filled by the kernel.
    let mut st: stat = unsafe { core::mem::zeroed() };
    raw(SYS_fstat, [fd as usize, &raw mut st as usize, 0, 0, 0, 0]) == 0
        && st.st_mode & S_IFMT == S_IFREG
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

/// Reads from a file that waits for nobody: at `offset`, or -1 for the file's position.
fn read_plain(fd: c_int, vec: &[iovec], offset: i64, real: impl Fn() -> isize) -> isize {
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
                match without_waiting(&rest(vec, r as usize), at, 0) {
                    more if more >= 0 => r + more,
                    _ => r,
                }
            }
            r => r,
        }
    };
    try_then_wait(Restart::Yes, first, |_| {
        let _position = (offset < 0 && is_regular(fd)).then(|| Position::hold(fd));
        real()
    })
}

/// `read` or `readv`, as `number` says.
///
/// # Safety
///
/// As for these; `vec` is what is to be filled.
unsafe fn read_from(number: c_long, a: Arguments, vec: (*const iovec, usize)) -> isize {
    // SAFETY: the caller's contract.
    unsafe {
        returned(match calls::read(Shim, number, a, vec) {
            Some(result) => result,
            None if vec.1 > 1024 => raw(number, a),
            None => {
                let vec = core::slice::from_raw_parts(vec.0, vec.1);
                read_plain(a[0] as c_int, vec, -1, || raw(number, a))
            }
        })
    }
}

/// `write` or `writev`, as `number` says.
///
/// # Safety
///
/// As for these; `vec` is what is to be written.
unsafe fn write_to(number: c_long, a: Arguments, vec: (*const iovec, usize)) -> isize {
    // SAFETY: the caller's contract.
    returned(match unsafe { calls::write(Shim, number, a, vec) } {
        Some(result) => result,
        None => {
            if blocker().is_some() {
                cancel::test();
            }
            raw(number, a)
        }
    })
}

type Arguments = [usize; 6];

fn arguments(fd: c_int, buffer: *const c_void, n: usize) -> Arguments {
    [fd as usize, buffer as usize, n, 0, 0, 0]
}

fn read_impl(fd: c_int, buffer: *mut c_void, n: usize) -> isize {
    let vec = iovec { iov_base: buffer, iov_len: n };
    // SAFETY: the program's own arguments.
    unsafe { read_from(SYS_read, arguments(fd, buffer, n), (&vec, 1)) }
}

fn write_impl(fd: c_int, buffer: *const c_void, n: usize) -> isize {
    let vec = iovec { iov_base: buffer.cast_mut(), iov_len: n };
    // SAFETY: the program's own arguments.
    unsafe { write_to(SYS_write, arguments(fd, buffer, n), (&vec, 1)) }
}

fn pread_impl(fd: c_int, buffer: *mut c_void, n: usize, offset: off_t) -> isize {
    let real = || raw(SYS_pread64, [fd as usize, buffer as usize, n, offset as usize, 0, 0]);
    if offset < 0 {
        return returned(real());
    }
    let vec = [iovec { iov_base: buffer, iov_len: n }];
    returned(read_plain(fd, &vec, offset, real))
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
        _ => super::descriptors::set(SYS_fcntl, a),
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
    fn readv(fd: c_int, vec: *const iovec, n: c_int) -> isize =
        // SAFETY: the caller's contract.
        unsafe { read_from(SYS_readv, arguments(fd, vec.cast(), n as usize), (vec, n as usize)) };
    /// See `write(2)`.
    fn write(fd: c_int, buffer: *const c_void, n: usize) -> isize = write_impl(fd, buffer, n);
    /// `write` as called by libraries.
    fn __write(fd: c_int, buffer: *const c_void, n: usize) -> isize = write_impl(fd, buffer, n);
    /// See `writev(2)`.
    fn writev(fd: c_int, vec: *const iovec, n: c_int) -> isize =
        // SAFETY: the caller's contract.
        unsafe { write_to(SYS_writev, arguments(fd, vec.cast(), n as usize), (vec, n as usize)) };
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
