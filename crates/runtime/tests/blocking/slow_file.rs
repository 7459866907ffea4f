//! A file whose pages come when the test wants: a file system in user space (FUSE) with one file,
//! mapped for reading. A thread that touches a page for the first time sleeps in a page fault until
//! the server has answered.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) const PAGE: usize = 4096;

/// Operations of the protocol (linux/fuse.h).
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const FLUSH: u32 = 25;
const RELEASE: u32 = 18;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
/// The version that the answers are of.
const VERSION: [u32; 2] = [7, 31];
/// The directory, and its one file.
const DIRECTORY: u64 = 1;
const FILE: u64 = 2;

/// A mapped file of `pages` pages; each begins with its number plus one.
pub(crate) struct SlowFile {
    at: *const u8,
    pages: usize,
}

// SAFETY: memory that is only read.
unsafe impl Send for SlowFile {}
// SAFETY: as above.
unsafe impl Sync for SlowFile {}

impl SlowFile {
    /// Makes one. The server calls `before` with the page's number before it answers for a page.
    /// `None`: this process may not mount such a file system, which is said.
    pub(crate) fn new(pages: usize, before: impl Fn(usize) + Send + 'static) -> Option<SlowFile> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let path =
            std::env::temp_dir().join(format!("quaver-slow-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        let mounted = mount(&path);
        let mapped = mounted.map(|device| {
            std::thread::spawn(move || serve(device, pages, before));
            let file = File::open(path.join("file")).unwrap();
            SlowFile { at: map(&file, pages), pages }
        });
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a C string. The file stays while it is mapped; nothing is left behind.
        unsafe { libc::umount2(name.as_ptr(), libc::MNT_DETACH) };
        std::fs::remove_dir(&path).unwrap();
        mapped.inspect_err(|e| println!("skipped: no file system in user space: {e}")).ok()
    }

    /// The number in a page. Sleeps in a fault if nobody has read it before.
    pub(crate) fn read(&self, page: usize) -> u64 {
        assert!(page < self.pages);
        // SAFETY: in the mapping.
        unsafe { self.at.add(page * PAGE).cast::<u64>().read_volatile() }
    }
}

impl Drop for SlowFile {
    fn drop(&mut self) {
        // SAFETY: the mapping; nobody uses it any more. It was the file's last user: its server
        // ends.
        unsafe { libc::munmap(self.at.cast_mut().cast(), self.pages * PAGE) };
    }
}

fn mount(at: &std::path::Path) -> std::io::Result<File> {
    let device = File::options().read(true).write(true).open("/dev/fuse")?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0\0", device.as_raw_fd());
    let name = std::ffi::CString::new(at.to_str().unwrap()).unwrap();
    let kind = c"fuse".as_ptr();
    // SAFETY: C strings.
    match unsafe { libc::mount(kind, name.as_ptr(), kind, 0, options.as_ptr().cast()) } {
        0 => Ok(device),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn map(file: &File, pages: usize) -> *const u8 {
    // SAFETY: a new mapping.
    unsafe {
        let size = pages * PAGE;
        let fd = file.as_raw_fd();
        let at = libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ, libc::MAP_SHARED, fd, 0);
        assert_ne!(at, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        // One page at a time.
        assert_eq!(libc::madvise(at, size, libc::MADV_RANDOM), 0);
        at.cast()
    }
}

/// Answers until the file system has no user any more.
fn serve(mut device: File, pages: usize, before: impl Fn(usize)) {
    let mut request = vec![0; 1 << 20];
    loop {
        let Ok(len) = device.read(&mut request) else { return };
        let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().unwrap());
        assert!(len >= 40);
        let (operation, unique, node) = (word(4), long(8), long(16));
        let mut answer = Answer(Vec::new());
        let error = match operation {
            INIT => {
                answer.words(&VERSION);
                answer.words(&[0; 14]);
                0
            }
            LOOKUP => {
                answer.longs(&[FILE, 0, 1000, 1000, 0]);
                answer.attributes(FILE, pages);
                0
            }
            GETATTR => {
                answer.longs(&[1000, 0]);
                answer.attributes(node, pages);
                0
            }
            OPEN => {
                answer.longs(&[0, 0]);
                0
            }
            READ => {
                let (offset, size) = (long(48) as usize, word(56) as usize);
                let first = offset / PAGE;
                before(first);
                for page in first..(first + size / PAGE).min(pages) {
                    answer.longs(&[page as u64 + 1]);
                    answer.0.resize(answer.0.len() + PAGE - 8, 0);
                }
                0
            }
            FLUSH | RELEASE => 0,
            // Nobody waits for an answer; an interrupted read goes on.
            FORGET | INTERRUPT => continue,
            _ => -libc::ENOSYS,
        };
        let mut packet = Answer(Vec::new());
        packet.words(&[16 + answer.0.len() as u32, error as u32]);
        packet.longs(&[unique]);
        packet.0.append(&mut answer.0);
        // Whoever asked may be gone.
        let _ = device.write(&packet.0);
    }
}

struct Answer(Vec<u8>);

impl Answer {
    fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.0.extend(word.to_ne_bytes()));
    }

    fn longs(&mut self, longs: &[u64]) {
        longs.iter().for_each(|long| self.0.extend(long.to_ne_bytes()));
    }

    fn attributes(&mut self, node: u64, pages: usize) {
        let is_directory = node == DIRECTORY;
        let size = if is_directory { 0 } else { (pages * PAGE) as u64 };
        let mode = if is_directory { libc::S_IFDIR | 0o755 } else { libc::S_IFREG | 0o444 };
        self.longs(&[node, size, size / 512, 0, 0, 0]);
        self.words(&[0, 0, 0, mode, 1, 0, 0, 0, PAGE as u32, 0]);
    }
}
