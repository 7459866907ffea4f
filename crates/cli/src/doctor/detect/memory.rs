//! What stacks need of the memory manager.

use serde::Serialize;

use super::{last_error, read_number};

/// `MADV_GUARD_INSTALL` (Linux 6.13): guard pages without a mapping of their own.
const MADV_GUARD_INSTALL: libc::c_int = 102;

/// What stacks need of the memory manager.
#[derive(Clone, Debug, Serialize)]
pub struct Memory {
    /// Guard pages could be installed by `madvise`; otherwise why not.
    pub guard_install: Result<(), String>,
    /// Mappings that a process may have (`vm.max_map_count`).
    pub max_map_count: Option<u64>,
    /// 0 guesses, 1 always grants, 2 counts every reserved page (`vm.overcommit_memory`).
    pub overcommit: Option<u32>,
}

pub(super) fn detect() -> Memory {
    Memory {
        guard_install: try_guard(),
        max_map_count: read_number("/proc/sys/vm/max_map_count"),
        overcommit: read_number("/proc/sys/vm/overcommit_memory"),
    }
}

fn try_guard() -> Result<(), String> {
    const LENGTH: usize = 8192;
    // SAFETY: a fresh private mapping that only this function knows, and unmaps.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            LENGTH,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page == libc::MAP_FAILED {
            return Err(last_error());
        }
        let done = libc::madvise(page, LENGTH / 2, MADV_GUARD_INSTALL);
        let result = if done == 0 { Ok(()) } else { Err(last_error()) };
        libc::munmap(page, LENGTH);
        result
    }
}
