//! Addresses as C has them, and which sockets a stack may serve.

use super::kernel;
use super::served::failed;
use crate::net::stack::Kind;
use core::mem::size_of;
use core::ptr;
use libc::{
    AF_INET, AF_INET6, EAFNOSUPPORT, EFAULT, EINVAL, IPPROTO_TCP, IPPROTO_UDP, SO_DOMAIN,
    SO_PROTOCOL, SO_TYPE, SOCK_DGRAM, SOCK_STREAM, SOL_SOCKET, SYS_getsockname, SYS_getsockopt,
    sockaddr_in, sockaddr_in6, socklen_t,
};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// An option of a socket of the kernel's.
pub(super) fn option<T: Copy>(fd: i32, level: i32, name: i32, mut value: T) -> Option<T> {
    let mut len = size_of::<T>() as socklen_t;
    let at = [fd as usize, level as usize, name as usize, &raw mut value as usize];
    let a = [at[0], at[1], at[2], at[3], &raw mut len as usize, 0];
    // SAFETY: the kernel writes at most the value, whose bytes may be any, and its size.
    (unsafe { kernel(SYS_getsockopt, a) } == 0).then_some(value)
}

/// What a stack would have to serve: what it carries, and whether it is one of IPv6. `None`: it is
/// nothing for a stack.
pub(super) fn kind_of(fd: i32) -> Option<(Kind, bool)> {
    let ask = |name| option(fd, SOL_SOCKET, name, 0i32);
    let is_v6 = match ask(SO_DOMAIN)? {
        AF_INET => false,
        AF_INET6 => true,
        _ => return None,
    };
    match (ask(SO_TYPE)?, ask(SO_PROTOCOL)?) {
        (SOCK_STREAM, IPPROTO_TCP) => Some((Kind::Stream, is_v6)),
        (SOCK_DGRAM, IPPROTO_UDP) => Some((Kind::Datagram, is_v6)),
        _ => None,
    }
}

/// The kernel knows no address of it.
pub(super) fn is_unbound(fd: i32) -> bool {
    // SAFETY: all zeroes are an address.
    let mut address: sockaddr_in6 = unsafe { core::mem::zeroed() };
    let mut len = size_of::<sockaddr_in6>() as socklen_t;
    let a = [fd as usize, &raw mut address as usize, &raw mut len as usize, 0, 0, 0];
    // SAFETY: the kernel writes at most the address and its size.
    unsafe { kernel(SYS_getsockname, a) == 0 && address.sin6_port == 0 }
}

/// Reads an address. Those of IPv4 in IPv6 are such of IPv4.
///
/// # Safety
///
/// There are `len` bytes.
pub(super) unsafe fn read(at: *const u8, len: usize) -> Result<SocketAddr, isize> {
    if at.is_null() {
        return Err(failed(EFAULT));
    }
    if len < size_of::<libc::sa_family_t>() {
        return Err(failed(EINVAL));
    }
    // SAFETY: the caller's contract, and the lengths that are looked at first.
    unsafe {
        match i32::from(at.cast::<libc::sa_family_t>().read_unaligned()) {
            AF_INET if len >= size_of::<sockaddr_in>() => {
                let a = at.cast::<sockaddr_in>().read_unaligned();
                let ip = u32::from_be(a.sin_addr.s_addr).into();
                Ok(SocketAddrV4::new(ip, u16::from_be(a.sin_port)).into())
            }
            AF_INET6 if len >= size_of::<sockaddr_in6>() => {
                let a = at.cast::<sockaddr_in6>().read_unaligned();
                let (ip, port) = (a.sin6_addr.s6_addr.into(), u16::from_be(a.sin6_port));
                Ok(plain(SocketAddrV6::new(ip, port, a.sin6_flowinfo, a.sin6_scope_id).into()))
            }
            AF_INET | AF_INET6 => Err(failed(EINVAL)),
            _ => Err(failed(EAFNOSUPPORT)),
        }
    }
}

/// Is this an address of the family?
///
/// # Safety
///
/// As for [`read`], which has read it.
pub(super) unsafe fn is_of_family(at: *const u8, is_v6: bool) -> bool {
    // SAFETY: the caller's contract.
    let family = i32::from(unsafe { at.cast::<libc::sa_family_t>().read_unaligned() });
    family == if is_v6 { AF_INET6 } else { AF_INET }
}

fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port()).with_scope_of(address)
}

/// Keeps what only addresses of IPv6 have.
trait KeepScope {
    fn with_scope_of(self, other: SocketAddr) -> SocketAddr;
}

impl KeepScope for SocketAddr {
    fn with_scope_of(self, other: SocketAddr) -> SocketAddr {
        if self.is_ipv6() { other } else { self }
    }
}

/// Writes an address for a socket of this family: as much of it as there is room for, and its
/// length.
///
/// # Safety
///
/// `at` is null, or `len` leads to how much room there is.
pub(super) unsafe fn write(address: SocketAddr, is_v6: bool, at: *mut u8, len: *mut socklen_t) {
    if at.is_null() || len.is_null() {
        return;
    }
    let put = |from: *const u8, size: usize| {
        // SAFETY: the caller's contract.
        unsafe {
            ptr::copy_nonoverlapping(from, at, size.min(*len as usize));
            *len = size as socklen_t;
        }
    };
    match (address, is_v6) {
        (SocketAddr::V4(a), false) => {
            let sin_addr = libc::in_addr { s_addr: u32::from(*a.ip()).to_be() };
            let a = sockaddr_in {
                sin_family: AF_INET as u16,
                sin_port: a.port().to_be(),
                sin_addr,
                sin_zero: [0; 8],
            };
            put((&raw const a).cast(), size_of::<sockaddr_in>());
        }
        (address, _) => {
            let (ip, flow, scope) = match address {
                SocketAddr::V4(a) if a.ip().is_unspecified() => {
                    (std::net::Ipv6Addr::UNSPECIFIED, 0, 0)
                }
                SocketAddr::V4(a) => (a.ip().to_ipv6_mapped(), 0, 0),
                SocketAddr::V6(a) => (*a.ip(), a.flowinfo(), a.scope_id()),
            };
            let a = sockaddr_in6 {
                sin6_family: AF_INET6 as u16,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: flow,
                sin6_addr: libc::in6_addr { s6_addr: ip.octets() },
                sin6_scope_id: scope,
            };
            put((&raw const a).cast(), size_of::<sockaddr_in6>());
        }
    }
}

/// May a socket of this family have a peer there?
pub(super) fn fits(ip: IpAddr, is_v6: bool) -> bool {
    is_v6 || ip.is_ipv4()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        for (text, is_v6, comes_back) in [
            ("1.2.3.4:80", false, "1.2.3.4:80"),
            ("1.2.3.4:80", true, "1.2.3.4:80"),
            ("[::1]:9", true, "[::1]:9"),
            ("[fe80::1%3]:9", true, "[fe80::1%3]:9"),
            ("0.0.0.0:7", true, "[::]:7"),
        ] {
            let (mut room, mut len) = ([0u8; 64], 64);
            // SAFETY: so much room.
            let back = unsafe {
                write(text.parse().unwrap(), is_v6, room.as_mut_ptr(), &mut len);
                assert!(is_of_family(room.as_ptr(), is_v6));
                read(room.as_ptr(), len as usize)
            };
            assert_eq!(back, Ok(comes_back.parse().unwrap()));
            assert_eq!(len, if is_v6 { 28 } else { 16 });
        }
    }

    #[test]
    fn as_much_as_there_is_room_for() {
        let (mut room, mut len) = ([7u8; 16], 4);
        // SAFETY: room for four bytes.
        unsafe { write("1.2.3.4:258".parse().unwrap(), false, room.as_mut_ptr(), &mut len) };
        assert_eq!((&room[..5], len), (&[2, 0, 1, 2, 7][..], 16));
        // SAFETY: lengths that are looked at.
        unsafe {
            assert_eq!(read(room.as_ptr(), 1), Err(failed(EINVAL)));
            assert_eq!(read(room.as_ptr(), 4), Err(failed(EINVAL)));
            assert_eq!(read([1u8, 0, 0].as_ptr(), 3), Err(failed(EAFNOSUPPORT)));
            assert_eq!(read(ptr::null(), 16), Err(failed(EFAULT)));
        }
    }
}
