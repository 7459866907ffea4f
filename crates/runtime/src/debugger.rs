//! What a debugger needs: where the runtime is, how its structures are laid out, and gdb's commands
//! for user threads.
//!
//! Both travel in sections of the program, so they are there with and without debug information, in
//! stripped programs, and in C programs that are linked with the library. `gdb/README.md` in this
//! package says how the commands work.
//!
//! * [`QUAVER_GDB`] in `.quaver_gdb` describes the layout: names and numbers. The commands need
//!   nothing else to find every thread; the compiler writes the numbers, so they cannot go stale.
//! * [`SCRIPT`] in `.debug_gdb_scripts` is `gdb/quaver-gdb.py`, which gdb loads by itself from
//!   programs that it has been told to trust. (The attribute `debugger_visualizer` would do this
//!   only in programs that are built with debug information.)

use crate::arch::segment::{GS_CURRENT, GS_SELF};
use crate::arch::switch;
use crate::runtime::{self, Inner};
use crate::sync::mutex::raw::RawMutex;
use crate::thread::control::{Uthread, park_state, phase};
use crate::thread::life;
use crate::thread::stack;
use crate::worker::carrier::Carrier;
use crate::worker::slot::Slot;
use core::mem::offset_of;
use core::sync::atomic::AtomicPtr;

/// One number of the description.
#[repr(C)]
struct Field {
    name: [u8; 24],
    value: u64,
}

/// The offset of a field, the size of a type or the value of a constant.
const fn field(name: &str, value: usize) -> Field {
    let (from, mut to, mut i) = (name.as_bytes(), [0; 24], 0);
    while i < from.len() {
        to[i] = from[i];
        i += 1;
    }
    Field { name: to, value: value as u64 }
}

const FIELDS: [Field; 33] = [
    field("Inner.table.blocks", offset_of!(Inner, table.blocks)),
    field("Inner.table.high", offset_of!(Inner, table.high)),
    field("Inner.max_threads", offset_of!(Inner, config.max_threads)),
    field("Inner.signal", offset_of!(Inner, config.signal)),
    field("Uthread.size", size_of::<Uthread>()),
    field("Uthread.rsp", offset_of!(Uthread, rsp)),
    field("Uthread.fs", offset_of!(Uthread, fs)),
    field("Uthread.phase", offset_of!(Uthread, phase)),
    field("Uthread.park", offset_of!(Uthread, park)),
    field("Uthread.life", offset_of!(Uthread, life)),
    field("Uthread.run", offset_of!(Uthread, run)),
    field("Uthread.region", offset_of!(Uthread, region)),
    field("Uthread.stack_top", offset_of!(Uthread, stack_top)),
    field("Uthread.id", offset_of!(Uthread, id)),
    field("Uthread.name", offset_of!(Uthread, name)),
    field("Uthread.label", offset_of!(Uthread, label)),
    field("Uthread.waits_for", offset_of!(Uthread, waits_for)),
    field("Uthread.waits_at", offset_of!(Uthread, waits_at)),
    field("RawMutex.owner", RawMutex::OWNER),
    field("phase.ALIVE", phase::ALIVE as usize),
    field("life.DONE", life::DONE as usize),
    field("life.EXITING", life::EXITING as usize),
    field("life.SUSPENDED", life::SUSPENDED as usize),
    field("park.PARKED", park_state::PARKED as usize),
    field("GUARD", stack::GUARD),
    field("Carrier.this", GS_SELF),
    field("Carrier.current", GS_CURRENT),
    field("Carrier.slot", offset_of!(Carrier, slot)),
    field("Carrier.tid", offset_of!(Carrier, tid)),
    field("Carrier.native_rsp", offset_of!(Carrier, native_rsp)),
    field("Carrier.alt_stack", offset_of!(Carrier, alt_stack.ss_sp)),
    field("Carrier.alt_size", offset_of!(Carrier, alt_stack.ss_size)),
    field("Slot.id", offset_of!(Slot, id)),
];

/// The description. Changes of its form, or of what a name means, change `version`; gdb's commands
/// check it.
#[repr(C)]
struct Description {
    magic: [u8; 8],
    version: u32,
    fields: u32,
    /// Points to the runtime that runs or ran last.
    runtime: &'static AtomicPtr<Inner>,
    /// Where threads that have not run yet will begin.
    thread_start: unsafe extern "C" fn() -> !,
    table: [Field; FIELDS.len()],
}

// SAFETY: never written.
unsafe impl Sync for Description {}

#[unsafe(no_mangle)]
#[unsafe(link_section = ".quaver_gdb")]
static QUAVER_GDB: Description = Description {
    magic: *b"QuaverDB",
    version: 3,
    fields: FIELDS.len() as u32,
    runtime: &runtime::LATEST,
    thread_start: switch::thread_start,
    table: FIELDS,
};

/// What begins an entry of the section that is a Python text (4), with the name that messages call
/// it by.
const SCRIPT_HEAD: &[u8] = b"\x04quaver-gdb\n";
const SCRIPT_TEXT: &[u8] = include_bytes!("../gdb/quaver-gdb.py");

#[unsafe(link_section = ".debug_gdb_scripts")]
static SCRIPT: [u8; SCRIPT_HEAD.len() + SCRIPT_TEXT.len() + 1] = {
    // The text ends with a zero.
    let mut all = [0; SCRIPT_HEAD.len() + SCRIPT_TEXT.len() + 1];
    let (head, text) = all.split_at_mut(SCRIPT_HEAD.len());
    head.copy_from_slice(SCRIPT_HEAD);
    text.split_at_mut(SCRIPT_TEXT.len()).0.copy_from_slice(SCRIPT_TEXT);
    all
};

/// Makes the linker keep both.
pub(crate) fn link() {
    core::hint::black_box((&raw const QUAVER_GDB, &raw const SCRIPT));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_and_differ() {
        let mut names: Vec<&[u8]> = FIELDS.iter().map(|f| f.name.as_slice()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FIELDS.len());
        assert!(!SCRIPT_TEXT.contains(&0));
    }

    /// The commands read a thread's name as two words, and its function as one.
    #[test]
    fn names_and_functions_have_the_form_that_gdb_reads() {
        let name: Option<Box<str>> = Some("nine char".into());
        let at = name.as_deref().map_or(0, |n| n.as_ptr() as usize);
        // SAFETY: two words, without invalid values.
        let words: [usize; 2] = unsafe { core::mem::transmute_copy(&name) };
        assert_eq!(words, [at, 9]);
        let none: Option<Box<str>> = None;
        // SAFETY: the first word of a `None` is where its niche is.
        assert_eq!(unsafe { core::ptr::from_ref(&none).cast::<usize>().read() }, 0);
        unsafe fn run(_: *mut u8) {}
        let function: Option<unsafe fn(*mut u8)> = Some(run);
        // SAFETY: as large as a word.
        let word: usize = unsafe { core::mem::transmute_copy(&function) };
        assert_eq!(word, run as *const () as usize);
    }
}
