//! The XDP program (`bpf/redirect.c`): loading it and attaching it to an interface.
//!
//! It is attached by a BPF link, which is a file: when the process ends, however it ends, the link
//! does, and the program goes.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

use aya::maps::{HashMap, MapError, XskMap};
use aya::programs::xdp::XdpMode;
use aya::programs::{ProgramError, Xdp, links::FdLink};
use aya::{Ebpf, EbpfError, EbpfLoader};

use super::error::Error;
use super::interface::Interface;
use super::{Filter, Mode};

/// Empty if there was no clang.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/redirect.o"));

/// For how long another program may be there: that of a process that has just ended.
const PATIENCE: Duration = Duration::from_secs(1);

/// The program in the kernel, not yet attached.
pub(super) struct Program {
    ebpf: Ebpf,
}

/// While it lives, frames are redirected.
#[derive(Debug)]
pub(crate) struct Attachment {
    // Dropping it closes the file.
    _link: FdLink,
}

impl Program {
    /// Is it here?
    pub(super) fn check() -> Result<(), Error> {
        if OBJECT.is_empty() { Err(Error::Unbuilt) } else { Ok(()) }
    }

    /// Loads the program for one interface.
    pub(super) fn load(interface: &Interface, filter: &Filter) -> Result<Program, Error> {
        Self::check()?;
        let (all, addresses): (u32, &[Ipv4Addr]) = match filter {
            Filter::All => (1, &[]),
            Filter::Addresses(addresses) => (0, addresses),
        };
        let failed = |why| failed(interface, "load the XDP program", why);
        let mut ebpf = EbpfLoader::new()
            .override_global("all_frames", &all, true)
            .map_max_entries("sockets", interface.queues)
            .map_max_entries("addresses", addresses.len().max(1) as u32)
            .load(OBJECT)
            .map_err(|error| failed(cause(error)))?;
        let map = ebpf.map_mut("addresses").expect("the program has it");
        let mut map: HashMap<_, u32, u8> = map.try_into().expect("it is such a map");
        for address in addresses {
            let key = u32::from_ne_bytes(address.octets());
            map.insert(key, 1, 0).map_err(|error| failed(cause_of_map(error)))?;
        }
        let program: &mut Xdp = program(&mut ebpf);
        program.load().map_err(|error| failed(cause_of_program(error)))?;
        Ok(Program { ebpf })
    }

    /// Frames of this queue go to this socket.
    pub(super) fn connect(
        &mut self,
        interface: &Interface,
        queue: u32,
        socket: BorrowedFd<'_>,
    ) -> Result<(), Error> {
        let map = self.ebpf.map_mut("sockets").expect("the program has it");
        let mut map: XskMap<_> = map.try_into().expect("it is such a map");
        map.set(queue, socket.as_raw_fd(), 0)
            .map_err(|error| failed(interface, "enter a socket", cause_of_map(error)))
    }

    /// Attaches it.
    pub(super) fn attach(mut self, interface: &Interface, mode: Mode) -> Result<Attachment, Error> {
        let how = match mode {
            Mode::ZeroCopy | Mode::Native => XdpMode::Driver,
            Mode::Skb => XdpMode::Skb,
        };
        let end = Instant::now() + PATIENCE;
        let attached = loop {
            match program(&mut self.ebpf).attach_to_if_index(interface.index, how) {
                Ok(id) => break id,
                Err(error) => {
                    let why = cause_of_program(error);
                    if why.raw_os_error() != Some(libc::EBUSY) {
                        return Err(attaching(interface, mode, why));
                    }
                    if Instant::now() > end {
                        return Err(Error::InterfaceInUse(interface.name.clone()));
                    }
                    thread::sleep(Duration::from_millis(2));
                }
            }
        };
        let link = program(&mut self.ebpf).take_link(attached).expect("it has just been made");
        // On an old kernel the library attaches in another way, which would outlive the process.
        match link.try_into() {
            Ok(link) => Ok(Attachment { _link: link }),
            Err(_) => Err(Error::NoKernelSupport),
        }
    }
}

fn program(ebpf: &mut Ebpf) -> &mut Xdp {
    let program = ebpf.program_mut("redirect").expect("the object has it");
    program.try_into().expect("it is an XDP program")
}

fn failed(interface: &Interface, what: &'static str, why: io::Error) -> Error {
    let interface = interface.name.clone();
    match why.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Error::NoRights { interface, what },
        _ => Error::Kernel { interface, what, why },
    }
}

fn attaching(interface: &Interface, mode: Mode, why: io::Error) -> Error {
    match why.raw_os_error() {
        Some(libc::EPERM) => failed(interface, "attach the XDP program", why),
        Some(libc::ENODEV) => Error::NoInterface(interface.name.clone()),
        _ => Error::Mode { interface: interface.name.clone(), mode, why: why.to_string() },
    }
}

/// What the kernel has said, of what the library says.
fn cause(error: EbpfError) -> io::Error {
    match error {
        EbpfError::MapError(error) => cause_of_map(error),
        EbpfError::ProgramError(error) => cause_of_program(error),
        other => io::Error::other(other),
    }
}

fn cause_of_map(error: MapError) -> io::Error {
    match error {
        MapError::CreateError { io_error, .. } => io_error,
        MapError::SyscallError(error) => error.io_error,
        other => io::Error::other(other),
    }
}

fn cause_of_program(error: ProgramError) -> io::Error {
    match error {
        ProgramError::SyscallError(error) => error.io_error,
        ProgramError::LoadError { io_error, verifier_log } => match io_error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) if verifier_log.to_string().is_empty() => io_error,
            _ => io::Error::other(format!("{io_error}: {verifier_log}")),
        },
        ProgramError::XdpError(error) => io::Error::other(error),
        other => io::Error::other(other),
    }
}
