//! Messages to the user, written without locks: the program may be in any state.

use core::fmt::{Arguments, Write};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

struct Line {
    bytes: [u8; 512],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, s: &str) -> core::fmt::Result {
        let n = s.len().min(self.bytes.len() - 1 - self.len);
        self.bytes[self.len..self.len + n].copy_from_slice(&s.as_bytes()[..n]);
        self.len += n;
        Ok(())
    }
}

/// Writes `quaver run: ...` to standard error.
#[cold]
pub(crate) fn say(message: Arguments<'_>) {
    say_to(2, message);
}

/// [`say`], to another file.
pub(crate) fn say_to(fd: i32, message: Arguments<'_>) {
    let mut line = Line { bytes: [0; 512], len: 0 };
    let _ = write!(line, "quaver run: {message}");
    line.bytes[line.len] = b'\n';
    let args = [fd as usize, line.bytes.as_ptr() as usize, line.len + 1, 0, 0, 0];
    // SAFETY: a write from our own buffer.
    let _ = unsafe { crate::sys::call(libc::SYS_write, args) };
}

/// [`say`], and ends the process with the status of `quaver run` itself.
#[cold]
pub(crate) fn fatal(message: Arguments<'_>) -> ! {
    say(message);
    // SAFETY: ends the process.
    unsafe { libc::_exit(125) }
}

/// Messages that are given once.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Once {
    Robust,
    RobustCond,
    Priority,
    Stack,
    KernelThread,
    Clone,
    Strict,
}

/// [`say`], the first time.
#[cold]
pub(crate) fn once(which: Once, message: Arguments<'_>) {
    static SAID: AtomicU64 = AtomicU64::new(0);
    let bit = 1 << which as u32;
    if SAID.fetch_or(bit, Relaxed) & bit == 0 {
        say(message);
    }
}
