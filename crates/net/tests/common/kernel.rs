//! The kernel's sockets, as a stack's.

use quaver::net::stack::{Announcer, Kind, Opt, Readiness, Received, Socket};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex};

pub struct Kernel(Mutex<Option<OwnedFd>>);

const INET: libc::socklen_t = size_of::<libc::sockaddr_in>() as libc::socklen_t;

fn check(result: isize) -> io::Result<usize> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as usize) }
}

fn raw(address: SocketAddr) -> libc::sockaddr_in {
    let SocketAddr::V4(address) = address else { panic!("IPv4 only") };
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: address.ip().to_bits().to_be() },
        sin_zero: [0; 8],
    }
}

fn cooked(address: libc::sockaddr_in) -> SocketAddr {
    let ip = Ipv4Addr::from_bits(u32::from_be(address.sin_addr.s_addr));
    SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into()
}

impl Kernel {
    pub fn socket(kind: Kind) -> Arc<dyn Socket> {
        let kind = match kind {
            Kind::Stream => libc::SOCK_STREAM,
            Kind::Datagram => libc::SOCK_DGRAM,
        };
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: takes no pointer.
        let fd = unsafe { libc::socket(libc::AF_INET, kind | flags, 0) };
        Kernel::from(check(fd as isize).unwrap())
    }

    fn from(fd: usize) -> Arc<dyn Socket> {
        // SAFETY: a new descriptor, which nobody else knows.
        Arc::new(Kernel(Mutex::new(Some(unsafe { OwnedFd::from_raw_fd(fd as i32) }))))
    }

    fn fd(&self) -> i32 {
        self.0.lock().unwrap().as_ref().expect("open").as_raw_fd()
    }

    fn set_int(&self, level: i32, name: i32, value: i32) -> io::Result<()> {
        let value = (&raw const value).cast();
        // SAFETY: the value is read during the call.
        check(unsafe { libc::setsockopt(self.fd(), level, name, value, 4) } as isize)?;
        Ok(())
    }

    fn name(&self, peer: bool) -> Option<SocketAddr> {
        let mut address = raw(SocketAddr::from(([0, 0, 0, 0], 0)));
        let mut len = INET;
        let call = if peer { libc::getpeername } else { libc::getsockname };
        // SAFETY: both are written during the call, as far as the length says.
        let done = unsafe { call(self.fd(), (&raw mut address).cast(), &mut len) };
        (done == 0).then(|| cooked(address))
    }
}

impl Socket for Kernel {
    fn bind(&self, address: SocketAddr) -> io::Result<()> {
        let address = raw(address);
        // SAFETY: the address is read during the call.
        check(unsafe { libc::bind(self.fd(), (&raw const address).cast(), INET) } as isize)?;
        Ok(())
    }

    fn listen(&self, backlog: usize) -> io::Result<()> {
        // SAFETY: takes no pointer.
        check(unsafe { libc::listen(self.fd(), backlog as i32) } as isize)?;
        Ok(())
    }

    fn accept(&self) -> io::Result<(Arc<dyn Socket>, SocketAddr)> {
        let mut address = raw(SocketAddr::from(([0, 0, 0, 0], 0)));
        let mut len = INET;
        let to = (&raw mut address).cast();
        // SAFETY: both are written during the call, as far as the length says.
        let fd = unsafe { libc::accept4(self.fd(), to, &mut len, libc::SOCK_NONBLOCK) };
        Ok((Kernel::from(check(fd as isize)?), cooked(address)))
    }

    fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        let address = raw(peer);
        // SAFETY: the address is read during the call.
        check(unsafe { libc::connect(self.fd(), (&raw const address).cast(), INET) } as isize)?;
        Ok(())
    }

    fn receive(&self, into: &mut [IoSliceMut<'_>], peek: bool) -> io::Result<Received> {
        let mut address = raw(SocketAddr::from(([0, 0, 0, 0], 0)));
        // SAFETY: plain data, for which zeros are valid.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = (&raw mut address).cast();
        message.msg_namelen = INET;
        message.msg_iov = into.as_mut_ptr().cast();
        message.msg_iovlen = into.len();
        let flags = if peek { libc::MSG_PEEK } else { 0 };
        // SAFETY: `IoSliceMut` is an `iovec`; all is written during the call.
        let len = check(unsafe { libc::recvmsg(self.fd(), &mut message, flags) })?;
        let from = (message.msg_namelen != 0).then(|| cooked(address));
        Ok(Received { len, whole: len, from })
    }

    fn send(&self, from: &[IoSlice<'_>], to: Option<SocketAddr>) -> io::Result<usize> {
        let mut address = to.map(raw);
        // SAFETY: plain data, for which zeros are valid.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        if let Some(address) = &mut address {
            message.msg_name = std::ptr::from_mut(address).cast();
            message.msg_namelen = INET;
        }
        message.msg_iov = from.as_ptr().cast_mut().cast();
        message.msg_iovlen = from.len();
        // SAFETY: `IoSlice` is an `iovec`; all is read during the call.
        check(unsafe { libc::sendmsg(self.fd(), &message, libc::MSG_NOSIGNAL) })
    }

    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => libc::SHUT_RD,
            Shutdown::Write => libc::SHUT_WR,
            Shutdown::Both => libc::SHUT_RDWR,
        };
        // SAFETY: takes no pointer.
        check(unsafe { libc::shutdown(self.fd(), how) } as isize)?;
        Ok(())
    }

    fn readiness(&self) -> Readiness {
        let all = [
            Readiness::READABLE,
            Readiness::WRITABLE,
            Readiness::END,
            Readiness::HANG_UP,
            Readiness::ERROR,
        ];
        let events = all.iter().fold(0, |bits, event| bits | event.bits()) as i16;
        let mut poll = libc::pollfd { fd: self.fd(), events, revents: 0 };
        // SAFETY: written during the call.
        check(unsafe { libc::poll(&mut poll, 1, 0) } as isize).unwrap();
        let is_there = |event: &&Readiness| poll.revents as u32 & event.bits() != 0;
        all.iter().filter(is_there).fold(Readiness::NONE, |bits, &event| bits | event)
    }

    fn announce_to(&self, _: Announcer) {}

    fn take_error(&self) -> Option<io::Error> {
        let (mut error, mut len) = (0i32, 4);
        let to = (&raw mut error).cast();
        // SAFETY: both are written during the call.
        unsafe { libc::getsockopt(self.fd(), libc::SOL_SOCKET, libc::SO_ERROR, to, &mut len) };
        (error != 0).then(|| io::Error::from_raw_os_error(error))
    }

    fn pending(&self) -> usize {
        let mut bytes = 0i32;
        // SAFETY: written during the call. It fails for sockets that listen.
        unsafe { libc::ioctl(self.fd(), libc::FIONREAD, &mut bytes) };
        bytes as usize
    }

    fn set(&self, option: Opt) -> io::Result<()> {
        match option {
            Opt::NoDelay(on) => self.set_int(libc::IPPROTO_TCP, libc::TCP_NODELAY, on.into()),
            Opt::Ttl(ttl) => self.set_int(libc::IPPROTO_IP, libc::IP_TTL, ttl.into()),
            Opt::KeepAlive(idle) => {
                self.set_int(libc::SOL_SOCKET, libc::SO_KEEPALIVE, idle.is_some().into())
            }
            Opt::Linger(time) => {
                let linger = libc::linger {
                    l_onoff: time.is_some().into(),
                    l_linger: time.map_or(0, |time| time.as_secs() as i32),
                };
                let (level, name) = (libc::SOL_SOCKET, libc::SO_LINGER);
                let value = (&raw const linger).cast();
                // SAFETY: the value is read during the call.
                let set = unsafe { libc::setsockopt(self.fd(), level, name, value, 8) };
                check(set as isize).map(|_| ())
            }
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.name(false).unwrap()
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        self.name(true)
    }

    fn close(&self) {
        self.0.lock().unwrap().take();
    }
}
