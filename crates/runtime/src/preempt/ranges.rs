//! What kind of code an address belongs to, asked by the handler about the interrupted instruction.
//!
//! ```text
//!   in the dynamic loader or the runtime's assembly                               -> Unsafe
//!   in another range found at the start (libc, unwinder, symbols of allocators)   -> Library
//!   ... but inside a routine of libc without a frame of its own (leaf.rs)         -> Leaf
//!   in the main program                                                           -> Free
//!   in a module that was loaded since: its name decides                           -> any but Leaf
//!   anywhere else (code made at run time)                                         -> Free
//! ```
//!
//! Modules that come and go with `dlopen` and `dlclose` are not listed. Not all of them come by a
//! function of our own: libc loads modules without calling `dlopen` (name services, character sets,
//! `libgcc_s`). And a list that is kept up to date would be late when it matters. Instead the
//! handler asks glibc whose code the address is, with `_dl_find_object`: made for unwinders,
//! documented as async-signal-safe, without locks and without TLS. So the answer is never out of
//! date, and costs nothing where the main program or libc was interrupted. With glibc 2.34, which
//! does not have the function, modules are those that were there when the runtime was built.

mod leaf;
mod modules;
mod symbols;

use core::ops::Range;
use core::sync::atomic::{AtomicPtr, Ordering::*};

/// What it means to be interrupted at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Code {
    /// No lock of the C library is held by this code.
    Free,
    /// It may hold a lock for which others would wait in the kernel. A preemption had better wait,
    /// but not for ever.
    Library,
    /// Something is half done that only the same kernel thread may finish.
    Unsafe,
    /// A routine that holds nothing, has no frame and calls nobody: its caller decides, whose
    /// address is at the stack pointer.
    Leaf,
}

/// What was found at the start. Sorted, without overlaps inside a list.
#[derive(Debug, Default, PartialEq, Eq)]
struct RangeTable {
    leaves: Vec<Range<usize>>,
    unsafe_code: Vec<Range<usize>>,
    libraries: Vec<Range<usize>>,
    /// Executable addresses of the main program.
    program: Vec<Range<usize>>,
}

/// Replaced as a whole; a table that was replaced stays, because a handler may be reading it.
static TABLE: AtomicPtr<RangeTable> = AtomicPtr::new(core::ptr::null_mut());

fn contains(sorted: &[Range<usize>], address: usize) -> bool {
    let after = sorted.partition_point(|r| r.start <= address);
    after > 0 && address < sorted[after - 1].end
}

/// The code at `address`. Async-signal-safe.
#[inline]
pub(crate) fn code_at(address: usize) -> Code {
    // SAFETY: null, or leaked by `refresh`.
    let Some(table) = (unsafe { TABLE.load(Acquire).as_ref() }) else { return Code::Unsafe };
    if contains(&table.unsafe_code, address) {
        Code::Unsafe
    } else if contains(&table.libraries, address) {
        if contains(&table.leaves, address) { Code::Leaf } else { Code::Library }
    } else if contains(&table.program, address) {
        Code::Free
    } else {
        modules::code_now(address)
    }
}

/// What a thread that was interrupted at `rip` is doing, as far as addresses tell; never
/// [`Code::Leaf`]. Async-signal-safe.
///
/// # Safety
///
/// `rsp` is the stack pointer that belongs to `rip`, on a readable stack.
#[inline]
pub(crate) unsafe fn code_of_thread(rip: usize, rsp: usize) -> Code {
    match code_at(rip) {
        // SAFETY: a leaf's return address is at rsp (see `leaf`).
        Code::Leaf => match code_at(unsafe { (rsp as *const usize).read() }) {
            Code::Leaf => Code::Library,
            callers => callers,
        },
        code => code,
    }
}

/// Is a preemption of code at `address` put off, whoever has called it? Async-signal-safe.
#[cfg(feature = "inspect")]
pub(crate) fn is_unsafe(address: usize) -> bool {
    matches!(code_at(address), Code::Library | Code::Unsafe)
}

/// Looks at what is loaded now. Serialised by the caller.
pub(crate) fn refresh() {
    let found = modules::loaded();
    let mut table = RangeTable { program: sorted(found.program), ..RangeTable::default() };
    table.unsafe_code = found.unsafe_code;
    table.unsafe_code.push(crate::arch::resume::range());
    table.unsafe_code.push(crate::arch::user_interrupt::range());
    table.unsafe_code.extend(crate::arch::raise::ranges());
    #[cfg(feature = "inspect")]
    table.unsafe_code.push(crate::arch::entry::inspected());
    table.unsafe_code = sorted(core::mem::take(&mut table.unsafe_code));
    table.libraries = found.libraries;
    table.libraries.extend_from_slice(symbols::of_this_program());
    table.libraries = sorted(core::mem::take(&mut table.libraries));
    table.leaves = sorted(leaf::routines());
    // SAFETY: null, or leaked below.
    let present = unsafe { TABLE.load(Acquire).as_ref() };
    if present != Some(&table) {
        TABLE.store(Box::leak(Box::new(table)), Release);
    }
}

/// Sorted, with ranges that touch or overlap made one.
fn sorted(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.retain(|r| !r.is_empty());
    ranges.sort_unstable_by_key(|r| r.start);
    ranges.dedup_by(|next, last| {
        let joined = next.start <= last.end;
        if joined {
            last.end = last.end.max(next.end);
        }
        joined
    });
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libc_is_a_library_and_this_is_not() {
        refresh();
        assert_eq!(code_at(libc::malloc as *const () as usize), Code::Library);
        assert_eq!(code_at(libc_is_a_library_and_this_is_not as *const () as usize), Code::Free);
        assert_eq!(code_at(crate::arch::resume::range().start), Code::Unsafe);
        for range in crate::arch::raise::ranges() {
            assert_eq!(code_at(range.start), Code::Unsafe);
            assert_eq!(code_at(range.end), Code::Free);
        }
        // SAFETY: null is no handle; the name is a C string.
        let loaders = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__tls_get_addr".as_ptr()) };
        assert_eq!(code_at(loaders as usize), Code::Unsafe);
        // On the heap, as code that a program makes at run time.
        assert_eq!(code_at((&raw const *Box::new(0u64)) as usize), Code::Free);
    }

    #[test]
    fn ranges_are_joined() {
        assert_eq!(sorted(vec![5..9, 1..2, 2..3, 7..8, 4..4]), [1..3, 5..9]);
        let s = sorted(vec![10..20, 30..40]);
        let inside: Vec<_> = (0..50).filter(|&a| contains(&s, a)).collect();
        assert_eq!(inside, (10..20).chain(30..40).collect::<Vec<_>>());
        assert!(!contains(&[], 5));
    }

    #[test]
    fn looking_again_changes_nothing() {
        refresh();
        let before = TABLE.load(Acquire);
        refresh();
        assert_eq!(TABLE.load(Acquire), before);
    }
}
