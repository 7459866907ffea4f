//! For tests whose runtime shares cores with other processes.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// There is one runtime in a process.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The CPUs that this process may use.
pub fn cpus() -> Vec<usize> {
    // SAFETY: all bits zero is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is of the size given.
    let got = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) };
    assert_eq!(got, 0);
    // SAFETY: the number is below the set's size.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}
