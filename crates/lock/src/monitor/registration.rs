//! What the kernel program must know of a process.

use crate::asm::{self, WINDOW_COUNT, Window};
use crate::cell::cell;
use crate::monitor::Reason;

/// Where the windows of a process are, and the cells of its threads. The same in
/// `bpf/monitor.bpf.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Registration {
    /// The address at which the windows' addresses begin.
    pub text: u64,
    /// From a thread's area of restartable sequences to its cell, in bytes.
    pub cell: i64,
    /// How long the code is, in bytes.
    pub text_size: u32,
    /// Zero.
    pub unused: u32,
    /// [`asm::windows`].
    pub windows: [Window; WINDOW_COUNT],
}

/// Longer code than any copy of this crate has.
const TEXT_MAX: u32 = 1 << 16;

impl Registration {
    /// That of this process. It holds for all threads, and for children of `fork`.
    ///
    /// # Errors
    ///
    /// glibc has no restartable sequences, or they are off.
    pub fn own() -> Result<Self, Reason> {
        let text = asm::text();
        // SAFETY: symbols of glibc of these types; null if it is older.
        let (offset, size) = unsafe {
            let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>();
            let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>();
            (offset.as_ref(), size.as_ref())
        };
        let (Some(&offset), Some(&size)) = (offset, size) else { return Err(Reason::Glibc) };
        if size == 0 {
            return Err(Reason::NoRseq);
        }
        let thread: i64;
        // SAFETY: the thread pointer's first word is its own address.
        unsafe {
            std::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) thread,
                options(nostack, readonly, pure, preserves_flags));
        }
        Ok(Self {
            text: text.start,
            cell: cell() as i64 - (thread + offset as i64),
            text_size: (text.end - text.start) as u32,
            unused: 0,
            windows: *asm::windows(),
        })
    }

    /// What is wrong with it, if anything is.
    ///
    /// Addresses may be any: the kernel program only compares them, and reads the memory of their
    /// own process.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.text_size > TEXT_MAX || self.unused != 0 {
            return Err("the code of a lock is not that long");
        }
        for w in &self.windows {
            if w.start >= w.end || w.end > self.text_size {
                return Err("a window is outside the code, or empty");
            }
            if !(Window::IN..=Window::OUT).contains(&w.what) || w.register > 2 {
                return Err("a window has an unknown meaning or register");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_one_is_right_and_wrong_ones_are_found() {
        let own = Registration::own().expect("glibc has restartable sequences");
        assert_eq!(own.check(), Ok(()));
        let wrong: [fn(&mut Registration); 5] = [
            |r| r.text_size = TEXT_MAX + 1,
            |r| r.windows[0].end = r.windows[0].start,
            |r| r.windows[5].end = r.text_size + 1,
            |r| r.windows[1].what = 3,
            |r| r.windows[2].register = 3,
        ];
        for change in wrong {
            let mut registration = own;
            change(&mut registration);
            assert!(registration.check().is_err(), "{registration:?}");
        }
    }
}
