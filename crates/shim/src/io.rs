//! Calls that may block in the kernel.
//!
//! # How
//!
//! A call is first tried in a form that does not wait (`RWF_NOWAIT`, `MSG_DONTWAIT`, a timeout of 0). If it would have to
//! wait, other threads of the worker get a chance first, for they may be the ones that are waited for. Then the worker is
//! given to a spare kernel thread and the program's own call is made outside the workers (*hand-over*): a helper
//! pool whose helper is the kernel thread that runs the user thread already.
//!
//! Why not io_uring: a hand-over keeps the exact meaning of every call (signals, timeouts, partial transfers, `close` and `dup`
//! from other threads, file locks, terminals), serves calls for which there is no operation (`wait`, `flock`, `system`) in the same
//! way, and works where io_uring is forbidden (most containers). The price is a kernel thread for each blocked thread, as
//! before the program came here, and two wake-ups of kernel threads where a worker that waits for a ring has one:
//! `scripts/blocking_cost.sh` measures it, `docs/shim.md` has the numbers.
//!
//! # Interruption
//!
//! The preemption signal may hit a kernel thread that has just given its worker away: a call that returns `EINTR` although no
//! handler of the program has run on the thread is made again, with what is left of its timeout.

use crate::cancel;
use crate::interrupt::Call;
use crate::state::{self, Thread};
use crate::sys::{self, call, nonblocking, ready, returned};
use crate::time;
use core::ffi::{c_char, c_int, c_long, c_short, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering::*};
use libc::*;
use quaver::foreign::{blocking, region, thread};

const EAGAIN_: isize = -(EAGAIN as isize);
const EINTR_: isize = -(EINTR as isize);
const RWF_NOWAIT: usize = 8;

/// The calling thread, if it may give its worker away.
#[inline]
fn blocker() -> Option<&'static Thread> {
    state::me().filter(|_| thread::current().is_some() && !region::in_runtime())
}

/// Runs `f`, which blocks in the kernel and is no cancellation point, outside the workers.
pub(crate) fn off_worker<T>(f: impl FnOnce() -> T) -> T {
    if blocker().is_none() {
        return f();
    }
    blocking::begin();
    let result = f();
    let errno = errno();
    blocking::end();
    sys::set_errno(errno);
    result
}

fn errno() -> c_int {
    // SAFETY: the calling thread's own.
    unsafe { *__errno_location() }
}

/// Makes a call outside the workers until it says something else than that a signal of the runtime's came. `make` is told
/// whether it is repeated.
fn wait_for(call: &Call, mut make: impl FnMut(bool) -> isize) -> isize {
    let me = call.thread();
    blocking::begin();
    me.blocked_in.store(sys::kernel_tid(), SeqCst);
    let mut again = false;
    let result = loop {
        // A request that came before `blocked_in` was set; one that comes later kicks.
        if me.is_cancelled() {
            break EINTR_;
        }
        crate::signal::deliver_pending(me);
        let result = if call.is_broken() { EINTR_ } else { make(again) };
        if result != EINTR_ || call.is_broken() {
            break result;
        }
        again = true;
    };
    me.blocked_in.store(0, SeqCst);
    blocking::end();
    result
}

/// A call that may wait: `first` tries without waiting and says `EAGAIN` if it would, `real` is the program's call.
fn try_then_wait(first: impl Fn() -> isize, real: impl FnMut(bool) -> isize) -> isize {
    let mut real = real;
    let Some(me) = blocker() else { return real(false) };
    cancel::test();
    let call = Call::begin(me);
    // Even what does not wait says EINTR when the runtime's signal comes with it.
    let first = || loop {
        let result = first();
        if result != EINTR_ || call.is_broken() {
            return result;
        }
    };
    let mut result = first();
    if result == EAGAIN_ && thread::try_yield() {
        result = first();
    }
    if result == EAGAIN_ {
        result = wait_for(&call, real);
        drop(call);
        cancel::test();
    }
    result
}

fn raw(number: c_long, a: [usize; 6]) -> isize {
    // SAFETY: the program's own arguments.
    unsafe { call(number, a) }
}

/// A call on `fd` that can only be made in its waiting form: made at once if `fd` is ready for `events` or does not wait.
fn when_ready(fd: c_int, events: c_short, number: c_long, a: [usize; 6]) -> isize {
    let first = || {
        if ready(fd, events) || nonblocking(fd) { raw(number, a) } else { EAGAIN_ }
    };
    // A call that says EAGAIN by itself does not wait when it is repeated.
    returned(try_then_wait(first, |_| raw(number, a)))
}

fn is_regular(fd: c_int) -> bool {
    // SAFETY: an all-zero stat, filled by the kernel.
    let mut st: stat = unsafe { core::mem::zeroed() };
    raw(SYS_fstat, [fd as usize, &raw mut st as usize, 0, 0, 0, 0]) == 0
        && st.st_mode & S_IFMT == S_IFREG
}

/// Descriptors that were regular files when they were last written to, on file systems that cannot be asked not to wait. A guess, because a
/// descriptor may have been closed by whatever means: it saves asking, not looking.
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

/// Reads: at `offset`, or -1 for the file's position.
fn do_read(fd: c_int, vec: &[iovec], offset: i64, real: impl Fn() -> isize) -> isize {
    let wanted: usize = vec.iter().map(|v| v.iov_len).sum();
    let first = || {
        let a = [fd as usize, vec.as_ptr() as usize, vec.len(), offset as usize, 0, RWF_NOWAIT];
        match raw(SYS_preadv2, a) {
            // Not in the page cache, or nothing there yet.
            EAGAIN_ if nonblocking(fd) && !is_regular(fd) => real(),
            r if r == -(EOPNOTSUPP as isize)
                || r == -(EINVAL as isize)
                || r == -(ESPIPE as isize) =>
            {
                if ready(fd, POLLIN) || nonblocking(fd) {
                    real()
                } else {
                    EAGAIN_
                }
            }
            // The part that is in the page cache; the program wants the rest as well.
            r if r > 0 && (r as usize) < wanted && is_regular(fd) => {
                if offset < 0 {
                    raw(SYS_lseek, [fd as usize, (-r) as usize, SEEK_CUR as usize, 0, 0, 0]);
                }
                real()
            }
            r => r,
        }
    };
    try_then_wait(first, |_| real())
}

/// Writes all of `vec` as a waiting `writev` would: what `without_waiting` does not take follows from outside the workers.
/// `now` makes the program's own call, for files that cannot be asked not to wait.
fn write_all(
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
    if nonblocking(fd) {
        return if unsupported { waiting(vec) } else { first };
    }
    let call = Call::begin(me);
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

/// `vec` without its first `done` bytes.
fn rest(vec: &[iovec], mut done: usize) -> Vec<iovec> {
    let mut left = Vec::with_capacity(vec.len());
    for v in vec {
        let skip = done.min(v.iov_len);
        done -= skip;
        if skip < v.iov_len {
            let base = v.iov_base.cast::<u8>().wrapping_add(skip).cast();
            left.push(iovec { iov_base: base, iov_len: v.iov_len - skip });
        }
    }
    left
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

/// Sends a message whose address and control data go with its first part.
fn sendmsg_impl(fd: c_int, message: &msghdr, flags: c_int) -> isize {
    // SAFETY: the caller's contract.
    let vec = unsafe { core::slice::from_raw_parts(message.msg_iov, message.msg_iovlen) };
    if flags & MSG_DONTWAIT != 0 {
        return raw(
            SYS_sendmsg,
            [fd as usize, ptr::from_ref(message) as usize, flags as usize, 0, 0, 0],
        );
    }
    let send = |v: &[iovec], flags: c_int| {
        let mut m = *message;
        m.msg_iov = v.as_ptr().cast_mut();
        m.msg_iovlen = v.len();
        if !ptr::eq(v.as_ptr(), vec.as_ptr())
            && v.iter().map(|v| v.iov_len).sum::<usize>() < vec.iter().map(|v| v.iov_len).sum()
        {
            m.msg_control = ptr::null_mut();
            m.msg_controllen = 0;
        }
        raw(SYS_sendmsg, [fd as usize, &raw const m as usize, flags as usize, 0, 0, 0])
    };
    write_all(fd, vec, |v| send(v, flags | MSG_DONTWAIT), |v| send(v, flags))
}

macro_rules! aliases {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty = $body:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// As in the manual.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> $ret { $body }
    )*};
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

fn recv_impl(number: c_long, a: [usize; 6], flags_at: usize) -> isize {
    let mut without_waiting = a;
    without_waiting[flags_at] |= MSG_DONTWAIT as usize;
    let fd = a[0] as c_int;
    let all = a[flags_at] as c_int & MSG_WAITALL != 0;
    let first = || {
        // MSG_WAITALL: a part is not enough.
        if all && !nonblocking(fd) {
            return EAGAIN_;
        }
        match raw(number, without_waiting) {
            EAGAIN_ if nonblocking(fd) || a[flags_at] as c_int & MSG_DONTWAIT != 0 => {
                raw(number, a)
            }
            r => r,
        }
    };
    returned(try_then_wait(first, |_| raw(number, a)))
}

/// Sends, one buffer: the rest after a partial transfer too.
fn send_impl(
    fd: c_int,
    buffer: *const c_void,
    n: usize,
    flags: c_int,
    to: *const sockaddr,
    len: socklen_t,
) -> isize {
    let arguments = |done: usize, flags: c_int| {
        [fd as usize, buffer as usize + done, n - done, flags as usize, to as usize, len as usize]
    };
    let Some(me) = blocker() else { return returned(raw(SYS_sendto, arguments(0, flags))) };
    cancel::test();
    let first = raw(SYS_sendto, arguments(0, flags | MSG_DONTWAIT));
    if first == n as isize
        || first < 0 && first != EAGAIN_
        || flags & MSG_DONTWAIT != 0
        || nonblocking(fd)
    {
        return returned(first);
    }
    let done = first.max(0) as usize;
    let call = Call::begin(me);
    let r = wait_for(&call, |_| raw(SYS_sendto, arguments(done, flags)));
    drop(call);
    cancel::test();
    returned(if r >= 0 {
        r + done as isize
    } else if done > 0 {
        done as isize
    } else {
        r
    })
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
    fn pread(fd: c_int, buffer: *mut c_void, n: usize, offset: off_t) -> isize = pread_impl(fd, buffer, n, offset);
    /// See `pread(2)`.
    fn pread64(fd: c_int, buffer: *mut c_void, n: usize, offset: off_t) -> isize = pread_impl(fd, buffer, n, offset);
    /// See `readv(2)`.
    fn readv(fd: c_int, vec: *const iovec, n: c_int) -> isize = {
        let real = || raw(SYS_readv, [fd as usize, vec as usize, n as usize, 0, 0, 0]);
        match usize::try_from(n) {
            // SAFETY: the caller's contract.
            Ok(len) if len <= 1024 => returned(do_read(fd, unsafe { core::slice::from_raw_parts(vec, len) }, -1, real)),
            _ => returned(real()),
        }
    };
    /// See `write(2)`.
    fn write(fd: c_int, buffer: *const c_void, n: usize) -> isize = returned(do_write(fd, buffer, n));
    /// `write` as called by libraries.
    fn __write(fd: c_int, buffer: *const c_void, n: usize) -> isize = returned(do_write(fd, buffer, n));
    /// See `writev(2)`.
    fn writev(fd: c_int, vec: *const iovec, n: c_int) -> isize = match usize::try_from(n) {
        // SAFETY: the caller's contract.
        Ok(len) if len <= 1024 => returned(do_writev(fd, unsafe { core::slice::from_raw_parts(vec, len) })),
        _ => returned(raw(SYS_writev, [fd as usize, vec as usize, n as usize, 0, 0, 0])),
    };
    /// See `recv(2)`.
    fn recv(fd: c_int, buffer: *mut c_void, n: usize, flags: c_int) -> isize =
        recv_impl(SYS_recvfrom, [fd as usize, buffer as usize, n, flags as usize, 0, 0], 3);
    /// See `recvfrom(2)`.
    fn recvfrom(fd: c_int, buffer: *mut c_void, n: usize, flags: c_int, from: *mut sockaddr, len: *mut socklen_t)
        -> isize = recv_impl(SYS_recvfrom, [fd as usize, buffer as usize, n, flags as usize, from as usize, len as usize], 3);
    /// See `recvmsg(2)`.
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> isize =
        recv_impl(SYS_recvmsg, [fd as usize, message as usize, flags as usize, 0, 0, 0], 2);
    /// See `send(2)`.
    fn send(fd: c_int, buffer: *const c_void, n: usize, flags: c_int) -> isize =
        send_impl(fd, buffer, n, flags, ptr::null(), 0);
    /// See `sendto(2)`.
    fn sendto(fd: c_int, buffer: *const c_void, n: usize, flags: c_int, to: *const sockaddr, len: socklen_t)
        -> isize = send_impl(fd, buffer, n, flags, to, len);
    /// See `sendmsg(2)`.
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> isize =
        // SAFETY: the caller's contract.
        returned(sendmsg_impl(fd, unsafe { &*message }, flags));
    /// See `accept(2)`.
    fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int =
        when_ready(fd, POLLIN, SYS_accept, [fd as usize, address as usize, len as usize, 0, 0, 0]) as c_int;
    /// See `accept4(2)`.
    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int =
        when_ready(fd, POLLIN, SYS_accept4, [fd as usize, address as usize, len as usize, flags as usize, 0, 0]) as c_int;
    /// See `connect(2)`.
    fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int = {
        let a = [fd as usize, address as usize, len as usize, 0, 0, 0];
        let first = || if nonblocking(fd) { raw(SYS_connect, a) } else { EAGAIN_ };
        returned(try_then_wait(first, |_| raw(SYS_connect, a))) as c_int
    };
    /// See `poll(2)`.
    fn poll(fds: *mut pollfd, n: nfds_t, timeout: c_int) -> c_int = poll_impl(fds, n, timeout);
    /// `poll` of code that checks the sizes of its buffers.
    fn __poll_chk(fds: *mut pollfd, n: nfds_t, timeout: c_int, _size: usize) -> c_int = poll_impl(fds, n, timeout);
    /// See `ppoll(2)`.
    fn ppoll(fds: *mut pollfd, n: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int = {
        let span = timed(timeout);
        timed_call(span, |t| raw(SYS_ppoll, [fds as usize, n as usize, pointer(t), mask as usize, 8, 0])) as c_int
    };
    /// See `select(2)`.
    fn select(n: c_int, r: *mut fd_set, w: *mut fd_set, e: *mut fd_set, timeout: *mut timeval) -> c_int = {
        // SAFETY: the caller's contract.
        let span = unsafe { timeout.as_ref() }.map(|t| i128::from(t.tv_sec) * 1_000_000_000 + i128::from(t.tv_usec) * 1000);
        let sets = Sets::save([r, w, e], n);
        let began = time::now(CLOCK_MONOTONIC);
        let result = timed_call(span, |t| {
            sets.restore();
            raw(SYS_pselect6, [n as usize, r as usize, w as usize, e as usize, pointer(t), 0])
        });
        if let Some(span) = span {
            // Linux says what is left.
            let left = (span - (time::now(CLOCK_MONOTONIC) - began)).max(0);
            // SAFETY: not null.
            unsafe { timeout.write(timeval { tv_sec: (left / 1_000_000_000) as i64, tv_usec: (left % 1_000_000_000 / 1000) as i64 }) };
        }
        result as c_int
    };
    /// See `pselect(2)`.
    fn pselect(n: c_int, r: *mut fd_set, w: *mut fd_set, e: *mut fd_set, timeout: *const timespec, mask: *const sigset_t)
        -> c_int = {
        let (span, sets) = (timed(timeout), Sets::save([r, w, e], n));
        let mask = [mask as usize, 8];
        timed_call(span, |t| {
            sets.restore();
            raw(SYS_pselect6, [n as usize, r as usize, w as usize, e as usize, pointer(t), &raw const mask as usize])
        }) as c_int
    };
    /// See `epoll_wait(2)`.
    fn epoll_wait(fd: c_int, events: *mut epoll_event, n: c_int, timeout: c_int) -> c_int =
        epoll_impl(fd, events, n, timeout, ptr::null());
    /// See `epoll_pwait(2)`.
    fn epoll_pwait(fd: c_int, events: *mut epoll_event, n: c_int, timeout: c_int, mask: *const sigset_t) -> c_int =
        epoll_impl(fd, events, n, timeout, mask);
    /// See `epoll_pwait2(2)`.
    fn epoll_pwait2(fd: c_int, events: *mut epoll_event, n: c_int, timeout: *const timespec, mask: *const sigset_t)
        -> c_int = timed_call(timed(timeout), |t| {
            raw(SYS_epoll_pwait2, [fd as usize, events as usize, n as usize, pointer(t), mask as usize, 8])
        }) as c_int;
    /// See `fsync(2)`.
    fn fsync(fd: c_int) -> c_int = always(SYS_fsync, [fd as usize, 0, 0, 0, 0, 0]);
    /// See `fdatasync(2)`.
    fn fdatasync(fd: c_int) -> c_int = always(SYS_fdatasync, [fd as usize, 0, 0, 0, 0, 0]);
    /// See `msync(2)`.
    fn msync(at: *mut c_void, n: usize, flags: c_int) -> c_int =
        always(SYS_msync, [at as usize, n, flags as usize, 0, 0, 0]);
    /// See `flock(2)`.
    fn flock(fd: c_int, operation: c_int) -> c_int = {
        let first = || match raw(SYS_flock, [fd as usize, (operation | LOCK_NB) as usize, 0, 0, 0, 0]) {
            r if r == EAGAIN_ && operation & LOCK_NB != 0 => -(EWOULDBLOCK as isize),
            r => r,
        };
        let again = || raw(SYS_flock, [fd as usize, operation as usize, 0, 0, 0, 0]);
        if operation & LOCK_NB != 0 {
            returned(again()) as c_int
        } else {
            returned(try_then_wait(first, |_| again())) as c_int
        }
    };
    /// See `fcntl(2)`.
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int = fcntl_impl(fd, command, argument);
    /// See `fcntl(2)`.
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int = fcntl_impl(fd, command, argument);
    /// See `wait(2)`.
    fn wait(status: *mut c_int) -> pid_t = wait_impl(-1, status, 0, ptr::null_mut());
    /// See `waitpid(2)`.
    fn waitpid(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t = wait_impl(pid, status, options, ptr::null_mut());
    /// See `wait3(2)`.
    fn wait3(status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t = wait_impl(-1, status, options, usage);
    /// See `wait4(2)`.
    fn wait4(pid: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t =
        wait_impl(pid, status, options, usage);
    /// See `waitid(2)`.
    fn waitid(kind: idtype_t, id: id_t, info: *mut siginfo_t, options: c_int) -> c_int = {
        let a = [kind as usize, id as usize, info as usize, options as usize, 0, 0];
        if options & WNOHANG != 0 { returned(raw(SYS_waitid, a)) as c_int } else { always(SYS_waitid, a) }
    };
    /// See `pause(2)`.
    fn pause() -> c_int = always(SYS_pause, [0; 6]);
    /// See `msgrcv(2)`.
    fn msgrcv(id: c_int, message: *mut c_void, n: usize, kind: c_long, flags: c_int) -> isize =
        always(SYS_msgrcv, [id as usize, message as usize, n, kind as usize, flags as usize, 0]) as isize;
    /// See `msgsnd(2)`.
    fn msgsnd(id: c_int, message: *const c_void, n: usize, flags: c_int) -> c_int =
        always(SYS_msgsnd, [id as usize, message as usize, n, flags as usize, 0, 0]);
    /// See `semop(2)`.
    fn semop(id: c_int, operations: *mut c_void, n: usize) -> c_int =
        always(SYS_semop, [id as usize, operations as usize, n, 0, 0, 0]);
    /// See `system(3)`.
    fn system(command: *const c_char) -> c_int =
        // SAFETY: handed on.
        off_worker(|| unsafe { crate::real::real!(system(command => *const c_char) -> c_int) });
    /// See `pclose(3)`.
    fn pclose(stream: *mut FILE) -> c_int =
        // SAFETY: handed on.
        off_worker(|| unsafe { crate::real::real!(pclose(stream => *mut FILE) -> c_int) });
    /// See `getaddrinfo(3)`.
    fn getaddrinfo(node: *const c_char, service: *const c_char, hints: *const addrinfo, result: *mut *mut addrinfo)
        -> c_int = off_worker(|| {
            // SAFETY: handed on.
            unsafe {
                crate::real::real!(getaddrinfo(node => *const c_char, service => *const c_char,
                    hints => *const addrinfo, result => *mut *mut addrinfo) -> c_int)
            }
        });
}

/// A call that is worth a hand-over whenever it is made.
fn always(number: c_long, a: [usize; 6]) -> c_int {
    returned(try_then_wait(|| EAGAIN_, |_| raw(number, a))) as c_int
}

fn wait_impl(pid: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
    let a =
        |options: c_int| [pid as usize, status as usize, options as usize, usage as usize, 0, 0];
    if options & WNOHANG != 0 {
        return returned(raw(SYS_wait4, a(options))) as pid_t;
    }
    let first = || match raw(SYS_wait4, a(options | WNOHANG)) {
        0 => EAGAIN_,
        r => r,
    };
    returned(try_then_wait(first, |_| raw(SYS_wait4, a(options)))) as pid_t
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
            returned(try_then_wait(first, |_| raw(SYS_fcntl, a))) as c_int
        }
        // The C library's knows the old ways of asking for an owner.
        F_GETOWN => {
            // SAFETY: handed on.
            unsafe {
                crate::real::real!(fcntl64(fd => c_int, command => c_int, argument => usize) -> c_int)
            }
        }
        _ => returned(raw(SYS_fcntl, a)) as c_int,
    }
}

fn timed(t: *const timespec) -> Option<i128> {
    // SAFETY: the caller's contract: null or valid.
    unsafe { t.as_ref() }.map(|t| i128::from(t.tv_sec) * 1_000_000_000 + i128::from(t.tv_nsec))
}

fn pointer(t: &Option<timespec>) -> usize {
    t.as_ref().map_or(0, |t| ptr::from_ref(t) as usize)
}

/// A call with a timeout in nanoseconds (`None`: for ever), which is 0 for the first try and shrinks when it is repeated.
fn timed_call(span: Option<i128>, make: impl Fn(&Option<timespec>) -> isize) -> isize {
    let spec = |n: i128| {
        Some(timespec { tv_sec: (n / 1_000_000_000) as i64, tv_nsec: (n % 1_000_000_000) as i64 })
    };
    let end = span.map(|span| time::now(CLOCK_MONOTONIC) + span);
    let first = || match make(&spec(0)) {
        0 if span != Some(0) => EAGAIN_,
        r => r,
    };
    let real = |again: bool| match (span, end) {
        (Some(span), _) if !again => {
            make(&if span < 0 { Some(timespec { tv_sec: -1, tv_nsec: 0 }) } else { spec(span) })
        }
        (Some(_), Some(end)) => make(&spec((end - time::now(CLOCK_MONOTONIC)).max(0))),
        _ => make(&None),
    };
    returned(try_then_wait(first, real))
}

fn poll_impl(fds: *mut pollfd, n: nfds_t, timeout: c_int) -> c_int {
    let span = (timeout >= 0).then_some(i128::from(timeout) * 1_000_000);
    timed_call(span, |t| raw(SYS_ppoll, [fds as usize, n as usize, pointer(t), 0, 8, 0])) as c_int
}

fn epoll_impl(
    fd: c_int,
    events: *mut epoll_event,
    n: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    let end = (timeout > 0).then(|| time::now(CLOCK_MONOTONIC) + i128::from(timeout) * 1_000_000);
    let make = |ms: c_int| {
        raw(
            SYS_epoll_pwait,
            [fd as usize, events as usize, n as usize, ms as usize, mask as usize, 8],
        )
    };
    let first = || match make(0) {
        0 if timeout != 0 => EAGAIN_,
        r => r,
    };
    let real = |again: bool| match end {
        Some(end) if again => {
            let left = (end - time::now(CLOCK_MONOTONIC)).max(0);
            make((left / 1_000_000) as c_int + c_int::from(left % 1_000_000 != 0))
        }
        _ => make(timeout),
    };
    returned(try_then_wait(first, real)) as c_int
}

/// Sets of `select`, which every try overwrites.
struct Sets {
    at: [*mut fd_set; 3],
    saved: [fd_set; 3],
    bytes: usize,
}

impl Sets {
    fn save(at: [*mut fd_set; 3], n: c_int) -> Sets {
        let bytes = (n.clamp(0, FD_SETSIZE as c_int) as usize).div_ceil(64) * 8;
        // SAFETY: all-zero sets; those of the program have room for `n` bits.
        let mut saved: [fd_set; 3] = unsafe { core::mem::zeroed() };
        for (from, to) in at.iter().zip(&mut saved) {
            if !from.is_null() {
                // SAFETY: as above.
                unsafe {
                    ptr::copy_nonoverlapping(from.cast::<u8>(), ptr::from_mut(to).cast(), bytes)
                };
            }
        }
        Sets { at, saved, bytes }
    }

    fn restore(&self) {
        for (to, from) in self.at.iter().zip(&self.saved) {
            if !to.is_null() {
                // SAFETY: as above.
                unsafe {
                    ptr::copy_nonoverlapping(
                        ptr::from_ref(from).cast::<u8>(),
                        to.cast(),
                        self.bytes,
                    )
                };
            }
        }
    }
}
