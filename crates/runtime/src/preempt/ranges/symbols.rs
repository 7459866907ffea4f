//! Unsafe code that is linked into the main program: allocators and language runtimes, found by
//! their symbols.
//!
//! A family is looked for only where its best-known function is there, so that a program's own
//! `mi_something` is left alone. Functions without a global name count as those around them: the
//! static ones of the same library. A program that has been stripped has no symbols; there
//! [`Guarded`](crate::Guarded) does the same for allocators.

use core::ops::Range;
use libc::{Elf64_Ehdr, Elf64_Shdr, Elf64_Sym};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// A library's best-known function, and how the names of its functions begin.
struct Family(&'static [u8], &'static [&'static [u8]]);

const FAMILIES: [Family; 7] = [
    Family(b"mi_malloc", &[b"mi_", b"_mi_"]),
    Family(b"je_malloc", &[b"je_"]),
    // jemalloc as Rust crates build it.
    Family(b"_rjem_malloc", &[b"_rjem_"]),
    Family(b"tc_malloc", &[b"tc_", b"_ZN8tcmalloc"]),
    Family(
        b"malloc",
        &[
            b"malloc\0",
            b"calloc\0",
            b"realloc\0",
            b"free\0",
            b"posix_memalign\0",
            b"aligned_alloc\0",
        ],
    ),
    Family(b"__cxa_throw", &[b"__cxa_", b"_ZN10__cxxabiv1", b"__gxx_personality"]),
    Family(
        b"_Unwind_RaiseException",
        &[b"_Unwind_", b"unw_", b"_ZN9libunwind", b"__register_frame"],
    ),
];

/// The section with all symbols.
const SHT_SYMTAB: u32 = 2;

/// Ranges of such functions in the running program, as they are in memory; looked for once.
pub(super) fn of_this_program() -> &'static [Range<usize>] {
    static FOUND: OnceLock<Vec<Range<usize>>> = OnceLock::new();
    // What cannot be read has no symbols.
    FOUND.get_or_init(|| read().unwrap_or_default())
}

/// A function's symbol.
#[derive(Clone, Debug)]
struct Function<'a> {
    /// As linked, with the terminating zero.
    name: &'a [u8],
    at: Range<usize>,
    local: bool,
}

fn read() -> io::Result<Vec<Range<usize>>> {
    let file = File::open("/proc/self/exe")?;
    let header: Elf64_Ehdr = records(&file, 0, 1)?[0];
    if header.e_ident[..5] != *b"\x7fELF\x02"
        || usize::from(header.e_shentsize) != size_of::<Elf64_Shdr>()
    {
        return Ok(Vec::new());
    }
    let sections: Vec<Elf64_Shdr> = records(&file, header.e_shoff, header.e_shnum.into())?;
    let Some(table) = sections.iter().find(|s| s.sh_type == SHT_SYMTAB) else {
        return Ok(Vec::new());
    };
    let Some(strings) = sections.get(table.sh_link as usize) else { return Ok(Vec::new()) };
    let symbols: Vec<Elf64_Sym> =
        records(&file, table.sh_offset, table.sh_size as usize / size_of::<Elf64_Sym>())?;
    let strings: Vec<u8> = records(&file, strings.sh_offset, strings.sh_size as usize)?;
    // Where the program lies in memory, for position-independent ones.
    // SAFETY: reads the auxiliary vector.
    let entry = unsafe { libc::getauxval(libc::AT_ENTRY) } as usize;
    let bias = entry.wrapping_sub(header.e_entry as usize);
    Ok(select(functions(&symbols, &strings, bias)))
}

/// `n` records of plain numbers from a file.
fn records<T: Copy>(file: &File, offset: u64, n: usize) -> io::Result<Vec<T>> {
    let length = file.metadata()?.len();
    let bytes = n.saturating_mul(size_of::<T>());
    if offset.saturating_add(bytes as u64) > length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut records = Vec::<T>::with_capacity(n);
    // SAFETY: the reserved room, zeroed first; every bit pattern is a valid record of plain
    // numbers.
    unsafe {
        let room = records.as_mut_ptr().cast::<u8>();
        room.write_bytes(0, bytes);
        file.read_exact_at(core::slice::from_raw_parts_mut(room, bytes), offset)?;
        records.set_len(n);
    }
    Ok(records)
}

fn functions<'a>(symbols: &[Elf64_Sym], strings: &'a [u8], bias: usize) -> Vec<Function<'a>> {
    const STT_FUNC: u8 = 2;
    const STB_LOCAL: u8 = 0;
    let functions = symbols.iter().filter(|s| s.st_info & 15 == STT_FUNC && s.st_value != 0);
    functions
        .filter_map(|s| {
            let name = strings.get(s.st_name as usize..)?;
            let end = name.iter().position(|&c| c == 0)?;
            let start = bias.wrapping_add(s.st_value as usize);
            Some(Function {
                name: &name[..=end],
                at: start..start.checked_add(s.st_size as usize)?,
                local: s.st_info >> 4 == STB_LOCAL,
            })
        })
        .collect()
}

/// The ranges of functions that belong to a family that is there.
fn select(mut functions: Vec<Function<'_>>) -> Vec<Range<usize>> {
    let is = |f: &Function<'_>, name: &[u8]| f.name.strip_suffix(b"\0") == Some(name);
    let there: Vec<_> =
        FAMILIES.iter().filter(|family| functions.iter().any(|f| is(f, family.0))).collect();
    if there.is_empty() {
        return Vec::new();
    }
    functions.sort_by_key(|f| f.at.start);
    let of_family = |f: &Function<'_>| {
        there.iter().any(|family| family.1.iter().any(|prefix| f.name.starts_with(prefix)))
    };
    let mut found: Vec<Range<usize>> = Vec::new();
    // Static functions since the last one of a family, with nobody else's between.
    let mut between: Option<Vec<Range<usize>>> = None;
    for f in &functions {
        if of_family(f) {
            found.extend(between.replace(Vec::new()).unwrap_or_default());
            found.push(f.at.clone());
        } else if f.local {
            if let Some(between) = &mut between {
                between.push(f.at.clone());
            }
        } else {
            between = None;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f(name: &'static str, at: Range<usize>, local: bool) -> Function<'static> {
        Function { name: name.as_bytes(), at, local }
    }

    #[test]
    fn families_are_found_with_their_static_functions() {
        let functions = vec![
            f("main\0", 0..9, false),
            f("helper_of_main\0", 10..19, true),
            f("mi_malloc\0", 20..29, false),
            f("_mi_page_free\0", 40..49, false),
            f("page_queue_push\0", 30..39, true),
            f("helper_of_nobody\0", 50..59, true),
            f("run\0", 60..69, false),
            f("mi_late\0", 70..79, false),
            f("je_mine\0", 80..89, false),
        ];
        assert_eq!(select(functions), [20..29, 30..39, 40..49, 70..79]);
    }

    #[test]
    fn names_alone_are_no_family() {
        let functions = || {
            vec![
                f("mi_favourite\0", 0..9, false),
                f("freedom\0", 10..19, false),
                f("_Unwind_me\0", 20..29, false),
            ]
        };
        assert!(select(functions()).is_empty());
        // Whole names of the C allocator only.
        let mut with_malloc = functions();
        with_malloc.push(f("malloc\0", 30..39, false));
        let found = select(with_malloc);
        assert_eq!((found.len(), found[0].clone()), (1, 30..39));
    }

    #[test]
    fn this_program_can_be_read() {
        // It has no allocator of its own, and the unwinder is a shared library; but reading must
        // work.
        assert!(read().is_ok());
    }

    #[test]
    fn nonsense_is_an_error() {
        let file = File::open("/proc/self/exe").unwrap();
        assert!(records::<u64>(&file, u64::MAX - 4, 1).is_err());
        assert!(records::<u64>(&file, 0, usize::MAX / 2).is_err());
        let symbol = Elf64_Sym {
            st_name: 99,
            st_info: 2,
            st_other: 0,
            st_shndx: 0,
            st_value: 8,
            st_size: u64::MAX,
        };
        assert!(functions(&[symbol], b"abc", 0).is_empty());
        assert!(functions(&[Elf64_Sym { st_name: 1, ..symbol }], b"abc", 0).is_empty());
        assert!(functions(&[Elf64_Sym { st_name: 1, ..symbol }], b"abc\0", 0).is_empty());
    }
}
