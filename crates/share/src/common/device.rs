//! This project's kernel module, where it is: a core then goes from one application's worker to
//! another's by one call, which ends one's sleep and begins the other's. (Skyloft 3.3, `switch_to`)
//!
//! The broker opens the device and hands the file to all members: threads that rest through one
//! open file are a group there. Calls and structures are those of `kmod/quaver.h`, which documents
//! them.

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};
use std::os::fd::OwnedFd;
use std::time::Duration;

const MAGIC: u8 = 0xb9;

#[cfg(any(feature = "broker", test))]
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
struct ThreadId {
    tid: i32,
    flags: u32,
}

#[repr(C)]
struct Rest {
    tid: i32,
    cpu: u32,
    limit_ns: u64,
}

#[cfg(feature = "broker")]
const INFO: Opcode = opcode::read::<Info>(MAGIC, 0x10);
const WAKEUP: Opcode = opcode::write::<ThreadId>(MAGIC, 0x22);
const REST: Opcode = opcode::write::<Rest>(MAGIC, 0x24);

/// What becomes of a worker that is woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wake {
    /// It has the core.
    Instead = 1,
    /// It only looks.
    Aside = 2,
}

/// The open file.
#[derive(Debug)]
pub(super) struct Device(pub(super) OwnedFd);

/// The device, if it is there, may be opened, and knows these calls.
#[cfg(feature = "broker")]
pub(crate) fn open_device() -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags, open};
    const ABI: u32 = 1;
    const HAS_REST: u32 = 1 << 3;
    let file = open("/dev/quaver", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()?;
    // SAFETY: the kernel fills a structure of this size.
    let info = unsafe { ioctl(&file, rustix::ioctl::Getter::<INFO, Info>::new()) }.ok()?;
    (info.abi == ABI && info.features & HAS_REST != 0).then_some(file)
}

impl Device {
    /// Wakes a worker. `false`: it does not rest here.
    pub(super) fn wake(&self, tid: u32, how: Wake) -> bool {
        let thread = ThreadId { tid: tid as i32, flags: how as u32 };
        // SAFETY: the kernel reads the structure.
        unsafe { ioctl(&self.0, Setter::<WAKEUP, _>::new(thread)) }.is_ok()
    }

    /// The core is that of `next` from now on (0: nobody's), and the calling thread sleeps until it
    /// is woken; if it is already, not at all. `TIME`: that takes too long. `INTR`: a signal came.
    /// `SRCH`: `next` does not rest here, and nothing was done.
    pub(super) fn rest(&self, next: u32, cpu: u32, limit: Duration) -> Result<(), Errno> {
        let limit_ns = (limit.as_nanos() as u64).max(1);
        let rest = Rest { tid: next as i32, cpu, limit_ns };
        // SAFETY: the kernel reads the structure.
        unsafe { ioctl(&self.0, Setter::<REST, _>::new(rest)) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn calls_and_values_are_those_of_the_header() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kmod/quaver.h");
        let header = std::fs::read_to_string(path).expect("it is there");
        for line in [
            "#define QUAVER_ABI 1 ",
            "#define QUAVER_HAS_REST (1U << 3) ",
            "#define QUAVER_WAKE_INSTEAD (1U << 0) ",
            "#define QUAVER_WAKE_ASIDE (1U << 1) ",
            "#define QUAVER_MAGIC 0xb9\n",
            "#define QUAVER_INFO _IOR(QUAVER_MAGIC, 0x10, struct quaver_info)",
            "#define QUAVER_WAKEUP _IOW(QUAVER_MAGIC, 0x22, struct quaver_thread_id)",
            "#define QUAVER_REST _IOW(QUAVER_MAGIC, 0x24, struct quaver_rest)",
        ] {
            assert!(header.contains(line), "{line}");
        }
        let sizes = [size_of::<Info>(), size_of::<ThreadId>(), size_of::<Rest>()];
        assert_eq!(sizes, [128, 8, 16]);
    }
}
