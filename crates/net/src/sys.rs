//! What the kernel is asked about interfaces.

use std::ffi::c_ulong;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// An argument of the calls about interfaces.
pub(crate) struct Request(libc::ifreq);

impl Request {
    /// For the interface of this name.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: no interface can have it.
    pub(crate) fn new(name: &str) -> io::Result<Request> {
        // SAFETY: plain data, for which zeros are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        let fits = !name.is_empty()
            && name.len() < request.ifr_name.len()
            && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
        if !fits {
            let what = format!(
                "{name:?} is no name of an interface: 1 to 15 letters, digits or signs, no \"/\""
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        Ok(Request(request))
    }

    pub(crate) fn set_flags(&mut self, flags: i16) {
        self.0.ifr_ifru.ifru_flags = flags;
    }

    pub(crate) fn call(&mut self, fd: i32, request: c_ulong) -> io::Result<()> {
        // SAFETY: all requests made here read or write an `ifreq`, which this is.
        match unsafe { libc::ioctl(fd, request as _, &mut self.0) } {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn flags(&self) -> i32 {
        // SAFETY: the call has filled in this member; it was zeros before.
        i32::from(unsafe { self.0.ifr_ifru.ifru_flags })
    }
}

/// Sets an interface up, unless it is.
///
/// # Errors
///
/// There is no such interface, or no right to do so.
pub(crate) fn set_up(name: &str) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0").or_else(|_| UdpSocket::bind("0.0.0.0:0"))?;
    let fd = socket.as_raw_fd();
    let mut request = Request::new(name)?;
    request.call(fd, libc::SIOCGIFFLAGS as c_ulong)?;
    let flags = request.flags();
    if flags & libc::IFF_UP != 0 {
        return Ok(());
    }
    request.set_flags((flags | libc::IFF_UP) as i16);
    request.call(fd, libc::SIOCSIFFLAGS as c_ulong).map_err(|e| {
        let what = format!("the interface {name} is down ({e}): ip link set {name} up");
        io::Error::new(e.kind(), what)
    })
}

/// The longest packet of an interface.
///
/// # Errors
///
/// There is no such interface.
pub(crate) fn mtu(name: &str) -> io::Result<usize> {
    let socket = UdpSocket::bind("127.0.0.1:0").or_else(|_| UdpSocket::bind("0.0.0.0:0"))?;
    let mut request = Request::new(name)?;
    request.call(socket.as_raw_fd(), libc::SIOCGIFMTU as c_ulong)?;
    // SAFETY: the call has filled in this member.
    Ok(unsafe { request.0.ifr_ifru.ifru_mtu } as usize)
}
