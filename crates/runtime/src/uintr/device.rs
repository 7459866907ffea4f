//! `/dev/quaver`: user interrupts on stock kernels, by this project's module. The calls are those
//! of `kmod/quaver.h`, which documents them.

use super::{KernelInterface, Provider, REQUEST, Receiver, TICK};
use crate::arch::user_interrupt::STACK_ADJUST;
use crate::sys;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const PATH: &str = "/dev/quaver";
/// What calls mean; another number means something else.
const ABI: u32 = 1;
/// Features.
const HAS_UINTR: u32 = 1 << 0;
const HAS_TIMER: u32 = 1 << 1;

#[repr(C)]
struct Info {
    abi: u32,
    features: u32,
    entries: u32,
    hardware_vector: u32,
    timer_min_ns: u64,
    timer_max_ns: u64,
    why: [u8; 96],
}

#[repr(C)]
struct Handler {
    handler: u64,
    stack: u64,
    flags: u32,
    reserved: u32,
}

#[repr(C)]
struct Vector {
    vector: u32,
    flags: u32,
}

#[repr(C)]
struct Route {
    index: i32,
    vector_fd: i32,
    flags: u32,
    reserved: u32,
}

#[repr(C)]
struct Timer {
    period_ns: u64,
    vector: u32,
    flags: u32,
}

const READ: u64 = 2;
const WRITE: u64 = 1;

/// The number of a call, as the kernel's headers put it together.
const fn call<T>(direction: u64, number: u64) -> u64 {
    direction << 30 | (size_of::<T>() as u64) << 16 | 0xb9 << 8 | number
}

const INFO: u64 = call::<Info>(READ, 0x10);
const REGISTER: u64 = call::<Handler>(WRITE, 0x11);
const ATTACH: u64 = call::<()>(0, 0x12);
const DETACH: u64 = call::<()>(0, 0x13);
const VECTOR: u64 = call::<Vector>(WRITE, 0x14);
const ROUTE: u64 = call::<Route>(WRITE, 0x15);
const TIMER_SET: u64 = call::<Timer>(READ | WRITE, 0x16);
const TIMER_ENABLE: u64 = call::<()>(0, 0x17);
const TIMER_DISABLE: u64 = call::<()>(0, 0x18);

/// An open file of the device, with the table of routes that belongs to it. Stays open.
pub(super) struct Device {
    fd: i32,
    entries: usize,
    has_timer: bool,
}

/// Is there such a device, whatever it can do?
pub(super) fn is_there() -> bool {
    Path::new(PATH).exists()
}

/// The device of this process, opened at the first call.
///
/// # Errors
///
/// Why there is none, as a part of a sentence.
pub(super) fn open() -> Result<&'static Device, String> {
    static OPEN: Mutex<Option<(u32, &'static Device)>> = Mutex::new(None);
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    match *open {
        // A child of a fork shares its parent's file, and with it the parent's table.
        Some((process, device)) if process == std::process::id() => Ok(device),
        _ => {
            let device: &'static Device = Box::leak(Box::new(Device::new()?));
            *open = Some((std::process::id(), device));
            Ok(device)
        }
    }
}

impl Device {
    fn new() -> Result<Device, String> {
        // SAFETY: a C string.
        let fd = unsafe { libc::open(c"/dev/quaver".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        if fd < 0 {
            let error = io::Error::last_os_error();
            return Err(match error.kind() {
                io::ErrorKind::NotFound => "load this project's module (kmod/README.md)".into(),
                io::ErrorKind::PermissionDenied => {
                    "/dev/quaver may not be opened: change its mode or owner".into()
                }
                _ => format!("/dev/quaver cannot be opened: {error}"),
            });
        }
        Self::of(fd).inspect_err(|_| {
            // SAFETY: opened above, and nobody else has it.
            unsafe { libc::close(fd) };
        })
    }

    fn of(fd: i32) -> Result<Device, String> {
        // SAFETY: all zero is an empty one.
        let mut info: Info = unsafe { core::mem::zeroed() };
        // SAFETY: the kernel fills the structure.
        let known = unsafe { ioctl(fd, INFO, &raw mut info) };
        known.map_err(|error| format!("/dev/quaver is no device of this project: {error}"))?;
        if info.abi != ABI {
            return Err(format!("the module has interface {}, this program {ABI}", info.abi));
        }
        if info.features & HAS_UINTR == 0 {
            let end = info.why.iter().position(|&b| b == 0).unwrap_or(info.why.len());
            return Err(format!("the module says: {}", info.why[..end].escape_ascii()));
        }
        let has_timer = info.features & HAS_TIMER != 0;
        Ok(Device { fd, entries: info.entries as usize, has_timer })
    }

    /// A descriptor that stands for a vector of the calling thread.
    fn vector(&self, vector: u32) -> io::Result<i32> {
        let mut vector = Vector { vector, flags: 0 };
        // SAFETY: the kernel reads the structure.
        unsafe { ioctl(self.fd, VECTOR, &raw mut vector) }
    }

    fn lead(&self, number: usize, vector_fd: i32) -> io::Result<()> {
        if number >= self.entries {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let mut route = Route { index: number as i32, vector_fd, flags: 0, reserved: 0 };
        // SAFETY: the kernel reads the structure.
        unsafe { ioctl(self.fd, ROUTE, &raw mut route) }.map(drop)
    }

    fn simple(&self, call: u64) -> io::Result<()> {
        // SAFETY: a call without a structure.
        unsafe { ioctl(self.fd, call, core::ptr::null_mut::<()>()) }.map(drop)
    }
}

/// # Safety
///
/// As for the call.
unsafe fn ioctl<T>(fd: i32, call: u64, argument: *mut T) -> io::Result<i32> {
    // SAFETY: the caller's contract.
    match unsafe { sys::syscall3(libc::SYS_ioctl, fd as u64, call, argument as u64) } {
        error @ ..0 => Err(io::Error::from_raw_os_error(-error as i32)),
        value => Ok(value as i32),
    }
}

fn close(fd: i32) {
    // SAFETY: the caller's own descriptor.
    unsafe { sys::syscall3(libc::SYS_close, fd as u64, 0, 0) };
}

impl KernelInterface for Device {
    fn provider(&self) -> Provider {
        Provider::Module
    }

    fn register(&self, handler: usize) -> io::Result<Receiver> {
        let mut handler =
            Handler { handler: handler as u64, stack: STACK_ADJUST, flags: 0, reserved: 0 };
        // SAFETY: the kernel reads the structure; the entry keeps to its contract.
        unsafe { ioctl(self.fd, REGISTER, &raw mut handler) }?;
        self.vector(REQUEST).map(Receiver).inspect_err(|_| {
            let _ = self.simple(DETACH);
        })
    }

    fn unregister(&self, receiver: Receiver) {
        let _ = self.simple(DETACH);
        if receiver.exists() {
            close(receiver.0);
        }
    }

    fn attach(&self) -> io::Result<()> {
        self.simple(ATTACH)
    }

    fn route(&self, number: usize, receiver: Receiver) -> io::Result<()> {
        self.lead(number, receiver.0)
    }

    fn operand(&self, number: usize) -> Option<u64> {
        (number < self.entries).then_some(number as u64)
    }

    fn start_timer(&self, number: usize, period: Duration) -> io::Result<Duration> {
        if !self.has_timer {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let mut timer = Timer { period_ns, vector: TICK, flags: 0 };
        // SAFETY: the kernel reads and writes the structure.
        unsafe { ioctl(self.fd, TIMER_SET, &raw mut timer) }?;
        // The route keeps the vector, so the descriptor need not stay.
        let own = self.vector(TICK)?;
        let led = self.lead(number, own);
        close(own);
        led?;
        match self.simple(TIMER_ENABLE) {
            Err(error) if error.raw_os_error() != Some(libc::EBUSY) => Err(error),
            _ => Ok(Duration::from_nanos(timer.period_ns)),
        }
    }

    fn stop_timer(&self) {
        let _ = self.simple(TIMER_DISABLE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of the header that define calls: name, direction, number, structure.
    fn calls() -> Vec<(String, String, u64)> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kmod/quaver.h");
        let header = std::fs::read_to_string(path).unwrap();
        let of = |line: &str| {
            let (name, value) = line.strip_prefix("#define QUAVER_")?.split_once(' ')?;
            let (direction, rest) = value.strip_prefix("_IO")?.split_once("(QUAVER_MAGIC, 0x")?;
            let number = rest.split(&[',', ')']).next()?;
            Some((name.into(), direction.into(), u64::from_str_radix(number, 16).ok()?))
        };
        header.lines().filter_map(of).collect()
    }

    #[test]
    fn calls_are_those_of_the_header() {
        let calls = calls();
        for (name, ours) in [
            ("INFO", INFO),
            ("REGISTER", REGISTER),
            ("ATTACH", ATTACH),
            ("DETACH", DETACH),
            ("VECTOR", VECTOR),
            ("ROUTE", ROUTE),
            ("TIMER_SET", TIMER_SET),
            ("TIMER_ENABLE", TIMER_ENABLE),
            ("TIMER_DISABLE", TIMER_DISABLE),
        ] {
            let direction = ["", "W", "R", "WR"][(ours >> 30) as usize];
            let expected = (name.to_owned(), direction.to_owned(), ours & 0xff);
            assert!(calls.contains(&expected), "{expected:?} is not in {calls:?}");
        }
    }

    #[test]
    fn structures_have_the_headers_sizes() {
        assert_eq!((size_of::<Info>(), size_of::<Handler>()), (128, 24));
        assert_eq!((size_of::<Vector>(), size_of::<Route>(), size_of::<Timer>()), (8, 16, 16));
    }

    #[test]
    fn a_machine_without_the_module_says_what_to_do() {
        if !is_there() {
            assert!(open().err().unwrap().contains("kmod/README.md"));
        }
    }
}
