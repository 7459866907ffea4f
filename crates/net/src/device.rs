//! What frames go through.
//!
//! One `Device` is one queue of an interface: who has it, has it alone. An interface with several
//! queues (RSS) is as many devices, each with a stack of its own behind it.

use std::io;
use std::os::fd::BorrowedFd;

/// Who computes and verifies the checksums of IP, TCP and UDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checksums {
    /// The stack.
    Stack,
    /// The device, or nobody has to: frames do not leave the machine.
    Device,
}

/// For [`Device::receive`]: takes frames by `one`, which says whether there was one, up to `most`.
///
/// # Errors
///
/// Those of `one`, if there was no frame before. Otherwise the next call finds the error again.
pub(crate) fn take_up_to(
    most: usize,
    mut one: impl FnMut() -> io::Result<bool>,
) -> io::Result<usize> {
    for count in 0..most {
        match one() {
            Ok(true) => {}
            Err(e) if count == 0 => return Err(e),
            Ok(false) | Err(_) => return Ok(count),
        }
    }
    Ok(most)
}

/// A queue of an interface, which carries Ethernet frames.
pub trait Device: Send {
    /// The interface's hardware address.
    fn address(&self) -> [u8; 6];

    /// The longest IP packet, in bytes: a frame without its Ethernet header.
    fn mtu(&self) -> usize;

    /// Who computes checksums.
    fn checksums(&self) -> Checksums {
        Checksums::Stack
    }

    /// Takes up to `most` frames that have come, and lends each to `take`. How many there were; 0:
    /// there is none. Does not wait.
    ///
    /// # Errors
    ///
    /// The interface has gone. What has come before is reported first.
    fn receive(&mut self, most: usize, take: &mut dyn FnMut(&[u8])) -> io::Result<usize>;

    /// Puts a frame of `len` bytes, which `fill` writes, into the queue. `false`: there is no room,
    /// and nothing was called. It is sent at the latest by the next [`flush`](Device::flush).
    fn transmit(&mut self, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> bool;

    /// Sends what is in the queue. `false`: something is left, because the kernel's queue is full;
    /// call again, soon.
    ///
    /// # Errors
    ///
    /// The interface has gone.
    fn flush(&mut self) -> io::Result<bool>;

    /// Shows the kernel what is in the queue, for a device with a [`bell`](Device::bell). Has the
    /// kernel to be told, because it does not look by itself?
    fn publish(&mut self) -> bool {
        true
    }

    /// A file by which anybody sends what was [published](Device::publish), at any time: with an
    /// empty `sendto`. `None`: only [`flush`](Device::flush) sends.
    fn bell(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// A file that is readable while there are frames to receive, for a thread that waits for them;
    /// `None`: somebody has to look.
    fn file(&self) -> Option<BorrowedFd<'_>>;
}
