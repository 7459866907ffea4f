//! The maps of carriers, made for one process each (`bpf/carriers.h`).

use super::carriers::CARRIERS;
use aya::Ebpf;
use aya::maps::{HashOfMaps, MapData, MapError};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_MAP_FREEZE: libc::c_long = 22;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_MAP_TYPE_RINGBUF: u32 = 27;
const BPF_F_MMAPABLE: u32 = 1 << 10;

/// The length of the page and of the bell.
const PAGE: u32 = (64 + 4 * CARRIERS) as u32;

/// The pages and bells of all processes whose carriers are watched.
#[derive(Debug)]
pub(super) struct Watched {
    pages: HashOfMaps<MapData, u32, MapData>,
    bells: HashOfMaps<MapData, u32, MapData>,
    /// Of the next page.
    id: u64,
}

impl Watched {
    pub(super) fn new(ebpf: &mut Ebpf) -> Result<Self, MapError> {
        let mut take = |name| HashOfMaps::try_from(ebpf.take_map(name).expect("as declared"));
        Ok(Self { pages: take("carrier_pages")?, bells: take("carrier_bells")?, id: 1 })
    }

    /// A new page and a new bell for a process.
    pub(super) fn watch(&mut self, process: u32) -> io::Result<[OwnedFd; 2]> {
        let page = create(BPF_MAP_TYPE_ARRAY, [4, PAGE, 1, BPF_F_MMAPABLE])?;
        let mut content = [0_u64; PAGE as usize / 8];
        content[0] = self.id;
        set(page.as_fd(), &content)?;
        freeze(page.as_fd())?;
        let bell = create(BPF_MAP_TYPE_RINGBUF, [0, 0, PAGE, 0])?;
        self.id += 1;
        let inner = |fd: &OwnedFd| MapData::from_fd(fd.try_clone()?).map_err(io::Error::other);
        // The bell first: it is there when the first carrier counts.
        self.bells.insert(process, &inner(&bell)?, 0).map_err(io::Error::other)?;
        self.pages.insert(process, &inner(&page)?, 0).map_err(io::Error::other)?;
        Ok([page, bell])
    }

    pub(super) fn forget(&mut self, process: u32) {
        let _ = self.pages.remove(&process);
        let _ = self.bells.remove(&process);
    }

    pub(super) fn processes(&self) -> Vec<u32> {
        self.pages.keys().filter_map(Result::ok).collect()
    }
}

/// A new map: the lengths of keys and values, how many of them, flags.
fn create(kind: u32, [key, value, entries, flags]: [u32; 4]) -> io::Result<OwnedFd> {
    let fd = bpf(BPF_MAP_CREATE, &[kind, key, value, entries, flags])?;
    // SAFETY: a new descriptor, nobody else's. The kernel has set its close-on-exec flag.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The only value of an array.
fn set(array: BorrowedFd<'_>, value: &[u64; PAGE as usize / 8]) -> io::Result<()> {
    let key = 0_u32;
    let attributes = [array.as_raw_fd() as u64, &raw const key as u64, value.as_ptr() as u64, 0];
    bpf(BPF_MAP_UPDATE_ELEM, &attributes).map(drop)
}

/// Takes the right to write to a map from all processes; programs keep it. (A descriptor that can
/// only read would not do: the kernel does not map such ones.)
pub(super) fn freeze(map: BorrowedFd<'_>) -> io::Result<()> {
    bpf(BPF_MAP_FREEZE, &[map.as_raw_fd() as u32]).map(drop)
}

/// The system call. What the attributes do not say is zero.
fn bpf<T>(command: libc::c_long, attributes: &[T]) -> io::Result<libc::c_long> {
    let size = size_of_val(attributes);
    // SAFETY: the attributes are as long as said; addresses in them are of memory as long as the
    // map that they are for says, which lives during the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size) };
    if result >= 0 { Ok(result) } else { Err(io::Error::last_os_error()) }
}
