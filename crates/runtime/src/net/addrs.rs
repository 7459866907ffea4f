//! From what users write as an address to addresses.

use crate::block_in_place;
use std::any::type_name;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};

/// The addresses that `addr` stands for. Looking up a name can take seconds, in the kernel.
pub(super) fn resolve<A: ToSocketAddrs>(addr: A) -> io::Result<A::Iter> {
    if is_numeric::<A>() {
        return addr.to_socket_addrs();
    }
    block_in_place(|| addr.to_socket_addrs())
}

/// The first success of `f` with one of the addresses, or the last error.
pub(super) fn first<A: ToSocketAddrs, T>(
    addr: A,
    mut f: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = None;
    for address in resolve(addr)? {
        match f(address) {
            Ok(value) => return Ok(value),
            Err(e) => last = Some(e),
        }
    }
    Err(last.unwrap_or_else(|| {
        io::Error::new(ErrorKind::InvalidInput, "could not resolve to any addresses")
    }))
}

/// Is this known to need no looking up? By its name: the type may have lifetimes, so it has no
/// `TypeId`. A wrong answer costs time and nothing else.
fn is_numeric<A: ?Sized>() -> bool {
    let name = type_name::<A>().trim_start_matches('&');
    name == type_name::<SocketAddr>()
        || name == type_name::<SocketAddrV4>()
        || name == type_name::<SocketAddrV6>()
        || name == type_name::<(IpAddr, u16)>()
        || name == type_name::<(Ipv4Addr, u16)>()
        || name == type_name::<(Ipv6Addr, u16)>()
        || name == type_name::<[SocketAddr]>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_need_no_looking_up_and_texts_may() {
        assert!(is_numeric::<SocketAddr>() && is_numeric::<&SocketAddr>());
        assert!(is_numeric::<&&SocketAddrV6>() && is_numeric::<&[SocketAddr]>());
        assert!(is_numeric::<(Ipv4Addr, u16)>() && is_numeric::<(IpAddr, u16)>());
        assert!(!is_numeric::<&str>() && !is_numeric::<String>() && !is_numeric::<(&str, u16)>());
    }

    #[test]
    fn the_last_error_counts() {
        let addresses = [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let ports = |limit| {
            first(&addresses[..], |a| match a.port() {
                port if port < limit => Err(io::Error::from_raw_os_error(port.into())),
                port => Ok(port),
            })
        };
        assert_eq!(ports(2).unwrap(), 2);
        assert_eq!(ports(9).unwrap_err().raw_os_error(), Some(3));
        let none = first(&addresses[..0], |_| Ok(())).unwrap_err();
        let theirs = std::net::TcpStream::connect(&addresses[..0]).unwrap_err();
        assert_eq!((none.kind(), none.to_string()), (theirs.kind(), theirs.to_string()));
    }
}
