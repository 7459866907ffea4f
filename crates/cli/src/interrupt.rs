//! Ctrl-C and requests to terminate: noticed once, obeyed in order; the second one ends the process
//! at once.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe;

/// Remembers whether the process was asked to stop.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    signal: Arc<AtomicUsize>,
}

/// A signal that asked the process to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal(i32);

impl Signal {
    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self.0 {
            SIGHUP => "SIGHUP",
            SIGINT => "SIGINT",
            _ => "SIGTERM",
        }
    }

    /// The exit code by which shells tell that a process ended by a signal.
    pub fn exit_code(self) -> u8 {
        128 + self.0 as u8
    }
}

impl Interrupt {
    /// Takes over SIGINT, SIGTERM and SIGHUP for the rest of the process.
    ///
    /// # Errors
    ///
    /// The kernel refuses a handler.
    pub fn install() -> io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let again = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Handlers run in the order of their registration: the first signal finds `again`
            // unset.
            let code = i32::from(Signal(signal).exit_code());
            flag::register_conditional_shutdown(signal, code, Arc::clone(&again))?;
            flag::register(signal, Arc::clone(&again))?;
            flag::register_usize(signal, Arc::clone(&interrupt.signal), signal as usize)?;
        }
        Ok(interrupt)
    }

    /// Waits for a signal, in the kernel.
    ///
    /// # Errors
    ///
    /// The system has no descriptors left.
    pub fn wait(&self) -> io::Result<Signal> {
        let (mut reader, writer) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            pipe::register(signal, writer.try_clone()?)?;
        }
        loop {
            // One may have come before there was a pipe.
            if let Some(signal) = self.raised() {
                return Ok(signal);
            }
            match reader.read(&mut [0]) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
    }

    /// The signal that came, if one did.
    pub fn raised(&self) -> Option<Signal> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(Signal(signal as i32)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_shells() {
        assert_eq!((Signal(SIGINT).exit_code(), Signal(SIGINT).name()), (130, "SIGINT"));
        assert_eq!((Signal(SIGTERM).exit_code(), Signal(SIGTERM).name()), (143, "SIGTERM"));
    }

    #[test]
    fn nothing_is_raised_by_itself() {
        assert_eq!(Interrupt::default().raised(), None);
    }
}
