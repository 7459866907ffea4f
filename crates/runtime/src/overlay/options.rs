//! Options of sockets. The placeholder keeps them; the stack is told of those that concern it.

use super::served::{Served, errno_of, failed};
use super::{Words, address::option, kernel};
use crate::net::stack::Opt;
use crate::sync::Mutex;
use core::mem::size_of;
use core::sync::atomic::{AtomicBool, Ordering::*};
use libc::{
    EINVAL, ENOPROTOOPT, IP_ADD_MEMBERSHIP, IP_DROP_MEMBERSHIP, IP_TTL, IPPROTO_IP, IPPROTO_IPV6,
    IPPROTO_TCP, IPV6_ADD_MEMBERSHIP, IPV6_DROP_MEMBERSHIP, IPV6_UNICAST_HOPS, SO_ACCEPTCONN,
    SO_ERROR, SO_KEEPALIVE, SO_LINGER, SO_RCVTIMEO, SO_SNDTIMEO, SOL_SOCKET, SYS_getsockopt,
    SYS_setsockopt, TCP_INFO, TCP_KEEPCNT, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_NODELAY, linger,
    socklen_t, timeval,
};
use std::time::Duration;

/// What the stack is to be told of an option of the placeholder's.
fn for_stack(fd: i32, level: i32, name: i32) -> Option<Opt> {
    let number = |level, name| option(fd, level, name, 0i32);
    Some(match (level, name) {
        (IPPROTO_TCP, TCP_NODELAY) => Opt::NoDelay(number(level, name)? != 0),
        (SOL_SOCKET, SO_KEEPALIVE) | (IPPROTO_TCP, TCP_KEEPIDLE) => {
            let is_on = number(SOL_SOCKET, SO_KEEPALIVE)? != 0;
            let idle = number(IPPROTO_TCP, TCP_KEEPIDLE)?;
            Opt::KeepAlive(is_on.then(|| Duration::from_secs(idle.max(1) as u64)))
        }
        (SOL_SOCKET, SO_LINGER) => {
            let value = option(fd, level, name, linger { l_onoff: 0, l_linger: 0 })?;
            let time = Duration::from_secs(value.l_linger.max(0) as u64);
            Opt::Linger((value.l_onoff != 0).then_some(time))
        }
        (IPPROTO_IP, IP_TTL) | (IPPROTO_IPV6, IPV6_UNICAST_HOPS) => {
            Opt::Ttl(u8::try_from(number(level, name)?).ok()?)
        }
        _ => return None,
    })
}

/// Tells the stack of an option that the placeholder has.
fn tell(fd: i32, served: &Served, level: i32, name: i32) -> isize {
    let Some(option) = for_stack(fd, level, name) else { return 0 };
    match served.with(|socket| socket.set(option)) {
        // One that it does not have is the placeholder's alone.
        Ok(Err(e)) if e.raw_os_error() != Some(ENOPROTOOPT) => errno_of(&e),
        _ => 0,
    }
}

/// Options that a stack may have to know, with what they are if nobody sets them.
fn special(fd: i32) -> impl Iterator<Item = (i32, i32)> {
    let is_set = move |&(level, name): &(i32, i32)| match for_stack(fd, level, name) {
        None | Some(Opt::NoDelay(false) | Opt::KeepAlive(None) | Opt::Linger(None)) => false,
        Some(Opt::Ttl(hops)) => hops != 64,
        Some(_) => true,
    };
    let all = [
        (IPPROTO_TCP, TCP_NODELAY),
        (SOL_SOCKET, SO_KEEPALIVE),
        (SOL_SOCKET, SO_LINGER),
        (IPPROTO_IP, IP_TTL),
    ];
    all.into_iter().filter(is_set)
}

/// A socket of the kernel's becomes one of a stack, which is told of what was set before.
pub(super) fn hand_over(fd: i32, served: &Served) {
    for (level, name) in special(fd) {
        let _ = tell(fd, served, level, name);
    }
}

/// Options that sockets get from the one that accepts them.
#[derive(Default)]
pub(super) struct Heirlooms {
    are_some: AtomicBool,
    values: Mutex<Vec<OptionValue>>,
}

#[derive(Clone, Copy)]
struct OptionValue {
    level: i32,
    name: i32,
    bytes: [u8; 16],
    len: usize,
}

const INHERITED: [(i32, i32, usize); 9] = [
    (IPPROTO_TCP, TCP_NODELAY, 4),
    (SOL_SOCKET, SO_KEEPALIVE, 4),
    (IPPROTO_TCP, TCP_KEEPIDLE, 4),
    (IPPROTO_TCP, TCP_KEEPINTVL, 4),
    (IPPROTO_TCP, TCP_KEEPCNT, 4),
    (SOL_SOCKET, SO_LINGER, size_of::<linger>()),
    (IPPROTO_IP, IP_TTL, 4),
    (SOL_SOCKET, SO_RCVTIMEO, size_of::<timeval>()),
    (SOL_SOCKET, SO_SNDTIMEO, size_of::<timeval>()),
];

fn read(fd: i32, (level, name, len): (i32, i32, usize)) -> Option<OptionValue> {
    Some(OptionValue { level, name, bytes: option(fd, level, name, [0u8; 16])?, len })
}

impl Heirlooms {
    /// The socket listens, or its options have changed: which of them differ from those of a new
    /// one?
    pub(super) fn update(&self, fd: i32) {
        let is_v6 = super::address::kind_of(fd).is_some_and(|(_, is_v6)| is_v6);
        let family = if is_v6 { libc::AF_INET6 } else { libc::AF_INET };
        let a = [family as usize, (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as usize, 0, 0, 0, 0];
        // SAFETY: no memory.
        let new = unsafe { kernel(libc::SYS_socket, a) };
        if new < 0 {
            return;
        }
        let differs = |&which: &(i32, i32, usize)| {
            let (theirs, mine) = (read(new as i32, which), read(fd, which));
            mine.filter(|mine| theirs.is_none_or(|theirs| theirs.bytes != mine.bytes))
        };
        let values: Vec<OptionValue> = INHERITED.iter().filter_map(differs).collect();
        // SAFETY: made above.
        unsafe { kernel(libc::SYS_close, [new as usize, 0, 0, 0, 0, 0]) };
        let are_some = !values.is_empty();
        if let Ok(mut mine) = self.values.lock() {
            *mine = values;
            self.are_some.store(are_some, Release);
        }
    }

    /// `fd` is the placeholder of a socket that was accepted.
    pub(super) fn give(&self, fd: i32, served: &Served) {
        if !self.are_some.load(Acquire) {
            return;
        }
        let Ok(values) = self.values.lock() else { return };
        for value in values.iter() {
            let at = [fd as usize, value.level as usize, value.name as usize];
            let a = [at[0], at[1], at[2], value.bytes.as_ptr() as usize, value.len, 0];
            // SAFETY: the kernel reads the value.
            unsafe { kernel(SYS_setsockopt, a) };
            let _ = tell(fd, served, value.level, value.name);
        }
    }
}

/// `setsockopt`.
///
/// # Safety
///
/// As for the call.
pub(super) unsafe fn set(served: &Served, a: Words) -> isize {
    let (fd, level, name) = (a[0] as i32, a[1] as i32, a[2] as i32);
    if let (IPPROTO_IP, IP_ADD_MEMBERSHIP | IP_DROP_MEMBERSHIP)
    | (IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP | IPV6_DROP_MEMBERSHIP) = (level, name)
    {
        // The placeholder would receive what nobody reads.
        return failed(ENOPROTOOPT);
    }
    // SAFETY: the caller's contract.
    match unsafe { kernel(SYS_setsockopt, a) } {
        0 => {
            if served.listens.load(Relaxed) {
                served.heirlooms.update(fd);
            }
            tell(fd, served, level, name)
        }
        error => error,
    }
}

/// `TCP_INFO`: of what the kernel tells, the state is the stack's. The rest is that of a new
/// socket.
///
/// # Safety
///
/// As for the call.
unsafe fn info(served: &Served, a: Words) -> isize {
    // SAFETY: the caller's contract.
    let done = unsafe { kernel(SYS_getsockopt, a) };
    if done < 0 {
        return done;
    }
    let state = match served.with(|socket| socket.state()) {
        Ok(state) => state,
        Err(e) => return e,
    };
    // SAFETY: as above; the kernel has written so many bytes, of which the state is the first.
    unsafe {
        if let Some(state) = state
            && *(a[4] as *const socklen_t) > 0
        {
            (a[3] as *mut u8).write(state);
        }
    }
    done
}

/// `getsockopt`.
///
/// # Safety
///
/// As for the call.
pub(super) unsafe fn get(served: &Served, a: Words) -> isize {
    let value = match (a[1] as i32, a[2] as i32) {
        (SOL_SOCKET, SO_ERROR) => {
            let error = served.with(|socket| socket.take_error());
            let error = error.map_or_else(|e| -e as i32, |e| e.map_or(0, |e| -errno_of(&e) as i32));
            if error != 0 {
                served.connects.store(false, SeqCst);
            }
            error
        }
        (SOL_SOCKET, SO_ACCEPTCONN) => i32::from(served.listens.load(Relaxed)),
        // SAFETY: the caller's contract.
        (IPPROTO_TCP, TCP_INFO) => return unsafe { info(served, a) },
        // SAFETY: the caller's contract.
        _ => return unsafe { kernel(SYS_getsockopt, a) },
    };
    let (at, len) = (a[3] as *mut u8, a[4] as *mut socklen_t);
    if at.is_null() || len.is_null() {
        return failed(libc::EFAULT);
    }
    // SAFETY: the caller's contract: as much room as it says.
    unsafe {
        if *len as i32 <= -1 {
            return failed(EINVAL);
        }
        let n = (*len as usize).min(4);
        core::ptr::copy_nonoverlapping((&raw const value).cast(), at, n);
        *len = n as socklen_t;
    }
    0
}
