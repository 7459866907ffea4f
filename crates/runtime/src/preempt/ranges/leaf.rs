//! Routines of libc that may be left in the middle: long ones that only look at or move bytes.
//!
//! `memcpy` of a large block takes milliseconds; all the while it holds no lock and no half-done
//! bookkeeping of its own. But its caller may be `realloc` or `fwrite`, which do. So the handler
//! must know the caller, and reads the return address at the stack pointer. That is where it is
//! only if the routine never moves the stack pointer, and this is what is proved here, once at the
//! start and from the unwind tables that glibc ships for each of its routines (which debuggers and
//! C++ exceptions rely on):
//!
//! * The symbol leads to an address (for most, the variant that glibc has chosen for this CPU), and
//!   the unwind table has an entry that begins there and says where the routine ends.
//! * The rules at the entry are the common ones: the frame begins at `rsp + 8`, the return address
//!   below it.
//! * The entry has no further instruction: so the rules hold at every instruction of the routine.
//!   It pushes nothing, makes no frame, and so it calls nobody.
//!
//! A routine for which any of this does not hold is treated like the rest of libc. One that jumps
//! to another at its end (`strcat` to `strcpy`, say) leaves that one's return address where it
//! found its own: the caller is still the right one. A function of libc that ends in a jump to such
//! a routine is no longer there; it cannot hold a lock that it could not release any more.

use super::modules;
use core::ffi::CStr;
use core::ops::Range;

/// Longer than a few hundred nanoseconds, if their argument is long.
const NAMES: [&CStr; 30] = [
    c"memcpy",
    c"memmove",
    c"mempcpy",
    c"memset",
    c"memcmp",
    c"memchr",
    c"memrchr",
    c"rawmemchr",
    c"memmem",
    c"strlen",
    c"strnlen",
    c"strchr",
    c"strchrnul",
    c"strrchr",
    c"strcmp",
    c"strncmp",
    c"strcasecmp",
    c"strcpy",
    c"strncpy",
    c"stpcpy",
    c"strcat",
    c"strncat",
    c"strspn",
    c"strcspn",
    c"strpbrk",
    c"strstr",
    c"wcslen",
    c"wmemset",
    c"wmemcmp",
    c"wmemchr",
];

/// No routine of these is longer: a check of what has been read.
const MAX_LENGTH: usize = 1 << 16;

/// The addresses of all routines for which it is proved.
pub(super) fn routines() -> Vec<Range<usize>> {
    NAMES.iter().filter_map(|name| routine(name)).collect()
}

fn routine(name: &CStr) -> Option<Range<usize>> {
    // SAFETY: a look-up in libc, which resolves the symbol to the variant in use.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) } as usize;
    // Somebody may have defined the name elsewhere.
    if address == 0 || modules::code_now(address) != super::Code::Library {
        return None;
    }
    let object = modules::object_at(address)?;
    // SAFETY: the unwind tables of a loaded module.
    unsafe { entry(object.eh_frame, address) }
}

/// A reader of the tables.
#[derive(Clone, Copy)]
struct At(*const u8);

impl At {
    unsafe fn u8(&mut self) -> u8 {
        // SAFETY: the caller's.
        unsafe {
            let v = self.0.read();
            self.0 = self.0.add(1);
            v
        }
    }

    unsafe fn i32(&mut self) -> i32 {
        // SAFETY: the caller's.
        unsafe {
            let v = self.0.cast::<i32>().read_unaligned();
            self.0 = self.0.add(4);
            v
        }
    }

    /// A relative address: from itself on.
    unsafe fn relative(&mut self) -> usize {
        let here = self.0 as usize;
        // SAFETY: the caller's.
        here.wrapping_add_signed(unsafe { self.i32() } as isize)
    }
}

/// `DW_EH_PE_pcrel | DW_EH_PE_sdata4`, `DW_EH_PE_udata4`, `DW_EH_PE_datarel | DW_EH_PE_sdata4`.
const PCREL: u8 = 0x1b;
const UDATA4: u8 = 0x03;
const DATAREL: u8 = 0x3b;
const NOP: u8 = 0;
/// `DW_CFA_def_cfa` rsp + 8, then `DW_CFA_offset` of the return address at the frame's beginning -
/// 8.
const COMMON_RULES: [u8; 5] = [0x0c, 7, 8, 0x90, 1];

/// The extent of the routine that begins at `address`, if its return address is always at the stack
/// pointer.
///
/// # Safety
///
/// `header` points to a module's `PT_GNU_EH_FRAME` segment.
unsafe fn entry(header: *const u8, address: usize) -> Option<Range<usize>> {
    // SAFETY: the format of `.eh_frame_hdr` and `.eh_frame` (LSB, chapter 10.6); whatever differs
    // from what is expected ends it.
    unsafe {
        let mut at = At(header);
        let kinds = [at.u8(), at.u8(), at.u8(), at.u8()];
        if header.is_null() || kinds != [1, PCREL, UDATA4, DATAREL] {
            return None;
        }
        at.relative();
        let entries = at.i32() as u32 as usize;
        // Pairs of 32-bit offsets from the header: where a routine begins, and its entry. Sorted.
        let pairs = core::slice::from_raw_parts(at.0.cast::<[i32; 2]>(), entries);
        let place = |offset: i32| (header as usize).wrapping_add_signed(offset as isize);
        let found = pairs.binary_search_by_key(&address, |p| place(p[0])).ok()?;
        let mut fde = At(place(pairs[found][1]) as *const u8);
        let end = fde.0.add(4 + fde.i32() as u32 as usize);
        let cie = fde.0.offset(-(fde.i32() as isize));
        if !common_rules(cie) || fde.relative() != address {
            return None;
        }
        let length = fde.i32() as u32 as usize;
        if length > MAX_LENGTH {
            return None;
        }
        // The length of augmentation data: none.
        if fde.u8() != 0 {
            return None;
        }
        let rest = end.offset_from_unsigned(fde.0);
        let instructions = core::slice::from_raw_parts(fde.0, rest);
        instructions.iter().all(|&i| i == NOP).then_some(address..address + length)
    }
}

/// Does this CIE say what is true at the entry of every C function, in the encoding that is
/// expected of its entries?
///
/// # Safety
///
/// `cie` points to one.
unsafe fn common_rules(cie: *const u8) -> bool {
    // SAFETY: as above.
    unsafe {
        let mut at = At(cie);
        let length = at.i32() as u32 as usize;
        let end = at.0.add(length);
        // Identity 0, version 1, augmentation "zR", alignments 1 and -8, return address in column
        // 16, one byte of augmentation data: the encoding.
        let head = [0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, PCREL];
        if length < head.len() + COMMON_RULES.len() {
            return false;
        }
        let body = core::slice::from_raw_parts(at.0, end.offset_from_unsigned(at.0));
        let (found, rules) = body.split_at(head.len());
        let (common, more) = rules.split_at(COMMON_RULES.len());
        found == head && common == COMMON_RULES && more.iter().all(|&i| i == NOP)
    }
}

#[cfg(test)]
mod tests;
