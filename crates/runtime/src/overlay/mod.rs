#![doc = include_str!("README.md")]
#![allow(non_upper_case_globals, reason = "numbers of system calls in patterns")]

mod address;
mod connection;
mod descriptors;
mod epoll;
mod options;
mod poll;
mod served;
mod table;
mod transfer;
mod wait;

pub(crate) use descriptors::{leave, leave_range, share};

use crate::net::stack::Stack;
use crate::park::SpinLock;
use crate::preempt;
use crate::sync::Mutex;
use crate::sys;
use connection::served;
use core::ffi::c_long;
use core::sync::atomic::Ordering::*;
use libc::*;
use served::{Served, failed};
use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;
use table::{DescriptorEntry, IN_USE};
use wait::WaitManner;

type Words = [usize; 6];

/// A system call of the kernel's.
///
/// # Safety
///
/// As for the call.
unsafe fn kernel(number: c_long, a: Words) -> isize {
    // SAFETY: the caller's contract.
    unsafe { sys::call(number, a) }
}

/// The stack, and how many there have been before.
static STACK: SpinLock<Option<Arc<dyn Stack>>> = SpinLock::new(None);
/// One is installed or removed at a time.
static INSTALLING: Mutex<()> = Mutex::new(());

fn stack() -> Option<Arc<dyn Stack>> {
    STACK.lock().clone()
}

/// May a call be the overlay's affair?
#[inline(always)]
pub(crate) fn is_active() -> bool {
    IN_USE.load(Relaxed) != 0
}

/// See [`install`](crate::net::stack::install).
pub(crate) fn install(new: Arc<dyn Stack>) -> io::Result<()> {
    crate::os::fork::watch()?;
    let _installing = INSTALLING.lock();
    if stack().is_some() {
        let text = "a network stack is installed already: there can be one in a process";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    descriptors::begin();
    *STACK.lock() = Some(new);
    IN_USE.fetch_add(1, SeqCst);
    Ok(())
}

/// The stack ends, and with it its sockets.
pub(crate) fn uninstall() {
    let _installing = INSTALLING.lock();
    let old = STACK.lock().take();
    if old.is_none() {
        return;
    }
    // All of them before the first is closed: its peer must not take that for the end of a stream.
    for end in [Served::begin_to_end, Served::end] {
        let mut from = 0;
        while let Some(fd) = table::smallest(from, u32::MAX) {
            if let Some(DescriptorEntry::Socket(served)) = table::get(fd) {
                end(&served);
            }
            from = fd as u32 + 1;
        }
    }
    IN_USE.fetch_sub(1, SeqCst);
    drop(old);
}

/// In the child of a fork.
///
/// # Safety
///
/// There is no other thread.
pub(crate) unsafe fn in_child() {
    // SAFETY: the caller's contract; nothing is dropped.
    unsafe {
        (&raw const STACK).cast_mut().write(SpinLock::new(None));
        (&raw const INSTALLING).cast_mut().write(Mutex::new(()));
        table::forget_all();
    }
    descriptors::begin();
}

/// Which of these events of `poll` there are on a file, after `time` at most. The error is the
/// errno.
pub(crate) fn poll_one(fd: i32, events: i16, time: Option<Duration>) -> Result<i16, i32> {
    let mut file = pollfd { fd, events, revents: 0 };
    let time = time.map(crate::sys::timespec);
    let time = time.as_ref().map_or(0, |time| core::ptr::from_ref(time) as usize);
    // SAFETY: one entry; the time lives across the call.
    let found = unsafe { call_or_kernel(SYS_ppoll, [&raw mut file as usize, 1, time, 0, 8, 0]) };
    if found < 0 { Err(-found as i32) } else { Ok(file.revents) }
}

/// Is this descriptor a stack's, and is there one of these events on it? Of an instance of epoll:
/// may there be?
#[inline]
pub(crate) fn is_news(fd: i32, events: i16) -> bool {
    is_active() && poll::is_news(fd, events)
}

/// Makes a system call, be it the overlay's affair or the kernel's.
///
/// # Safety
///
/// As for the call.
#[inline]
pub(crate) unsafe fn call_or_kernel(number: c_long, a: Words) -> isize {
    // SAFETY: the caller's contract.
    unsafe { call(number, a, false).unwrap_or_else(|| kernel(number, a)) }
}

/// Makes a system call if it is about what a stack serves; waits where the kernel would. `None`:
/// it is the kernel's affair. `interruptible`: the caller makes it again when it says `EINTR`,
/// after it has looked for signals; otherwise signals end no call.
///
/// In a handler that has interrupted the runtime, calls on sockets of a stack say `EAGAIN`.
///
/// # Safety
///
/// As for the call.
#[inline]
pub unsafe fn call(number: c_long, a: [usize; 6], interruptible: bool) -> Option<isize> {
    if !is_active() {
        return None;
    }
    // SAFETY: the caller's contract.
    unsafe { call_here(number, a, WaitManner { interruptible }) }
}

/// # Safety
///
/// As for the call.
#[cold]
unsafe fn call_here(number: c_long, a: Words, how: WaitManner) -> Option<isize> {
    let fd = a[0] as i32;
    // SAFETY: the caller's contract.
    let served = unsafe {
        match number {
            SYS_socket => return Some(descriptors::socket(a)),
            SYS_dup | SYS_dup2 | SYS_dup3 | SYS_fcntl => {
                return descriptors::duplicate(number, fd, a);
            }
            SYS_epoll_ctl => return epoll::control(a),
            SYS_poll => return poll::poll(a, how),
            SYS_ppoll => return poll::ppoll(a, how),
            SYS_select => return poll::select(a, how),
            SYS_pselect6 => return poll::pselect(a, how),
            SYS_epoll_wait | SYS_epoll_pwait | SYS_epoll_pwait2 => {
                let Some(DescriptorEntry::Set(set)) = table::get(fd) else { return None };
                // The last argument is no mask there.
                let mask = if number == SYS_epoll_wait { 0 } else { a[4] };
                let a = [a[0], a[1], a[2], a[3], mask, 0];
                return poll::epoll_wait(&set, a, number == SYS_epoll_pwait2, how);
            }
            // The socket may be either file.
            SYS_splice if table::is_socket(fd) || table::is_socket(a[2] as i32) => {
                return Some(failed(EINVAL));
            }
            SYS_bind | SYS_connect | SYS_sendto | SYS_sendmsg | SYS_sendmmsg
                if preempt::in_section() =>
            {
                served(fd)
            }
            SYS_bind => return connection::bind(a),
            SYS_connect => return connection::connect(a, how),
            SYS_sendto => connection::served_to(fd, a[4] as *const u8, a[5]),
            SYS_sendmsg => served_by((a[1] as *const msghdr).as_ref()?, fd),
            SYS_sendmmsg if a[2] as u32 == 0 => served(fd),
            SYS_sendmmsg => served_by(&(a[1] as *const mmsghdr).as_ref()?.msg_hdr, fd),
            SYS_read | SYS_readv | SYS_preadv2 | SYS_write | SYS_writev | SYS_pwritev2
            | SYS_recvfrom | SYS_recvmsg | SYS_recvmmsg | SYS_listen | SYS_accept | SYS_accept4
            | SYS_shutdown | SYS_getsockname | SYS_getpeername | SYS_getsockopt
            | SYS_setsockopt | SYS_ioctl | SYS_sendfile => served(fd),
            _ => None,
        }
    };
    match served? {
        Ok(_) if preempt::in_section() => Some(failed(EAGAIN)),
        // SAFETY: the caller's contract.
        Ok(served) => unsafe { on_socket(&served, number, a, how) },
        // The placeholder can be asked for what it knows.
        Err(_) if matches!(number, SYS_getsockopt | SYS_setsockopt | SYS_ioctl) => None,
        Err(e) => Some(e),
    }
}

/// What serves a socket by which this message is sent.
///
/// # Safety
///
/// As for `sendmsg`.
unsafe fn served_by(message: &msghdr, fd: i32) -> Option<Result<Arc<Served>, isize>> {
    // SAFETY: the caller's contract.
    unsafe { connection::served_to(fd, message.msg_name.cast(), message.msg_namelen as usize) }
}

/// A call on a stack's socket.
///
/// # Safety
///
/// As for the call.
unsafe fn on_socket(served: &Served, number: c_long, a: Words, how: WaitManner) -> Option<isize> {
    /// `RWF_NOWAIT`.
    const NOWAIT: usize = 8;
    let fd = a[0] as i32;
    let one = [iovec { iov_base: a[1] as *mut _, iov_len: a[2] }];
    // SAFETY: the caller's contract.
    let vec = || unsafe { transfer::buffers(a[1] as *const iovec, a[2]) };
    let flags = if a[5] & NOWAIT != 0 { MSG_DONTWAIT } else { 0 };
    let read = |all: &[iovec], flags| transfer::read(served, fd, all, flags, how);
    let write = |all: &[iovec], flags| transfer::send(served, fd, all, None, flags, how);
    let named = |address: Result<_, isize>| match address {
        Ok(address) => {
            // SAFETY: the caller's contract.
            unsafe { address::write(address, served.is_v6, a[1] as *mut u8, a[2] as *mut _) };
            0
        }
        Err(e) => e,
    };
    // SAFETY: the caller's contract.
    Some(unsafe {
        match number {
            SYS_read => read(&one, 0),
            SYS_readv => vec().map_or_else(|e| e, |all| read(all, 0)),
            SYS_preadv2 if a[3] == usize::MAX => vec().map_or_else(|e| e, |all| read(all, flags)),
            SYS_write => write(&one, 0),
            SYS_writev => vec().map_or_else(|e| e, |all| write(all, 0)),
            SYS_pwritev2 if a[3] == usize::MAX => vec().map_or_else(|e| e, |all| write(all, flags)),
            SYS_preadv2 | SYS_pwritev2 => failed(ESPIPE),
            SYS_recvfrom => transfer::receive_from(served, a, how),
            SYS_recvmsg => {
                transfer::receive_message(served, fd, a[1] as *mut msghdr, a[2] as i32, false, how)
            }
            SYS_recvmmsg => transfer::receive_several(served, a, how),
            SYS_sendto => transfer::send_to(served, a, how),
            SYS_sendmsg => {
                transfer::send_message(served, fd, a[1] as *const msghdr, a[2] as i32, how)
            }
            SYS_sendmmsg => transfer::send_several(served, a, how),
            SYS_sendfile => transfer::send_file(served, a, how),
            SYS_listen => connection::listen(served, fd, a[1] as i32),
            SYS_accept => connection::accept(served, a, 0, how),
            SYS_accept4 => connection::accept(served, a, a[3] as i32, how),
            SYS_shutdown => match a[1] as i32 {
                SHUT_RD => served.shut_down(Shutdown::Read),
                SHUT_WR => served.shut_down(Shutdown::Write),
                SHUT_RDWR => served.shut_down(Shutdown::Both),
                _ => failed(EINVAL),
            },
            SYS_getsockname => named(served.local_addr()),
            SYS_getpeername => {
                let peer = served.with(|socket| socket.peer_addr());
                named(peer.and_then(|peer| peer.ok_or(failed(ENOTCONN))))
            }
            SYS_getsockopt => options::get(served, a),
            SYS_setsockopt => options::set(served, a),
            SYS_ioctl if a[1] as u64 == FIONREAD => match served.pending() {
                Ok(n) => {
                    (a[2] as *mut i32).write(n);
                    0
                }
                Err(e) => e,
            },
            _ => return None,
        }
    })
}
