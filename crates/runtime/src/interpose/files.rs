//! Calls on files that may wait, as user threads: `std::net`, pipes, `std::io::stdin`, and the
//! epoll files of executors such as tokio's.
//!
//! A call that does not have to wait is one system call, as in libc. One that does parks the user
//! thread ([`calls`]). On kernel threads, in handlers that have interrupted the runtime, and in
//! `block_in_place`, these are libc's own functions. `close` and its relatives are among them for
//! the sake of those who wait.
//!
//! The symbols are weak: `quaver-shim` has definitions of its own.

use super::futex::fail;
use crate::calls::descriptors::{self, Made};
use crate::calls::{self, Epoll, Plain, Span, can_park};
use crate::overlay;
use crate::thread::raw;
use core::arch::global_asm;
use core::ffi::{c_int, c_uint, c_ulong, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::*};
use libc::*;

type Words = [usize; 6];

/// Defines functions with weak symbols. Each says what the kernel's call is, whose calls are not
/// left to libc, and what they do with the arguments: a result of the kernel's, or none if libc's
/// function will do after all.
macro_rules! weak {
    ($(
        $name:ident($($argument:ident: $type:ty),*) -> $result:ty,
            $number:expr, $who:ident, $f:expr;
    )*) => {
        /// libc's functions, which are looked up before `main`: `dlsym` is not for signal handlers.
        /// Null before that, and in a program that is linked statically.
        #[allow(non_upper_case_globals, reason = "named as the functions")]
        mod libcs {
            use super::*;
            $(pub(super) static $name: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());)*
        }

        extern "C" fn look_up() {
            $(
                let name = concat!(stringify!($name), "\0");
                // SAFETY: a symbol look-up with a C string.
                let function = unsafe { dlsym(RTLD_NEXT, name.as_ptr().cast()) };
                libcs::$name.store(function, Release);
            )*
        }

        $(
            unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
                let mut words = [0; 6];
                for (word, argument) in words.iter_mut().zip([$($argument as usize),*]) {
                    *word = argument;
                }
                let f: fn(Words) -> Option<isize> = $f;
                if $who() && let Some(result) = f(words) {
                    return returned(result) as $result;
                }
                // SAFETY: the caller's arguments.
                if let Some(result) = unsafe { overlay::call($number, words, false) } {
                    return returned(result) as $result;
                }
                let function = libcs::$name.load(Acquire);
                // SAFETY: libc's function of this name has this type; its arguments, and the
                // kernel's, are the caller's.
                unsafe {
                    if function.is_null() {
                        return returned(crate::sys::call($number, words)) as $result;
                    }
                    type Function = unsafe extern "C-unwind" fn($($type),*) -> $result;
                    core::mem::transmute::<*mut c_void, Function>(function)($($argument),*)
                }
            }
            global_asm!(
                concat!(".weak ", stringify!($name)),
                concat!(".type ", stringify!($name), ", @function"),
                concat!(stringify!($name), ":"),
                ".cfi_startproc",
                "jmp {function}",
                ".cfi_endproc",
                concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
                function = sym $name,
            );
        )*
    };
}

/// May the caller park, in calls that are made with a lock of the standard library held, as those
/// of `println!` are? Not with thread-locals that belong to a kernel thread: they name its owner.
fn can_park_with_locks() -> bool {
    can_park() && raw::current().is_some_and(|t| t.fs.get() != 0)
}

fn anybody() -> bool {
    true
}

/// For calls that wait for nothing, or in the kernel: only [sockets of a stack](overlay) are
/// served here.
fn nobody() -> bool {
    false
}

/// A result of the kernel's as C has it.
fn returned(result: isize) -> isize {
    if (-4095..0).contains(&result) { fail(-result as i32) as isize } else { result }
}

// SAFETY, of all that follow: the arguments are the program's, as for libc's functions.

fn read_one(a: Words) -> Option<isize> {
    let buffer = iovec { iov_base: a[1] as *mut c_void, iov_len: a[2] };
    // SAFETY: see above.
    unsafe { calls::read(Plain, SYS_read, a, (&buffer, 1)) }
}

fn read_several(a: Words) -> Option<isize> {
    // SAFETY: see above.
    unsafe { calls::read(Plain, SYS_readv, a, (a[1] as *const iovec, a[2])) }
}

fn write_one(a: Words) -> Option<isize> {
    let buffer = iovec { iov_base: a[1] as *mut c_void, iov_len: a[2] };
    // SAFETY: see above.
    unsafe { calls::write(Plain, SYS_write, a, (&buffer, 1)) }
}

fn write_several(a: Words) -> Option<isize> {
    // SAFETY: see above.
    unsafe { calls::write(Plain, SYS_writev, a, (a[1] as *const iovec, a[2])) }
}

fn received(number: c_long, a: Words, flags_at: usize) -> Option<isize> {
    // SAFETY: see above.
    Some(unsafe { calls::receive(Plain, number, a, flags_at) })
}

/// `recvfrom`. Where there is no sender, as after a `shutdown`, the kernel leaves the room for the
/// address as it is. `std` looks there all the same, at whatever its stack has there: so it is to
/// find no address.
fn received_from(a: Words) -> Option<isize> {
    let (at, len) = (a[4] as *mut sa_family_t, a[5] as *mut socklen_t);
    // SAFETY: see above.
    let has_room = !at.is_null()
        && unsafe { len.as_ref() }.is_some_and(|&len| len as usize >= size_of_val(&len));
    let result = received(SYS_recvfrom, a, 3)?;
    // SAFETY: as above; there is room.
    unsafe {
        if has_room && result >= 0 && *len == 0 {
            at.write_unaligned(AF_UNSPEC as sa_family_t);
        }
    }
    Some(result)
}

fn sent(a: Words) -> Option<isize> {
    // SAFETY: see above.
    Some(unsafe { calls::send_to(Plain, a) })
}

fn message_sent(a: Words) -> Option<isize> {
    // SAFETY: see above.
    Some(unsafe { calls::send_message(Plain, a) })
}

fn several_received(a: Words) -> Option<isize> {
    // SAFETY: see above.
    Some(unsafe { calls::receive_several(Plain, a) })
}

fn several_sent(a: Words) -> Option<isize> {
    // SAFETY: see above.
    Some(unsafe { calls::send_several(Plain, a) })
}

fn accepted(number: c_long, a: Words) -> Option<isize> {
    // SAFETY: see above.
    Some(unsafe { calls::accept(Plain, number, a) })
}

fn connected(a: Words) -> Option<isize> {
    // SAFETY: see above.
    Some(unsafe { calls::connect(Plain, a) })
}

fn polled(a: Words) -> Option<isize> {
    let (files, span) = (a[0] as *mut pollfd, Span::of_millis(a[2] as c_int));
    // SAFETY: see above.
    Some(unsafe { calls::poll(Plain, files, a[1], span, 0) })
}

fn epoll_waited(a: Words) -> Option<isize> {
    let (events, time) = (a[1] as *mut epoll_event, Epoll::Millis(a[3] as c_int));
    // SAFETY: see above.
    Some(unsafe { calls::epoll_wait(Plain, a[0] as c_int, events, a[2] as c_int, time, 0) })
}

/// `ppoll` and others of its kind, unless they have a mask for the time of the wait: that would be
/// one of a kernel thread.
fn polled_exactly(a: Words) -> Option<isize> {
    // SAFETY: see above.
    let span = Span::of_timespec(unsafe { (a[2] as *const timespec).as_ref() });
    let span = span.filter(|_| a[3] == 0)?;
    // SAFETY: see above.
    Some(unsafe { calls::poll(Plain, a[0] as *mut pollfd, a[1], span, 0) })
}

fn epoll_waited_unmasked(a: Words) -> Option<isize> {
    if a[4] == 0 { epoll_waited(a) } else { None }
}

fn epoll_waited_exactly(a: Words) -> Option<isize> {
    // SAFETY: see above.
    let span = Span::of_timespec(unsafe { (a[3] as *const timespec).as_ref() });
    let (events, time) = (a[1] as *mut epoll_event, Epoll::Exact(span.filter(|_| a[4] == 0)?));
    // SAFETY: see above.
    Some(unsafe { calls::epoll_wait(Plain, a[0] as c_int, events, a[2] as c_int, time, 0) })
}

/// The descriptors of `select`, and how long it may take.
///
/// # Safety
///
/// As for the call.
unsafe fn select_for(a: Words, span: Span) -> isize {
    let sets = [a[1], a[2], a[3]].map(|at| at as *mut fd_set);
    // SAFETY: the caller's contract.
    unsafe { calls::select(Plain, a[0] as c_int, sets, span, 0) }
}

fn select_parked(a: Words) -> Option<isize> {
    // SAFETY: see above.
    let mut time = unsafe { (a[4] as *mut timeval).as_mut() };
    let span = Span::of_timeval(time.as_deref())?;
    // SAFETY: see above.
    let result = unsafe { select_for(a, span) };
    if let Some(time) = &mut time {
        // Linux says what is left.
        let micros = (span.rest() / 1000) as i64;
        (time.tv_sec, time.tv_usec) = (micros / 1_000_000, micros % 1_000_000);
    }
    Some(result)
}

/// A descriptor is about to go, for which somebody may be waiting.
fn leaving(fd: usize) -> Option<isize> {
    descriptors::leave(fd as c_int);
    None
}

/// Makes a descriptor.
fn makes(number: c_long, a: Words, what: Made) -> Option<isize> {
    // SAFETY: see above.
    let new = unsafe { overlay::call_or_kernel(number, a) };
    if new >= 0 {
        descriptors::made(new as c_int, what);
    }
    Some(new)
}

fn makes_pair(a: Words) -> Option<isize> {
    // SAFETY: see above.
    let result = unsafe { overlay::call_or_kernel(SYS_socketpair, a) };
    if result == 0 {
        // SAFETY: the kernel has written both.
        let pair = unsafe { (a[3] as *const [c_int; 2]).read_unaligned() };
        pair.into_iter().for_each(|new| descriptors::made(new, Made::Socket));
    }
    Some(result)
}

/// Sets something that may matter to calls which wait.
fn sets(number: c_long, a: Words) -> Option<isize> {
    // SAFETY: see above.
    let result = unsafe { overlay::call_or_kernel(number, a) };
    descriptors::has_set(number, a);
    Some(result)
}

/// The C library's own knows more than the kernel's.
fn controls(a: Words) -> Option<isize> {
    if a[1] as c_int == F_SETFL { sets(SYS_fcntl, a) } else { None }
}

fn range_left(a: Words) -> Option<isize> {
    if a[2] as u32 & CLOSE_RANGE_CLOEXEC == 0 {
        descriptors::leave_range(a[0] as u32, a[1] as u32);
    }
    None
}

/// The kernel's call is told the mask together with its size.
fn selected(a: Words) -> Option<isize> {
    // SAFETY: see above.
    let span = Span::of_timespec(unsafe { (a[4] as *const timespec).as_ref() });
    if a[5] == 0
        && can_park()
        && let Some(span) = span
    {
        // SAFETY: see above.
        return Some(unsafe { select_for(a, span) });
    }
    let mask = [a[5], 8];
    let a = [a[0], a[1], a[2], a[3], a[4], &raw const mask as usize];
    // SAFETY: see above.
    unsafe { overlay::call(SYS_pselect6, a, false) }
}

fn replaced(a: Words) -> Option<isize> {
    if a[0] == a[1] { None } else { leaving(a[1]) }
}

weak! {
    read(fd: c_int, buffer: *mut c_void, n: usize) -> isize, SYS_read, can_park_with_locks,
        read_one;
    readv(fd: c_int, vec: *const iovec, n: c_int) -> isize, SYS_readv, can_park_with_locks,
        read_several;
    write(fd: c_int, buffer: *const c_void, n: usize) -> isize, SYS_write, can_park_with_locks,
        write_one;
    writev(fd: c_int, vec: *const iovec, n: c_int) -> isize, SYS_writev, can_park_with_locks,
        write_several;
    recv(fd: c_int, buffer: *mut c_void, n: usize, flags: c_int) -> isize, SYS_recvfrom, can_park,
        |a| received(SYS_recvfrom, a, 3);
    recvfrom(fd: c_int, buffer: *mut c_void, n: usize, flags: c_int, from: *mut sockaddr,
        len: *mut socklen_t) -> isize, SYS_recvfrom, can_park, received_from;
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> isize, SYS_recvmsg, can_park,
        |a| received(SYS_recvmsg, a, 2);
    send(fd: c_int, buffer: *const c_void, n: usize, flags: c_int) -> isize, SYS_sendto, can_park,
        sent;
    sendto(fd: c_int, buffer: *const c_void, n: usize, flags: c_int, to: *const sockaddr,
        len: socklen_t) -> isize, SYS_sendto, can_park, sent;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> isize, SYS_sendmsg, can_park,
        message_sent;
    accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int, SYS_accept, can_park,
        |a| accepted(SYS_accept, a);
    accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int,
        SYS_accept4, can_park, |a| accepted(SYS_accept4, a);
    connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int, SYS_connect, can_park,
        connected;
    poll(files: *mut pollfd, n: nfds_t, timeout: c_int) -> c_int, SYS_poll, can_park, polled;
    epoll_wait(epoll: c_int, events: *mut epoll_event, n: c_int, timeout: c_int) -> c_int,
        SYS_epoll_wait, can_park, epoll_waited;
    close(fd: c_int) -> c_int, SYS_close, anybody, |a| leaving(a[0]);
    dup2(old: c_int, new: c_int) -> c_int, SYS_dup2, anybody, replaced;
    dup3(old: c_int, new: c_int, flags: c_int) -> c_int, SYS_dup3, anybody, replaced;
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int, SYS_close_range, anybody,
        range_left;
    dup(fd: c_int) -> c_int, SYS_dup, nobody, |_| None;
    socket(family: c_int, kind: c_int, protocol: c_int) -> c_int, SYS_socket, anybody,
        |a| makes(SYS_socket, a, Made::Socket);
    socketpair(family: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int,
        SYS_socketpair, anybody, makes_pair;
    epoll_create(size: c_int) -> c_int, SYS_epoll_create, anybody,
        |a| makes(SYS_epoll_create, a, Made::Epoll);
    epoll_create1(flags: c_int) -> c_int, SYS_epoll_create1, anybody,
        |a| makes(SYS_epoll_create1, a, Made::Epoll);
    fcntl(fd: c_int, command: c_int, argument: usize) -> c_int, SYS_fcntl, anybody, controls;
    fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int, SYS_fcntl, anybody, controls;
    ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int, SYS_ioctl, anybody,
        |a| sets(SYS_ioctl, a);
    bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int, SYS_bind, nobody,
        |_| None;
    listen(fd: c_int, backlog: c_int) -> c_int, SYS_listen, nobody, |_| None;
    shutdown(fd: c_int, how: c_int) -> c_int, SYS_shutdown, nobody, |_| None;
    getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int,
        SYS_getsockname, nobody, |_| None;
    getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int,
        SYS_getpeername, nobody, |_| None;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t)
        -> c_int, SYS_getsockopt, nobody, |_| None;
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t)
        -> c_int, SYS_setsockopt, anybody, |a| sets(SYS_setsockopt, a);
    recvmmsg(fd: c_int, messages: *mut mmsghdr, n: c_uint, flags: c_int, time: *mut timespec)
        -> c_int, SYS_recvmmsg, can_park, several_received;
    sendmmsg(fd: c_int, messages: *mut mmsghdr, n: c_uint, flags: c_int) -> c_int, SYS_sendmmsg,
        can_park, several_sent;
    sendfile(to: c_int, from: c_int, offset: *mut off_t, n: usize) -> isize, SYS_sendfile, nobody,
        |_| None;
    sendfile64(to: c_int, from: c_int, offset: *mut off_t, n: usize) -> isize, SYS_sendfile,
        nobody, |_| None;
    splice(from: c_int, at: *mut off_t, to: c_int, offset: *mut off_t, n: usize, flags: c_uint)
        -> isize, SYS_splice, nobody, |_| None;
    ppoll(files: *mut pollfd, n: nfds_t, time: *const timespec, mask: *const sigset_t) -> c_int,
        SYS_ppoll, can_park, polled_exactly;
    select(n: c_int, r: *mut fd_set, w: *mut fd_set, e: *mut fd_set, time: *mut timeval) -> c_int,
        SYS_select, can_park, select_parked;
    pselect(n: c_int, r: *mut fd_set, w: *mut fd_set, e: *mut fd_set, time: *const timespec,
        mask: *const sigset_t) -> c_int, SYS_pselect6, anybody, selected;
    epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int,
        SYS_epoll_ctl, nobody, |_| None;
    epoll_pwait(epoll: c_int, events: *mut epoll_event, n: c_int, timeout: c_int,
        mask: *const sigset_t) -> c_int, SYS_epoll_pwait, can_park, epoll_waited_unmasked;
    epoll_pwait2(epoll: c_int, events: *mut epoll_event, n: c_int, time: *const timespec,
        mask: *const sigset_t) -> c_int, SYS_epoll_pwait2, can_park, epoll_waited_exactly;
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look_up;

/// Makes the linker take the weak definitions.
pub(super) fn link() {
    unsafe extern "C" {
        #[link_name = "recvmsg"]
        fn weak_one();
    }
    core::hint::black_box((weak_one as unsafe extern "C" fn(), &BEFORE_MAIN));
}
