//! Decoded blocks, found by their addresses.

use std::collections::HashMap;

use super::Block;
use crate::fault::Fault;
use crate::memory::Memory;

/// Entries of the table that finds the next block; a power of two.
const QUICK: usize = 4096;

/// Decoded blocks. They are valid for one generation of the memory's code.
#[derive(Default)]
pub struct Blocks {
    all: Vec<Block>,
    by_address: HashMap<u64, u32>,
    /// Address and number of blocks, by the address's lower bits.
    quick: Vec<(u64, u32)>,
    generation: u64,
}

impl Blocks {
    /// The number of the block that begins at `address`. It holds until the next call.
    ///
    /// # Errors
    ///
    /// There is no code at `address`.
    #[inline]
    pub fn find(&mut self, memory: &mut Memory, address: u64) -> Result<usize, Fault> {
        if self.generation == memory.generation()
            && let Some(&(at, number)) = self.quick.get(address as usize % QUICK)
            && at == address
        {
            return Ok(number as usize);
        }
        self.decode(memory, address)
    }

    #[cold]
    fn decode(&mut self, memory: &mut Memory, address: u64) -> Result<usize, Fault> {
        if self.generation != memory.generation() || self.quick.is_empty() {
            self.all.clear();
            self.by_address.clear();
            self.quick = vec![(u64::MAX, 0); QUICK];
            self.generation = memory.generation();
        }
        let number = match self.by_address.get(&address) {
            Some(&number) => number,
            None => {
                let number = self.all.len() as u32;
                self.all.push(super::block(memory, address)?);
                self.by_address.insert(address, number);
                number
            }
        };
        self.quick[address as usize % QUICK] = (address, number);
        Ok(number as usize)
    }

    /// The block of this number.
    ///
    /// # Panics
    ///
    /// If the number is not of the last [`Blocks::find`].
    #[inline]
    pub fn get(&self, number: usize) -> &Block {
        &self.all[number]
    }
}
