//! TAP: an interface whose frames the kernel hands to a program.
//!
//! The kernel has one end, with an address and routes that `ip` gives it; the stack has the other.
//! An interface that was made here disappears with the process.

use crate::device::{Device, take_up_to};
use crate::sys::{self, Request};
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

const DRIVER: &str = "/dev/net/tun";
/// Frames that wait for a flush at most.
const MOST_QUEUED: usize = 64;
/// The header of Ethernet, with a VLAN.
const HEADER: usize = 18;

/// A queue of a TAP interface.
#[derive(Debug)]
pub struct Tap {
    file: File,
    name: String,
    address: [u8; 6],
    mtu: usize,
    /// What is being received.
    frame: Vec<u8>,
    /// Frames to send, one after the other; how many of them there are, and their ends.
    queued: Vec<u8>,
    ends: Vec<usize>,
}

impl Tap {
    /// Opens the interface `name` with so many queues, and sets it up; makes it if there is none.
    ///
    /// # Errors
    ///
    /// With what to do: the driver is missing; no right to make interfaces; the interface is in
    /// use, or of another kind; it is down, and there is no right to change that.
    pub fn open(name: &str, queues: usize) -> io::Result<Vec<Tap>> {
        let mut address = RandomState::new().hash_one(name).to_be_bytes();
        // Given by whoever is here, and of one interface.
        address[0] = 0x02;
        let [a, b, c, d, e, f, ..] = address;
        let mut taps = Vec::new();
        for _ in 0..queues.max(1) {
            let file = attach(name, queues > 1)?;
            taps.push(Tap {
                file,
                name: name.to_owned(),
                address: [a, b, c, d, e, f],
                mtu: 0,
                frame: Vec::new(),
                queued: Vec::new(),
                ends: Vec::new(),
            });
        }
        sys::set_up(name)?;
        let mtu = sys::mtu(name)?;
        for tap in &mut taps {
            tap.mtu = mtu;
            tap.frame = vec![0; mtu + HEADER];
        }
        Ok(taps)
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn attach(name: &str, several: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
    let file = options.open(DRIVER).map_err(|e| {
        let what = match e.kind() {
            ErrorKind::NotFound => "the kernel's TAP driver is missing: modprobe tun".to_owned(),
            _ => format!("{DRIVER} cannot be opened: {e}"),
        };
        io::Error::new(e.kind(), what)
    })?;
    let mut request = Request::new(name)?;
    let several = if several { libc::IFF_MULTI_QUEUE } else { 0 };
    request.set_flags((libc::IFF_TAP | libc::IFF_NO_PI | several) as i16);
    request.call(file.as_raw_fd(), libc::TUNSETIFF as libc::c_ulong).map_err(|e| {
        let what = match e.raw_os_error() {
            Some(libc::EPERM) => format!(
                "no right to make the interface {name}: run as root, or prepare it \
                 (ip tuntap add dev {name} mode tap user \"$USER\")"
            ),
            Some(libc::EBUSY) => format!("the interface {name} is in use by another program"),
            Some(libc::EINVAL) => {
                format!("{name} is no TAP interface, or it was made for another number of queues")
            }
            _ => format!("the interface {name} cannot be opened: {e}"),
        };
        io::Error::new(e.kind(), what)
    })?;
    Ok(file)
}

impl Device for Tap {
    fn address(&self) -> [u8; 6] {
        self.address
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn receive(&mut self, most: usize, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        take_up_to(most, || {
            loop {
                match self.file.read(&mut self.frame) {
                    Ok(len) => take(&self.frame[..len]),
                    Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                    Err(e) => return Err(e),
                }
                return Ok(true);
            }
        })
    }

    fn transmit(&mut self, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> bool {
        if self.ends.len() >= MOST_QUEUED {
            return false;
        }
        let at = self.queued.len();
        self.queued.resize(at + len, 0);
        fill(&mut self.queued[at..]);
        self.ends.push(at + len);
        true
    }

    fn flush(&mut self) -> io::Result<bool> {
        let (mut start, mut sent) = (0, 0);
        let mut result = Ok(true);
        for &end in &self.ends {
            match self.file.write(&self.queued[start..end]) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    result = Ok(false);
                    break;
                }
                Err(e) if e.raw_os_error() == Some(libc::EBADFD) => {
                    result = Err(e);
                    break;
                }
                // A frame that the kernel does not want is lost, as on any wire: the interface is
                // down, say.
                _ => (start, sent) = (end, sent + 1),
            }
        }
        self.queued.drain(..start);
        self.ends.drain(..sent);
        for end in &mut self.ends {
            *end -= start;
        }
        result
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}
