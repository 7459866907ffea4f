//! Which ports are taken.

use crate::stack::errno;
use quaver::sched::random::splitmix64;
use std::collections::HashSet;
use std::io;

/// Ports that are given to those who do not ask for one, as the kernel's.
const FIRST: u16 = 32_768;
const LAST: u16 = 60_999;

/// The ports of a protocol.
#[derive(Debug)]
pub(crate) struct Ports {
    taken: HashSet<u16>,
    next: u16,
}

impl Ports {
    pub(crate) fn new(mut seed: u64) -> Ports {
        let next = FIRST + (splitmix64(&mut seed) % u64::from(LAST - FIRST)) as u16;
        Ports { taken: HashSet::new(), next }
    }

    /// Takes this port; 0: any that is free.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`
    pub(crate) fn take(&mut self, port: u16) -> io::Result<u16> {
        let port = match port {
            0 => self.candidates().find(|port| !self.taken.contains(port)),
            port => Some(port).filter(|port| !self.taken.contains(port)),
        };
        let port = port.ok_or_else(|| errno(libc::EADDRINUSE))?;
        self.next = port;
        self.taken.insert(port);
        Ok(port)
    }

    /// All ports that are given away by themselves, each once, beginning after the last given.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = u16> + use<> {
        let start = if (FIRST..LAST).contains(&self.next) { self.next + 1 } else { FIRST };
        (start..=LAST).chain(FIRST..start)
    }

    /// Is it bound?
    pub(crate) fn is_taken(&self, port: u16) -> bool {
        self.taken.contains(&port)
    }

    /// This one was used, without being taken.
    pub(crate) fn used(&mut self, port: u16) {
        self.next = port;
    }

    pub(crate) fn release(&mut self, port: u16) {
        self.taken.remove(&port);
    }
}
