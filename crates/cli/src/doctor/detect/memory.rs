//! What stacks need of the memory manager.

use serde::Serialize;

use super::read_number;

/// What stacks need of the memory manager.
#[derive(Clone, Debug, Serialize)]
pub struct Memory {
    /// Mappings that a process may have (`vm.max_map_count`).
    pub max_map_count: Option<u64>,
    /// 0 guesses, 1 always grants, 2 counts every reserved page (`vm.overcommit_memory`).
    pub overcommit: Option<u32>,
}

pub(super) fn detect() -> Memory {
    Memory {
        max_map_count: read_number("/proc/sys/vm/max_map_count"),
        overcommit: read_number("/proc/sys/vm/overcommit_memory"),
    }
}
