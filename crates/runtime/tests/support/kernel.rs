//! Files whose calls wait in the kernel: made without the functions that park user threads.

use libc::{SYS_poll, SYS_read, SYS_write, c_int, c_long, pollfd};
use std::io::{self, Error, Read, Write};
use std::os::fd::{AsRawFd, RawFd};

/// A file that is read and written by system calls.
#[derive(Debug)]
pub struct InKernel<T>(pub T);

/// A pipe's ends.
pub fn pipe() -> io::Result<(InKernel<io::PipeReader>, InKernel<io::PipeWriter>)> {
    let (rx, tx) = io::pipe()?;
    Ok((InKernel(rx), InKernel(tx)))
}

fn result(r: c_long) -> io::Result<usize> {
    usize::try_from(r).map_err(|_| Error::last_os_error())
}

/// The call; its result or error.
pub fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: writes at most so many bytes there.
    result(unsafe { libc::syscall(SYS_read, fd, buffer.as_mut_ptr(), buffer.len()) })
}

/// Until something can be read from it.
pub fn wait_readable(fd: RawFd) -> io::Result<usize> {
    let mut file = pollfd { fd, events: libc::POLLIN, revents: 0 };
    let for_ever: c_int = -1;
    // SAFETY: one entry.
    result(unsafe { libc::syscall(SYS_poll, &raw mut file, 1 as c_long, for_ever) })
}

impl<T: AsRawFd> Read for InKernel<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read(self.0.as_raw_fd(), buffer)
    }
}

impl<T: AsRawFd> Write for InKernel<T> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let fd = self.0.as_raw_fd();
        // SAFETY: reads so many bytes there.
        result(unsafe { libc::syscall(SYS_write, fd, buffer.as_ptr(), buffer.len()) })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<T: AsRawFd> AsRawFd for InKernel<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
