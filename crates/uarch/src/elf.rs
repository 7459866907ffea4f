//! Static ELF programs into memory, with the stack that Linux gives them.

use object::elf::{PF_R, PF_W, PF_X, PT_INTERP, PT_LOAD, PT_PHDR, ProgramFlags};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol};

use crate::cpu::Cpu;
use crate::fault::Error;
use crate::memory::{Memory, PAGE, Rights, TOP};
use crate::uop::reg;

/// Bytes of the stack.
pub const STACK: u64 = 1 << 20;

/// The highest address of the stack.
pub const STACK_TOP: u64 = 0x7fff_ffff_0000;

/// Where programs begin that can run anywhere.
const BASE: u64 = 0x10_0000_0000;

/// The most memory that a program's file may ask for.
const LARGEST: u64 = 1 << 30;

fn wrong(what: impl std::fmt::Display) -> Error {
    Error::Program(format!("not a program for the model: {what}"))
}

/// Where a loaded program's data ends.
#[derive(Clone, Copy, Debug)]
pub struct Loaded {
    /// The first page behind it: where `brk` begins.
    pub end: u64,
}

/// Loads a program, and sets the registers with which it begins.
///
/// # Errors
///
/// It is not ELF for x86-64, is linked dynamically, or its segments are no memory of a program.
pub fn load(
    file: &[u8],
    arguments: &[&str],
    memory: &mut Memory,
    cpu: &mut Cpu,
) -> Result<Loaded, Error> {
    let elf = ElfFile64::<Endianness>::parse(file)
        .map_err(|e| wrong(format!("no 64-bit ELF file ({e})")))?;
    let (header, endian) = (elf.elf_header(), elf.endian());
    if elf.architecture() != object::Architecture::X86_64 {
        return Err(wrong(format!("it is for {:?}; x86-64 is needed", elf.architecture())));
    }
    // A program that runs anywhere (static-pie) relocates itself.
    let base = match header.e_type(endian) {
        object::elf::ET_EXEC => 0,
        object::elf::ET_DYN => BASE,
        _ => return Err(wrong("it is no executable; link it, with -static")),
    };
    let mut end = 0;
    let mut headers = 0;
    for segment in elf.elf_program_headers() {
        let address = segment.p_vaddr(endian).wrapping_add(base);
        match segment.p_type(endian) {
            PT_INTERP => return Err(wrong("it is linked dynamically; link it with -static")),
            PT_PHDR => headers = address,
            PT_LOAD => {
                let length = segment.p_memsz(endian);
                let last =
                    address.checked_add(length).filter(|&last| last < TOP && length < LARGEST);
                let last = last
                    .ok_or_else(|| wrong(format!("a segment at {address:#x} of {length} bytes")))?;
                let data = segment
                    .data(endian, file)
                    .ok()
                    .filter(|data| data.len() as u64 <= length)
                    .ok_or_else(|| {
                        wrong(format!("the segment at {address:#x} is not whole in the file"))
                    })?;
                place(memory, address, length, data, segment.p_flags(endian))?;
                end = end.max(last);
                let offset = header.e_phoff(endian).wrapping_sub(segment.p_offset(endian));
                if headers == 0 && offset < data.len() as u64 {
                    headers = address + offset;
                }
            }
            _ => {}
        }
    }
    if end == 0 {
        return Err(wrong("it has nothing to load"));
    }
    cpu.rip = header.e_entry(endian).wrapping_add(base);
    let auxiliary = [
        (3, headers),                                // AT_PHDR
        (4, header.e_phentsize(endian).into()),      // AT_PHENT
        (5, elf.elf_program_headers().len() as u64), // AT_PHNUM
        (6, PAGE),                                   // AT_PAGESZ
        (9, cpu.rip),                                // AT_ENTRY
        (11, 1000),                                  // AT_UID and the three after it
        (12, 1000),
        (13, 1000),
        (14, 1000),
        (17, 100), // AT_CLKTCK
        (23, 0),   // AT_SECURE
    ];
    stack(memory, cpu, arguments, &auxiliary);
    Ok(Loaded { end: end.div_ceil(PAGE) * PAGE })
}

fn place(
    memory: &mut Memory,
    address: u64,
    length: u64,
    data: &[u8],
    flags: ProgramFlags,
) -> Result<(), Error> {
    // Segments may share a page: what is there stays.
    for page in address / PAGE..(address + length).div_ceil(PAGE) {
        if !memory.is_mapped(page * PAGE, 1) {
            memory.map(page * PAGE, PAGE, Rights::default());
        }
    }
    let rights = Rights {
        read: flags.contains(PF_R),
        write: flags.contains(PF_W),
        execute: flags.contains(PF_X),
    };
    memory.protect(address, length, rights);
    if memory.poke(address, data) { Ok(()) } else { Err(wrong("a segment outside of memory")) }
}

/// Arguments, an empty environment and the auxiliary vector, as the ABI of x86-64 has them.
fn stack(memory: &mut Memory, cpu: &mut Cpu, arguments: &[&str], auxiliary: &[(u64, u64)]) {
    memory.map(STACK_TOP - STACK, STACK, Rights::RW);
    let mut at = STACK_TOP;
    let mut put = |memory: &mut Memory, bytes: &[u8]| {
        at -= bytes.len() as u64;
        memory.poke(at, bytes);
        at
    };
    let mut pointers = Vec::new();
    for argument in arguments {
        put(memory, &[0]);
        pointers.push(put(memory, argument.as_bytes()));
    }
    // AT_RANDOM: the same in each run.
    let random = put(memory, &0x5eed_u128.to_le_bytes());
    let mut words = vec![arguments.len() as u64];
    words.extend(pointers);
    words.extend([0, 0]);
    words.extend(auxiliary.iter().flat_map(|&(kind, value)| [kind, value]));
    words.extend([25, random, 0, 0]);
    at = (at - 8 * words.len() as u64) & !15;
    for (i, word) in words.iter().enumerate() {
        memory.poke(at + 8 * i as u64, &word.to_le_bytes());
    }
    cpu.set(reg::RSP, 3, at);
}
/// The address of a program's symbol, if it is linked to one address and has such a symbol.
pub fn symbol(file: &[u8], name: &str) -> Option<u64> {
    let elf = ElfFile64::<Endianness>::parse(file).ok()?;
    elf.symbol_by_name(name).map(|symbol| symbol.address())
}
