//! What the kernel says of an interface.

use std::ffi::CString;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::error::Error;

/// From `linux/ethtool.h` and `linux/sockios.h`.
const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x3;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// An interface, as it was when it was asked.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    pub name: String,
    pub index: u32,
    pub address: [u8; 6],
    /// The longest packet, in bytes.
    pub mtu: usize,
    /// Over how many queues it spreads what it receives.
    pub queues: u32,
    /// The name of its driver; empty if it has none.
    pub driver: String,
}

impl Interface {
    /// Asks for the interface `name` of this thread's network namespace.
    pub(crate) fn find(name: &str) -> Result<Interface, Error> {
        let missing = || Error::NoInterface(name.to_owned());
        let c_name = CString::new(name).map_err(|_| missing())?;
        // SAFETY: the name ends with a zero.
        let index = unsafe { libc::if_nametoindex(c_name.as_ptr()) };
        if index == 0 || name.len() >= libc::IFNAMSIZ {
            return Err(missing());
        }
        let failed = |why| Error::Kernel { interface: name.to_owned(), what: "ask", why };
        let asker = Asker::new(name).map_err(failed)?;
        let (family, address) = asker.address().map_err(failed)?;
        if family != libc::ARPHRD_ETHER {
            return Err(Error::NoEthernet(name.to_owned()));
        }
        Ok(Interface {
            name: name.to_owned(),
            index,
            address,
            mtu: asker.mtu().map_err(failed)?,
            queues: asker.queues().unwrap_or(1),
            driver: asker.driver().unwrap_or_default(),
        })
    }

    /// Are its frames made by this machine's kernel, which leaves checksums and cutting to hardware
    /// that there is not?
    pub(crate) fn is_virtual_pair(&self) -> bool {
        self.driver == "veth"
    }
}

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// Asks by `ioctl`.
struct Asker {
    socket: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl Asker {
    /// `name` is shorter than `IFNAMSIZ`.
    fn new(name: &str) -> io::Result<Asker> {
        // SAFETY: no memory is involved.
        let socket =
            unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut bytes = [0; libc::IFNAMSIZ];
        for (to, from) in bytes.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        // SAFETY: it has just been opened, and nobody else has it.
        Ok(Asker { socket: unsafe { OwnedFd::from_raw_fd(socket) }, name: bytes })
    }

    fn ask(&self, what: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
        request.ifr_name = self.name;
        // SAFETY: all requests of this file take an `ifreq`; what it points to outlives the call,
        // and is as long as the command in it says.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), what, request) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn mtu(&self) -> io::Result<usize> {
        // SAFETY: zeros are valid for it.
        let mut request: libc::ifreq = unsafe { zeroed() };
        self.ask(libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: the kernel has written it.
        Ok(usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
    }

    /// What kind of address, and the address.
    fn address(&self) -> io::Result<(u16, [u8; 6])> {
        // SAFETY: zeros are valid for it.
        let mut request: libc::ifreq = unsafe { zeroed() };
        self.ask(libc::SIOCGIFHWADDR, &mut request)?;
        // SAFETY: the kernel has written it.
        let found = unsafe { request.ifr_ifru.ifru_hwaddr };
        let mut address = [0; 6];
        for (to, from) in address.iter_mut().zip(found.sa_data) {
            *to = from as u8;
        }
        Ok((found.sa_family, address))
    }

    fn ethtool<T>(&self, data: &mut T) -> io::Result<()> {
        // SAFETY: zeros are valid for it.
        let mut request: libc::ifreq = unsafe { zeroed() };
        request.ifr_ifru.ifru_data = (&raw mut *data).cast();
        self.ask(SIOCETHTOOL, &mut request)
    }

    fn queues(&self) -> io::Result<u32> {
        let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
        self.ethtool(&mut channels)?;
        Ok((channels.receive + channels.combined).max(1))
    }

    fn driver(&self) -> io::Result<String> {
        let mut info = DriverInfo { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
        self.ethtool(&mut info)?;
        let name = info.driver.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(name).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_refused_and_so_is_what_is_not_there() {
        assert!(matches!(Interface::find("lo"), Err(Error::NoEthernet(_))));
        for name in ["quaver-none", "an-interface-with-a-long-name", "a\0b", ""] {
            assert!(matches!(Interface::find(name), Err(Error::NoInterface(_))), "{name}");
        }
    }
}
