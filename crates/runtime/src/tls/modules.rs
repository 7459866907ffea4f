//! Modules that have thread-local variables, and where in a thread's block these are.
//!
//! `dl_iterate_phdr` lists the modules and their initial images, but tells where the calling thread
//! has a module's variables only if the thread already knows of the module. The loader's own table
//! says it of all:
//!
//! ```text
//!   _rtld_global._dl_tls_dtv_slotinfo_list -> { length, next, { generation, link_map }[length] }
//!                                                             index: module number
//!   link_map.l_tls_offset: below the thread pointer
//! ```
//!
//! Nothing is unloaded during `dl_iterate_phdr`, and a library that is unloaded has left the table
//! before.

use super::{Image, descriptors};
use crate::arch::segment;
use core::ffi::{CStr, c_void};

/// `l_tls_offset` of a module whose variables are allocated on demand
/// (`FORCED_DYNAMIC_TLS_OFFSET`), or nowhere yet.
const DYNAMIC: usize = usize::MAX;
const NOWHERE: usize = 0;

/// A module with thread-local variables. What it says of them holds until the callback of [`each`]
/// returns.
pub(super) struct Module {
    /// If they are in every thread's block.
    pub(super) image: Option<Image>,
    /// libc itself or the dynamic loader.
    pub(super) is_libc: bool,
    /// It was there when the process started, and so stays.
    pub(super) from_start: bool,
    number: usize,
}

/// Calls `f` for every loaded module that has thread-local variables. Waits while a library is
/// being loaded or unloaded.
pub(super) fn each<F: FnMut(Module)>(table: Option<&ModuleTable>, f: F) {
    unsafe extern "C" fn one<F: FnMut(Module)>(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        data: *mut c_void,
    ) -> i32 {
        // SAFETY: `data` is the pair below; `info` is valid during the callback.
        let (info, (table, f)) =
            unsafe { (&*info, &mut *data.cast::<(Option<&ModuleTable>, F)>()) };
        // SAFETY: dlpi_phdr has dlpi_phnum entries.
        let headers =
            unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let Some(h) = headers.iter().find(|h| h.p_type == libc::PT_TLS) else { return 0 };
        // SAFETY: dlpi_name is a C string, empty for the main program.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
        let file = name.rsplit(|&c| c == b'/').next().unwrap_or(name);
        // Without the table: all modules are taken for such that stay.
        let (below_tp, from_start) = match table {
            Some(table) => {
                let (below_tp, generation) = table.place(info.dlpi_tls_modid);
                (below_tp, generation <= table.first_generation)
            }
            None => (near(info.dlpi_tls_data), true),
        };
        let init = core::ptr::slice_from_raw_parts(
            (info.dlpi_addr + h.p_vaddr) as *const u8,
            h.p_filesz as usize,
        );
        f(Module {
            image: below_tp.map(|below_tp| Image { below_tp, init, size: h.p_memsz as usize }),
            is_libc: file.starts_with(b"libc.so") || file.starts_with(b"ld-linux"),
            from_start,
            number: info.dlpi_tls_modid,
        });
        0
    }
    let mut data = (table, f);
    // SAFETY: the callback gets valid module descriptions and our pair.
    unsafe { libc::dl_iterate_phdr(Some(one::<F>), (&raw mut data).cast()) };
}

/// Where the calling thread's variables are, if that is so shortly below its thread pointer that it
/// cannot be the heap.
fn near(variables: *mut c_void) -> Option<usize> {
    Some(segment::fs_base().wrapping_sub(variables as usize)).filter(|&d| d <= 1 << 20)
}

/// The loader's table of modules.
pub(super) struct ModuleTable {
    first: *const *const Slots,
    offset_in_map: usize,
    /// Of the modules that were there when the process started, as libc was. Those that come later
    /// have higher ones.
    first_generation: usize,
}

#[repr(C)]
struct Slots {
    len: usize,
    next: *const Slots,
    slots: [ModuleSlot; 0],
}

#[repr(C)]
struct ModuleSlot {
    generation: usize,
    map: *const c_void,
}

// SAFETY: a variable of the dynamic loader, read as it reads it itself.
unsafe impl Send for ModuleTable {}
// SAFETY: as above.
unsafe impl Sync for ModuleTable {}

impl ModuleTable {
    /// Finds it, and compares it with what is known of the calling thread.
    pub(super) fn find() -> Option<ModuleTable> {
        let mut table = ModuleTable {
            first: descriptors::in_loader(c"_thread_db_rtld_global__dl_tls_dtv_slotinfo_list")?
                .cast(),
            offset_in_map: descriptors::offset(c"_thread_db_link_map_l_tls_offset")?,
            first_generation: 0,
        };
        let (mut libc, mut wrong) = (None, 0);
        each(None, |m| {
            let (place, generation) = table.place(m.number);
            if m.image.is_some_and(|image| Some(image.below_tp) != place) {
                wrong += 1;
            }
            libc = libc.or(Some(generation).filter(|_| m.is_libc));
        });
        table.first_generation = libc?;
        (wrong == 0).then_some(table)
    }

    /// Where module `number` has its variables in every block, if it has; and in which generation
    /// of the table it came.
    fn place(&self, number: usize) -> (Option<usize>, usize) {
        let mut index = number;
        // SAFETY: the list only ever grows at its end; `number` is that of a module that stays
        // during the call.
        unsafe {
            let mut slots = self.first.read();
            while !slots.is_null() {
                if index < (*slots).len {
                    let slot = (&raw const (*slots).slots).cast::<ModuleSlot>().add(index);
                    let ModuleSlot { generation, map } = slot.read_volatile();
                    if map.is_null() {
                        break;
                    }
                    let offset = map.byte_add(self.offset_in_map).cast::<usize>().read_volatile();
                    return (Some(offset).filter(|&o| o != DYNAMIC && o != NOWHERE), generation);
                }
                index -= (*slots).len;
                slots = (&raw const (*slots).next).read_volatile();
            }
        }
        (None, usize::MAX)
    }
}
