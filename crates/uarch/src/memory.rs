//! Guest memory: pages of 4 KiB with rights, and the trait through which uops reach it.

use std::collections::HashMap;

use crate::fault::Fault;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// One more than the highest address of user programs.
pub const TOP: u64 = 0x0000_8000_0000_0000;

/// What may be done with a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rights {
    /// Data may be loaded.
    pub read: bool,
    /// Data may be stored.
    pub write: bool,
    /// Instructions may be fetched.
    pub execute: bool,
}

impl Rights {
    /// For data.
    pub const RW: Rights = Rights { read: true, write: true, execute: false };
    /// For code.
    pub const RX: Rights = Rights { read: true, write: false, execute: true };
    /// For all.
    pub const ALL: Rights = Rights { read: true, write: true, execute: true };
}

/// What uops do with memory. The functional core gives them [`Memory`]; a timing model gives them a
/// journal around it, which remembers what it must undo.
pub trait Bus {
    /// The `N` bytes at `address`.
    ///
    /// # Errors
    ///
    /// A page is not mapped or may not be read.
    fn load<const N: usize>(&mut self, address: u64) -> Result<[u8; N], Fault>;

    /// Stores `N` bytes at `address`; nothing if one of them cannot be stored.
    ///
    /// # Errors
    ///
    /// A page is not mapped or may not be written.
    fn store<const N: usize>(&mut self, address: u64, bytes: [u8; N]) -> Result<(), Fault>;
}

#[derive(Clone, Copy)]
struct Page {
    /// Where its bytes begin in the arena.
    offset: usize,
    rights: Rights,
    /// Decoded code depends on it.
    decoded: bool,
}

/// A recently used page; `number` is `NONE` in an empty entry.
#[derive(Clone, Copy)]
struct Recent {
    number: u64,
    offset: usize,
}

const NONE: u64 = u64::MAX;
const RECENT: usize = 256;

/// The memory of a program.
pub struct Memory {
    pages: HashMap<u64, Page>,
    arena: Vec<u8>,
    free: Vec<usize>,
    /// Pages that may be read; and those that may be written and hold no decoded code.
    readable: [Recent; RECENT],
    writable: [Recent; RECENT],
    /// Counts changes of decoded code; who keeps decoded code compares it.
    generation: u64,
}

impl Default for Memory {
    fn default() -> Self {
        let empty = [Recent { number: NONE, offset: 0 }; RECENT];
        Memory {
            pages: HashMap::new(),
            arena: Vec::new(),
            free: Vec::new(),
            readable: empty,
            writable: empty,
            generation: 0,
        }
    }
}

impl Memory {
    /// Maps the pages that contain the range, filled with zeros. Those that exist lose their
    /// content.
    pub fn map(&mut self, address: u64, length: u64, rights: Rights) {
        self.unmap(address, length);
        for number in numbers(address, length) {
            let offset = self.free.pop().unwrap_or_else(|| {
                let end = self.arena.len();
                self.arena.resize(end + PAGE as usize, 0);
                end
            });
            self.arena[offset..offset + PAGE as usize].fill(0);
            self.pages.insert(number, Page { offset, rights, decoded: false });
        }
    }

    /// Removes the pages that contain the range.
    pub fn unmap(&mut self, address: u64, length: u64) {
        for number in numbers(address, length) {
            if let Some(page) = self.pages.remove(&number) {
                self.free.push(page.offset);
                self.generation += u64::from(page.decoded);
            }
        }
        self.forget();
    }

    /// Changes the rights of pages. Says whether all of them exist.
    pub fn protect(&mut self, address: u64, length: u64, rights: Rights) -> bool {
        let mut all = true;
        for number in numbers(address, length) {
            match self.pages.get_mut(&number) {
                Some(page) => {
                    page.rights = rights;
                    self.generation += u64::from(page.decoded);
                }
                None => all = false,
            }
        }
        self.forget();
        all
    }

    /// Whether a byte of the range is mapped.
    pub fn is_mapped(&self, address: u64, length: u64) -> bool {
        numbers(address, length).any(|number| self.pages.contains_key(&number))
    }

    /// Bytes that are mapped.
    pub fn size(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }

    /// Changes whenever code that was fetched may have changed.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Copies instruction bytes from `address` into `buffer`, up to the first page that may not be
    /// executed. Says how many. Stores into these pages change [`Memory::generation`] from now on.
    pub fn fetch(&mut self, address: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while done < buffer.len() {
            let at = address.wrapping_add(done as u64);
            let Some(page) = self.pages.get_mut(&(at / PAGE)).filter(|p| p.rights.execute) else {
                break;
            };
            page.decoded = true;
            let (from, offset) = ((at % PAGE) as usize, page.offset);
            let n = (buffer.len() - done).min(PAGE as usize - from);
            buffer[done..done + n].copy_from_slice(&self.arena[offset + from..][..n]);
            done += n;
            self.writable[slot(at / PAGE)].number = NONE;
        }
        done
    }

    /// Reads bytes whatever the rights; false if a page is missing.
    pub fn peek(&self, address: u64, buffer: &mut [u8]) -> bool {
        let mut at = address;
        for piece in pieces(address, buffer) {
            let Some(page) = self.pages.get(&(at / PAGE)) else { return false };
            piece.copy_from_slice(&self.arena[page.offset + (at % PAGE) as usize..][..piece.len()]);
            at = at.wrapping_add(piece.len() as u64);
        }
        true
    }

    /// Writes bytes whatever the rights; false if a page is missing.
    pub fn poke(&mut self, address: u64, bytes: &[u8]) -> bool {
        let (mut at, mut rest) = (address, bytes);
        while !rest.is_empty() {
            let Some(page) = self.pages.get(&(at / PAGE)) else { return false };
            self.generation += u64::from(page.decoded);
            let (piece, after) = rest.split_at(rest.len().min((PAGE - at % PAGE) as usize));
            self.arena[page.offset + (at % PAGE) as usize..][..piece.len()].copy_from_slice(piece);
            at = at.wrapping_add(piece.len() as u64);
            rest = after;
        }
        true
    }

    fn forget(&mut self) {
        for entry in self.readable.iter_mut().chain(&mut self.writable) {
            entry.number = NONE;
        }
    }

    #[cold]
    fn find_readable(&mut self, address: u64) -> Result<usize, Fault> {
        let number = address / PAGE;
        let page = self.pages.get(&number).filter(|page| page.rights.read);
        let offset = page.ok_or(Fault::read(address))?.offset;
        self.readable[slot(number)] = Recent { number, offset };
        Ok(offset)
    }

    #[cold]
    fn find_writable(&mut self, address: u64) -> Result<usize, Fault> {
        let number = address / PAGE;
        let page = self.pages.get(&number).filter(|page| page.rights.write);
        let page = page.ok_or(Fault::write(address))?;
        if page.decoded {
            self.generation += 1;
        } else {
            self.writable[slot(number)] = Recent { number, offset: page.offset };
        }
        Ok(page.offset)
    }

    #[cold]
    fn load_across<const N: usize>(&mut self, address: u64) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = self.load::<1>(address.wrapping_add(i as u64))?[0];
        }
        Ok(bytes)
    }

    #[cold]
    fn store_across<const N: usize>(&mut self, address: u64, bytes: [u8; N]) -> Result<(), Fault> {
        // Both pages must be writable before the first byte changes.
        self.find_writable(address)?;
        self.find_writable(address.wrapping_add(N as u64 - 1))
            .map_err(|_| Fault::write(address.wrapping_add(N as u64 - 1) & !(PAGE - 1)))?;
        for (i, byte) in bytes.into_iter().enumerate() {
            self.store::<1>(address.wrapping_add(i as u64), [byte])?;
        }
        Ok(())
    }
}

impl Bus for Memory {
    #[inline]
    fn load<const N: usize>(&mut self, address: u64) -> Result<[u8; N], Fault> {
        let from = (address % PAGE) as usize;
        if from + N > PAGE as usize {
            return self.load_across(address);
        }
        let number = address / PAGE;
        let entry = self.readable[slot(number)];
        let offset =
            if entry.number == number { entry.offset } else { self.find_readable(address)? };
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.arena[offset + from..offset + from + N]);
        Ok(bytes)
    }

    #[inline]
    fn store<const N: usize>(&mut self, address: u64, bytes: [u8; N]) -> Result<(), Fault> {
        let from = (address % PAGE) as usize;
        if from + N > PAGE as usize {
            return self.store_across(address, bytes);
        }
        let number = address / PAGE;
        let entry = self.writable[slot(number)];
        let offset =
            if entry.number == number { entry.offset } else { self.find_writable(address)? };
        self.arena[offset + from..offset + from + N].copy_from_slice(&bytes);
        Ok(())
    }
}

/// Parts of `buffer` that lie in one page each, if its first byte is at `address`.
fn pieces(address: u64, buffer: &mut [u8]) -> impl Iterator<Item = &mut [u8]> {
    let first = buffer.len().min((PAGE - address % PAGE) as usize);
    let (first, rest) = buffer.split_at_mut(first);
    std::iter::once(first).chain(rest.chunks_mut(PAGE as usize))
}

fn slot(number: u64) -> usize {
    number as usize % RECENT
}

fn numbers(address: u64, length: u64) -> impl Iterator<Item = u64> {
    let end = address.saturating_add(length).min(TOP);
    address / PAGE..if length == 0 { address / PAGE } else { end.div_ceil(PAGE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_across_pages_are_whole_or_not_at_all() {
        let mut memory = Memory::default();
        memory.map(0x1000, PAGE, Rights::RW);
        assert_eq!(memory.store(0x1ffc, [1; 8]), Err(Fault::write(0x2000)));
        assert_eq!(memory.load(0x1ffc), Ok([0; 4]));
        assert_eq!(memory.load::<8>(0x1ffc), Err(Fault::read(0x2000)));
        memory.map(0x2000, PAGE, Rights::RW);
        assert_eq!(memory.store(0x1ffc, 0x1122_3344_5566_7788_u64.to_le_bytes()), Ok(()));
        assert_eq!(memory.load(0x2000), Ok(0x1122_3344_u32.to_le_bytes()));
        memory.protect(0x2000, PAGE, Rights::RX);
        assert_eq!(memory.store(0x1ffc, [1; 8]), Err(Fault::write(0x2000)));
        memory.unmap(0x1000, 1);
        assert_eq!(memory.load::<1>(0x1fff), Err(Fault::read(0x1fff)));
        assert_eq!(memory.size(), PAGE);
    }

    #[test]
    fn a_store_into_decoded_code_is_noticed() {
        let mut memory = Memory::default();
        memory.map(0x1000, 2 * PAGE, Rights::ALL);
        memory.store(0x1000, [0x90]).unwrap();
        let before = memory.generation();
        assert_eq!(memory.fetch(0x1ffe, &mut [0; 4]), 4);
        memory.store(0x1000, [0x91]).unwrap();
        assert_ne!(memory.generation(), before);
        memory.protect(0x2000, PAGE, Rights::RW);
        assert_eq!(memory.fetch(0x1ffe, &mut [0; 4]), 2);
    }
}
