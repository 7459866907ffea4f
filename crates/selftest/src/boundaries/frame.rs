//! The register state in a signal frame, kept from the moment of a preemption until the thread has
//! been resumed.
//!
//! [`keep`] copies the frame's state before the preemption. The first trap after a user-mode resume
//! comes before the interrupted instruction has run; [`compare`] then holds its frame against the
//! copy: whatever differs was not restored.
//!
//! A copy belongs to a thread and a stack pointer. The thread alone is not enough: inside the
//! runtime's switch `gs` already names the next thread, and a thread that traps on its way out of
//! the handler can be preempted there once more.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering::*};
use libc::ucontext_t;

/// Threads that can be preempted at the same time and still be checked.
const SHELVES: usize = 16;
/// Bytes of an XSAVE area that are compared: enough for everything up to AVX-512, PKRU and the AMX
/// tiles.
const AREA: usize = 12 * 1024;
const RED_ZONE: usize = 128;
const REGISTERS: usize = 16;
/// Trap and resume flag: the trap flag is ours, the resume flag is cleared by `popf` and by the
/// next instruction.
const IGNORED_FLAGS: u64 = 0x100 | 0x1_0000;

/// Offset in the FXSAVE area of what the kernel says about the rest: magic, size, components.
const SW_BYTES: usize = 464;
const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
const LEGACY: usize = 512;
/// The number of the component with the protection keys' rights.
const PKRU: u32 = 9;
const HEADER: usize = 64;

/// What can differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// Which part of the state.
    pub part: Part,
    /// Which register (as in `gregs`), or which byte of the part.
    pub at: u32,
    /// Eight bytes before the preemption.
    pub before: u64,
    /// The same ones after it.
    pub after: u64,
}

/// Parts of a thread's register state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Part {
    /// A general register or the instruction pointer.
    General,
    /// Flags.
    Flags,
    /// x87 and SSE registers and control words.
    Legacy,
    /// AVX and what came later: vector, mask and protection key registers.
    Extended,
    /// The 128 bytes below the stack pointer.
    RedZone,
}

struct Copy {
    general: [u64; REGISTERS],
    rip: u64,
    flags: u64,
    red_zone: [u8; RED_ZONE],
    area_size: usize,
    area: [u8; AREA],
}

struct Shelf {
    /// The thread whose state this is (its number and one), 0: free, `u64::MAX`: being filled.
    owner: AtomicU64,
    /// Its stack pointer.
    rsp: AtomicU64,
    copy: UnsafeCell<Copy>,
}

// SAFETY: `copy` is used by whoever has set `owner` from 0, and by the owner's own trap.
unsafe impl Sync for Shelf {}

static KEPT: [Shelf; SHELVES] = [const {
    Shelf {
        owner: AtomicU64::new(0),
        rsp: AtomicU64::new(0),
        copy: UnsafeCell::new(Copy {
            general: [0; REGISTERS],
            rip: 0,
            flags: 0,
            red_zone: [0; RED_ZONE],
            area_size: 0,
            area: [0; AREA],
        }),
    }
}; SHELVES];

/// The frame's register `i`.
///
/// # Safety
///
/// `uc` is a signal frame's context.
unsafe fn greg(uc: *const ucontext_t, i: i32) -> u64 {
    // SAFETY: the caller's contract.
    unsafe { (*uc).uc_mcontext.gregs[i as usize] as u64 }
}

/// The frame's XSAVE (or FXSAVE) area.
///
/// # Safety
///
/// `uc` is a signal frame's context; the slice is used while the frame exists.
unsafe fn area<'a>(uc: *const ucontext_t) -> &'a [u8] {
    // SAFETY: the kernel has written the area, and its size where there is more than FXSAVE.
    unsafe {
        let start = (*uc).uc_mcontext.fpregs as *const u8;
        if start.is_null() {
            return &[];
        }
        let size = if start.add(SW_BYTES).cast::<u32>().read_unaligned() == FP_XSTATE_MAGIC1 {
            // `xstate_size`: without the closing magic number.
            start.add(SW_BYTES + 16).cast::<u32>().read_unaligned() as usize
        } else {
            SW_BYTES
        };
        core::slice::from_raw_parts(start, size.min(AREA))
    }
}

/// Keeps the state of thread `id` for [`compare`]. `false`: no room; it will not be checked.
///
/// # Safety
///
/// `uc` is the context of a signal frame on the stack of that thread.
pub unsafe fn keep(id: u64, uc: *const ucontext_t) -> bool {
    let free = |s: &&Shelf| s.owner.compare_exchange(0, u64::MAX, Acquire, Relaxed).is_ok();
    let Some(shelf) = KEPT.iter().find(free) else { return false };
    // SAFETY: the shelf is ours until `owner` is set; the frame is valid, and the stack below it up
    // to the red zone.
    unsafe {
        let copy = &mut *shelf.copy.get();
        for (i, r) in copy.general.iter_mut().enumerate() {
            *r = greg(uc, i as i32);
        }
        copy.rip = greg(uc, libc::REG_RIP);
        copy.flags = greg(uc, libc::REG_EFL);
        let below = (greg(uc, libc::REG_RSP) as usize - RED_ZONE) as *const u8;
        core::ptr::copy_nonoverlapping(below, copy.red_zone.as_mut_ptr(), RED_ZONE);
        let area = area(uc);
        copy.area_size = area.len();
        copy.area[..area.len()].copy_from_slice(area);
    }
    // SAFETY: the caller's contract.
    shelf.rsp.store(unsafe { greg(uc, libc::REG_RSP) }, Relaxed);
    shelf.owner.store(id + 1, Release);
    true
}

/// What was kept of thread `id` in this frame.
///
/// # Safety
///
/// `uc` is a signal frame's context.
unsafe fn find(id: u64, uc: *const ucontext_t) -> Option<&'static Shelf> {
    // SAFETY: the caller's contract.
    find_at(id, unsafe { greg(uc, libc::REG_RSP) })
}

fn find_at(id: u64, rsp: u64) -> Option<&'static Shelf> {
    KEPT.iter().find(|s| s.owner.load(Acquire) == id + 1 && s.rsp.load(Relaxed) == rsp)
}

/// Forgets what was kept of thread `id` in this frame.
///
/// # Safety
///
/// `uc` is the context of a signal frame.
pub unsafe fn forget(id: u64, uc: *const ucontext_t) {
    // SAFETY: the caller's contract.
    forget_at(id, unsafe { greg(uc, libc::REG_RSP) });
}

/// The same, by the stack pointer of the frame.
pub fn forget_at(id: u64, rsp: u64) {
    if let Some(shelf) = find_at(id, rsp) {
        shelf.owner.store(0, Release);
    }
}

/// How many states are kept of thread `id`: how deep it is in handlers.
pub fn depth(id: u64) -> usize {
    KEPT.iter().filter(|s| s.owner.load(Acquire) == id + 1).count()
}

/// What came of a look at a resumed thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resumed {
    /// Nothing was kept of this thread.
    Unknown,
    /// The trap is the one after the resume; all is as it was.
    Same,
    /// As `Same`, but not all is as it was.
    Differs(Mismatch),
}

/// Compares thread `id`, which has trapped for the first time after its resume, with what was kept,
/// and forgets that.
///
/// # Safety
///
/// `uc` is the context of a signal frame on the stack of that thread.
pub unsafe fn compare(id: u64, uc: *const ucontext_t) -> Resumed {
    // SAFETY: the caller's contract.
    let Some(shelf) = (unsafe { find(id, uc) }) else { return Resumed::Unknown };
    // SAFETY: kept for this thread, which is the caller; the rest is the caller's contract.
    let found = unsafe { difference(&*shelf.copy.get(), uc) };
    shelf.owner.store(0, Release);
    found.map_or(Resumed::Same, Resumed::Differs)
}

/// # Safety
///
/// `uc` is a signal frame's context.
unsafe fn difference(copy: &Copy, uc: *const ucontext_t) -> Option<Mismatch> {
    // SAFETY: the caller's contract.
    let now = |i: i32| unsafe { greg(uc, i) };
    let general = |at: i32, before: u64| {
        let after = now(at);
        (before != after).then_some(Mismatch { part: Part::General, at: at as u32, before, after })
    };
    let flags = || {
        let (before, after) = (copy.flags & !IGNORED_FLAGS, now(libc::REG_EFL) & !IGNORED_FLAGS);
        (before != after).then_some(Mismatch { part: Part::Flags, at: 0, before, after })
    };
    let red_zone = || {
        // SAFETY: the red zone is above the frame.
        let below = unsafe {
            core::slice::from_raw_parts(
                (now(libc::REG_RSP) as usize - RED_ZONE) as *const u8,
                RED_ZONE,
            )
        };
        bytes(Part::RedZone, &copy.red_zone, below, 0)
    };
    general(libc::REG_RIP, copy.rip)
        .or_else(|| copy.general.iter().enumerate().find_map(|(i, &r)| general(i as i32, r)))
        .or_else(flags)
        .or_else(red_zone)
        // SAFETY: the caller's contract.
        .or_else(|| areas(&copy.area[..copy.area_size], unsafe { area(uc) }))
}

fn bytes(part: Part, before: &[u8], after: &[u8], offset: usize) -> Option<Mismatch> {
    let at = before.iter().zip(after).position(|(a, b)| a != b)?;
    let word = |from: &[u8]| {
        let mut word = [0; 8];
        from[at..].iter().zip(&mut word).for_each(|(&from, to)| *to = from);
        u64::from_le_bytes(word)
    };
    Some(Mismatch { part, at: (offset + at) as u32, before: word(before), after: word(after) })
}

/// Two XSAVE areas of one layout: the legacy part as far as the CPU writes it, then all components
/// that both have. One that is in its initial state has no bit in the header and nothing meaningful
/// in its place.
fn areas(before: &[u8], after: &[u8]) -> Option<Mismatch> {
    let legacy = before.len().min(after.len()).min(416);
    if let Some(m) = bytes(Part::Legacy, &before[..legacy], &after[..legacy], 0) {
        return Some(m);
    }
    if before.len() < LEGACY + HEADER || after.len() < LEGACY + HEADER {
        return None;
    }
    let used = |area: &[u8]| {
        let mut word = [0; 8];
        word.copy_from_slice(&area[LEGACY..LEGACY + 8]);
        u64::from_le_bytes(word)
    };
    (2..63).find_map(|component| {
        let has = |area: &[u8]| used(area) >> component & 1 == 1;
        if !has(before) && !has(after) {
            return None;
        }
        let (offset, size) = component_at(component);
        // Of its eight bytes not all processors write the upper ones.
        let size = if component == PKRU { size.min(4) } else { size };
        let slice = |area: &[u8]| -> Option<core::ops::Range<usize>> {
            (offset + size <= area.len() && size > 0).then_some(offset..offset + size)
        };
        let (b, a) = (slice(before)?, slice(after)?);
        let zero = |area: &[u8]| area.iter().all(|&b| b == 0);
        match (has(before), has(after)) {
            (true, true) => bytes(Part::Extended, &before[b], &after[a], offset),
            (true, false) if zero(&before[b.clone()]) => None,
            (false, true) if zero(&after[a.clone()]) => None,
            (true, false) => bytes(Part::Extended, &before[b], &[0; AREA], offset),
            (_, _) => bytes(Part::Extended, &[0; AREA], &after[a], offset),
        }
    })
}

/// Where a component lies in the standard format, and its size. Executes CPUID, which a hypervisor
/// may take a while for.
fn component_at(component: u32) -> (usize, usize) {
    static KNOWN: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
    let known = &KNOWN[component as usize];
    if known.load(Relaxed) == 0 {
        let leaf = core::arch::x86_64::__cpuid_count(0xd, component);
        known.store(1 | u64::from(leaf.eax) << 1 | u64::from(leaf.ebx) << 32, Relaxed);
    }
    let known = known.load(Relaxed);
    ((known >> 32) as usize, (known as u32 >> 1) as usize)
}

/// The name of a general register as `gregs` numbers them.
pub fn register_name(i: u32) -> &'static str {
    const NAMES: [&str; 17] = [
        "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx",
        "rax", "rcx", "rsp", "rip",
    ];
    NAMES.get(i as usize).copied().unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area_with(used: u64) -> Vec<u8> {
        let mut area = vec![0u8; 2696];
        area[LEGACY..LEGACY + 8].copy_from_slice(&used.to_le_bytes());
        area
    }

    #[test]
    fn equal_areas_are_equal_and_a_changed_byte_is_found() {
        let (avx, size) = component_at(2);
        if size == 0 {
            return;
        }
        let (mut a, mut b) = (area_with(7), area_with(7));
        a[avx + 5] = 3;
        b[avx + 5] = 3;
        assert_eq!(areas(&a, &b), None);
        b[avx + 9] = 1;
        let m = areas(&a, &b).unwrap();
        assert_eq!((m.part, m.at as usize, m.before, m.after), (Part::Extended, avx + 9, 0, 1));
        b[30] = 1;
        assert_eq!(areas(&a, &b).unwrap().part, Part::Legacy);
    }

    #[test]
    fn a_component_in_its_initial_state_is_zero() {
        let (avx, size) = component_at(2);
        if size == 0 {
            return;
        }
        let (mut a, b) = (area_with(7), area_with(3));
        assert_eq!(areas(&a, &b), None);
        a[avx] = 1;
        assert!(areas(&a, &b).is_some() && areas(&b, &a).is_some());
    }
}
