//! System calls: at the `syscall` instruction a thread may be handed over.

use super::{Scenario, mix};
use crate::boundaries::stepper::step;
use std::io::{Read, Write, pipe};

pub(super) const ALL: &[Scenario] = &[
    Scenario::new("pipe", pipe_ready),
    Scenario::new("pipe-wait", pipe_wait),
    Scenario::new("block-in-place", block_in_place),
    Scenario::new("errno", errno),
];

fn pipe_ready() -> u64 {
    let Ok((mut reader, mut writer)) = pipe() else { return 0 };
    let mut buffer = [0; 8];
    let read = step(|| writer.write(b"quaver").ok().and_then(|_| reader.read(&mut buffer).ok()));
    mix(read.unwrap_or(0) as u64, u64::from_le_bytes(buffer))
}

/// What is read arrives when the reader waits for it, or shortly before.
fn pipe_wait() -> u64 {
    let Ok((mut reader, mut writer)) = pipe() else { return 0 };
    let mut buffer = [0; 8];
    // On a kernel thread: a reader that is not preempted blocks its worker.
    let kernel_thread = std::thread::spawn(move || writer.write(b"quaver").is_ok());
    let read = step(|| reader.read(&mut buffer).ok());
    let written = quaver::block_in_place(|| kernel_thread.join().unwrap_or(false));
    mix(read.unwrap_or(0) as u64, u64::from_le_bytes(buffer)) + u64::from(written)
}

fn block_in_place() -> u64 {
    let Ok((mut reader, mut writer)) = pipe() else { return 0 };
    let mut buffer = [0; 8];
    writer.write_all(b"quaver").unwrap_or_default();
    let read = step(|| quaver::block_in_place(|| reader.read(&mut buffer).ok()));
    mix(read.unwrap_or(0) as u64, u64::from_le_bytes(buffer))
}

/// An error number is still there when others have had theirs, on whatever worker.
fn errno() -> u64 {
    step(|| {
        // SAFETY: calls that fail and change nothing.
        unsafe {
            libc::close(-1);
            let first = *libc::__errno_location();
            quaver::yield_now();
            let second = *libc::__errno_location();
            libc::chdir(c"/nonexistent".as_ptr());
            mix(mix(first as u64, second as u64), *libc::__errno_location() as u64)
        }
    })
}
