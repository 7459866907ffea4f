//! Protection keys: a thread's rights are its own, whatever way it leaves the CPU, and are
//! inherited by the threads that it makes.
//!
//! Skipped, with a message, where the CPU or the kernel has no protection keys.

mod support;

use std::arch::asm;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use support::{Setup, child, spin, stats, until, until_preempted};

/// Rights to one key: two bits.
const NO_ACCESS: u32 = 0b01;
const NO_WRITE: u32 = 0b10;

/// A page that only those may touch who have the right to its key.
struct Page {
    key: i32,
    at: *mut u8,
}

// SAFETY: bytes; each test says who uses which.
unsafe impl Sync for Page {}

impl Page {
    const SIZE: usize = 4096;

    /// None, with a message, where there are no keys. To the calling kernel thread it is
    /// accessible.
    fn new() -> Option<Page> {
        // SAFETY: a key and a page of our own.
        unsafe {
            let key = libc::syscall(libc::SYS_pkey_alloc, 0, 0) as i32;
            if key < 0 {
                println!("skipped: no protection keys here: {}", std::io::Error::last_os_error());
                return None;
            }
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let at = libc::mmap(std::ptr::null_mut(), Page::SIZE, prot, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            assert_eq!(libc::syscall(libc::SYS_pkey_mprotect, at, Page::SIZE, prot, key), 0);
            Some(Page { key, at: at.cast() })
        }
    }

    fn byte(&self, i: usize) -> *mut u8 {
        assert!(i < Page::SIZE);
        self.at.wrapping_add(i)
    }

    /// The calling thread's rights to the page from now on.
    fn allow(&self, rights: u32) {
        let shift = 2 * self.key as u32;
        write_pkru(read_pkru() & !(0b11 << shift) | rights << shift);
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe {
            libc::munmap(self.at.cast(), Page::SIZE);
            libc::syscall(libc::SYS_pkey_free, self.key);
        }
    }
}

/// There are protection keys.
fn read_pkru() -> u32 {
    let pkru;
    // SAFETY: the caller has a key.
    unsafe { asm!("rdpkru", in("ecx") 0, out("eax") pkru, out("edx") _, options(nostack)) };
    pkru
}

fn write_pkru(pkru: u32) {
    // SAFETY: as above.
    unsafe { asm!("wrpkru", in("eax") pkru, in("ecx") 0, in("edx") 0, options(nostack)) };
}

/// Rights for thread `i`, never those of its neighbours.
fn rights(i: usize) -> u32 {
    [0, NO_WRITE, NO_ACCESS][i % 3]
}

#[test]
fn rights_are_kept_across_every_way_to_leave() {
    for setup in Setup::all() {
        let Some(page) = Page::new() else { return };
        let turn = quaver::sync::Mutex::new(0u64);
        setup.run(|| {
            quaver::scope(|s| {
                for i in 0..4 {
                    let (page, turn) = (&page, &turn);
                    s.spawn(move || {
                        let mut step = i;
                        until_preempted(setup.preemptions(50), |_| {
                            page.allow(rights(step));
                            let mine = read_pkru();
                            spin(500 << (step % 6));
                            assert_eq!(read_pkru(), mine);
                            quaver::yield_now();
                            assert_eq!(read_pkru(), mine);
                            *turn.lock().unwrap() += 1;
                            assert_eq!(read_pkru(), mine);
                            quaver::sleep(Duration::from_nanos(1));
                            assert_eq!(read_pkru(), mine);
                            step += 1;
                        });
                    });
                }
            });
        });
    }
}

#[test]
fn a_thread_begins_with_the_rights_of_who_made_it() {
    for setup in Setup::all_clocks() {
        let Some(page) = Page::new() else { return };
        page.allow(NO_WRITE);
        let outside = read_pkru();
        setup.run(|| {
            assert_eq!(read_pkru(), outside);
            for i in 0..30 {
                page.allow(rights(i));
                let mine = read_pkru();
                let thread = quaver::spawn(read_pkru);
                page.allow(rights(i + 1));
                assert_eq!(thread.join().unwrap(), mine);
            }
        });
        page.allow(0);
    }
}

/// The kernel heeds the rights of whoever makes a call. A thread that has to wait in one makes it
/// without its worker, out of the signal handler.
#[test]
fn a_call_that_waits_has_the_rights_of_its_thread() {
    // No call of the C library's `read`, in which a thread would be parked until there is
    // something.
    let read = |from: &File, to: *mut u8| {
        // SAFETY: a byte of a page that is there; whether it may be written is the kernel's to say.
        let n = unsafe { libc::syscall(libc::SYS_read, from.as_raw_fd(), to, 1) };
        if n < 0 { Err(std::io::Error::last_os_error()) } else { Ok(n as usize) }
    };
    waits_with_rights(read, |before| until(|| stats().handovers > before, |_| _ = spin(200)));
}

/// One that is parked makes it when it runs again.
#[test]
fn a_call_that_parks_has_the_rights_of_its_thread() {
    let read = |mut from: &File, to: *mut u8| {
        // SAFETY: the page is there, and the reader's for the moment.
        from.read(unsafe { std::slice::from_raw_parts_mut(to, 1) })
    };
    let parked = |before| {
        (0..10).for_each(|_| quaver::yield_now());
        assert_eq!(stats().handovers, before);
    };
    waits_with_rights(read, parked);
}

/// `read` waits for a pipe and then finds its rights. `waits`, told how many threads have been
/// handed over before, returns when it does.
fn waits_with_rights(
    read: impl Fn(&File, *mut u8) -> std::io::Result<usize> + Sync,
    waits: impl Fn(u64) + Sync,
) {
    for setup in Setup::with_workers(1) {
        let Some(page) = Page::new() else { return };
        setup.run(|| {
            for (rights, expected) in [(0, Ok(7)), (NO_ACCESS, Err(libc::EFAULT))] {
                let mut pipe = [0; 2];
                // SAFETY: room for two descriptors, which are ours.
                let (from, mut to) = unsafe {
                    assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
                    (File::from_raw_fd(pipe[0]), File::from_raw_fd(pipe[1]))
                };
                let before = stats().handovers;
                quaver::scope(|s| {
                    let (page, read) = (&page, &read);
                    let reader = s.spawn(move || {
                        page.allow(rights);
                        let n = read(&from, page.byte(0));
                        page.allow(0);
                        // SAFETY: the page is there, and the reader's for the moment.
                        let byte = unsafe { page.byte(0).read_volatile() };
                        n.map(|_| byte).map_err(|e| e.raw_os_error().unwrap_or(0))
                    });
                    waits(before);
                    to.write_all(&[7]).unwrap();
                    assert_eq!(reader.join().unwrap(), expected);
                });
            }
        });
    }
}

static TOUCHED: AtomicBool = AtomicBool::new(false);

/// In a child: another thread has the right to the page, this one has not.
fn touch() {
    let Some(page) = Page::new() else { return };
    Setup::with_workers(1)[0].run(|| {
        quaver::scope(|s| {
            let page = &page;
            s.spawn(move || {
                until(
                    || TOUCHED.load(SeqCst),
                    |_| {
                        // SAFETY: this thread's byte.
                        unsafe { page.byte(1).write_volatile(1) };
                        quaver::yield_now();
                    },
                );
            });
            page.allow(NO_ACCESS);
            until_preempted(3, |_| _ = spin(500));
            println!("touching");
            // SAFETY: none; the fault is what this is about.
            unsafe { page.byte(0).write_volatile(1) };
            TOUCHED.store(true, SeqCst);
        });
    });
}

#[test]
fn the_child() {
    if child::role().is_some() {
        touch();
    }
}

#[test]
fn who_has_no_right_faults() {
    if Page::new().is_none() {
        return;
    }
    let outcome = child::run("touch");
    assert_eq!(outcome.signal(), Some(libc::SIGSEGV), "{outcome:#?}");
    assert!(outcome.stdout.contains("touching"), "{outcome:#?}");
}
