//! Lines of the kernel's about processes and threads, read without the heap: who asks may have
//! interrupted the allocator, or hold a lock for which others spin.

use rustix::fs::{Mode, OFlags, open};
use rustix::io::read;
use std::fmt::Arguments;
use std::io::Write;

/// Lines are shorter: 52 numbers and a name.
pub(crate) const LINE: usize = 2048;
/// As the paths of those files are.
const PATH: usize = 64;

/// The first line of a file, by three system calls; `None` if it cannot be read.
pub(crate) fn line<'a>(path: Arguments<'_>, space: &'a mut [u8; LINE]) -> Option<&'a [u8]> {
    let mut name = [0; PATH];
    let mut rest = &mut name[..];
    rest.write_fmt(path).ok()?;
    let length = PATH - rest.len();
    let file = open(&name[..length], OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let length = read(&file, &mut space[..]).ok()?;
    Some(&space[..length])
}

/// The fields of a line of `stat` from the third one on. The name before them may contain anything.
pub(crate) fn fields(stat: &[u8]) -> Option<impl Iterator<Item = &str>> {
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    Some(str::from_utf8(&stat[name_end + 1..]).ok()?.split_whitespace())
}
