//! Longest-prefix match in one or two reads: DIR-24-8.
//!
//! * `first` has an entry for each value of the first 24 bits of an address. It says the value of
//!   the longest prefix of at most 24 bits, or names a group.
//! * A group has an entry for each value of the last 8 bits. There is one for every 24 bits under
//!   which a prefix is longer than that, and no longer than there is one.
//! * Beside each entry stands the length of the prefix that has made it. A route writes over
//!   entries of shorter ones only; what it leaves goes to the next shorter one.
//!
//! (Gupta, Lin, McKeown: Routing lookups in hardware at memory access speeds, 1998. xUI, 5.4.)

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::ops::Range;

use super::prefix::Prefix;

/// Entries of a group.
const GROUP: usize = 256;
/// This bit of an entry in `first` says that the others are the number of a group.
const NAMES_GROUP: u16 = 1 << 15;

/// What a route leads to: a number of the caller's, less than [`Table::MOST_VALUES`].
pub type Value = u16;

/// A routing table of IPv4. It takes 32 MiB of addresses for lookups and 16 MiB for changes, of
/// which only those that routes have touched are memory.
#[derive(Debug)]
pub struct Table {
    /// 0: no route; otherwise a value and 1, or the name of a group.
    first: Vec<u16>,
    /// 0: no route; otherwise a length and 1.
    first_lengths: Vec<u8>,
    groups: Vec<Group>,
    /// Groups that are not used.
    free: Vec<u16>,
    rules: HashMap<Prefix, Value>,
}

/// The entries under one value of the first 24 bits; as in `first`.
#[derive(Clone, Debug)]
struct Group {
    entries: [u16; GROUP],
    lengths: [u8; GROUP],
}

/// Why a route cannot be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Full {
    /// All groups are in use.
    #[error("the table has room for {most} networks of 256 addresses with routes of their own",
            most = Table::MOST_GROUPS)]
    Groups,
    /// The value does not fit into an entry.
    #[error("the table has room for {most} different next hops", most = Table::MOST_VALUES)]
    Values,
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

impl Table {
    /// How many different values there can be.
    pub const MOST_VALUES: u16 = NAMES_GROUP - 1;
    /// How many networks of 24 bits can have longer prefixes under them.
    pub const MOST_GROUPS: usize = NAMES_GROUP as usize;

    /// A table without routes.
    pub fn new() -> Table {
        Table {
            first: vec![0; 1 << 24],
            first_lengths: vec![0; 1 << 24],
            groups: Vec::new(),
            free: Vec::new(),
            rules: HashMap::new(),
        }
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The value of the longest prefix that contains `address`.
    #[inline]
    pub fn lookup(&self, address: Ipv4Addr) -> Option<Value> {
        let bits = address.to_bits();
        let mut entry = self.first[(bits >> 8) as usize];
        if entry & NAMES_GROUP != 0 {
            entry = self.groups[usize::from(entry & !NAMES_GROUP)].entries[(bits & 0xff) as usize];
        }
        entry.checked_sub(1)
    }

    /// Adds a route, or changes the value of the one that there is, which it returns.
    ///
    /// # Errors
    ///
    /// [`Full`]; the table is as it was.
    pub fn add(&mut self, prefix: Prefix, value: Value) -> Result<Option<Value>, Full> {
        if value >= Self::MOST_VALUES {
            return Err(Full::Values);
        }
        let (entry, length) = (value + 1, prefix.bits() + 1);
        if prefix.bits() > 24 {
            let nth = self.group_for(first_of(prefix))?;
            self.groups[nth].write(last_of(prefix), entry, length);
        } else {
            for at in first_of_all(prefix) {
                if let Some(nth) = group_of(self.first[at]) {
                    self.groups[nth].write(0..GROUP, entry, length);
                } else if self.first_lengths[at] <= length {
                    (self.first[at], self.first_lengths[at]) = (entry, length);
                }
            }
        }
        Ok(self.rules.insert(prefix, value))
    }

    /// Takes a route away; its value, or `None`: there is none.
    pub fn remove(&mut self, prefix: Prefix) -> Option<Value> {
        let value = self.rules.remove(&prefix)?;
        let length = prefix.bits() + 1;
        let (entry, shorter) = self.longest_around(prefix);
        if prefix.bits() > 24 {
            let at = first_of(prefix);
            let nth = group_of(self.first[at]).expect("a long prefix has a group");
            self.groups[nth].replace(last_of(prefix), length, entry, shorter);
            self.dissolve(at, nth);
        } else {
            for at in first_of_all(prefix) {
                if let Some(nth) = group_of(self.first[at]) {
                    self.groups[nth].replace(0..GROUP, length, entry, shorter);
                } else if self.first_lengths[at] == length {
                    (self.first[at], self.first_lengths[at]) = (entry, shorter);
                }
            }
        }
        Some(value)
    }

    /// Entry and length of the longest prefix around this one.
    fn longest_around(&self, prefix: Prefix) -> (u16, u8) {
        let mut around = prefix.wider();
        while let Some(prefix) = around {
            if let Some(value) = self.rules.get(&prefix) {
                return (value + 1, prefix.bits() + 1);
            }
            around = prefix.wider();
        }
        (0, 0)
    }

    /// The group of this entry of `first`, which is made if there is none.
    fn group_for(&mut self, at: usize) -> Result<usize, Full> {
        if let Some(nth) = group_of(self.first[at]) {
            return Ok(nth);
        }
        let (entry, length) = (self.first[at], self.first_lengths[at]);
        let group = Group { entries: [entry; GROUP], lengths: [length; GROUP] };
        let nth = match self.free.pop() {
            Some(nth) => {
                self.groups[usize::from(nth)] = group;
                nth
            }
            None if self.groups.len() == Self::MOST_GROUPS => return Err(Full::Groups),
            None => {
                self.groups.push(group);
                (self.groups.len() - 1) as u16
            }
        };
        self.first[at] = nth | NAMES_GROUP;
        Ok(nth.into())
    }

    /// Ends a group in which no prefix is longer than 24 bits: all its entries are the same.
    fn dissolve(&mut self, at: usize, nth: usize) {
        let group = &self.groups[nth];
        if group.lengths.iter().all(|&length| length <= 25) {
            (self.first[at], self.first_lengths[at]) = (group.entries[0], group.lengths[0]);
            self.free.push(nth as u16);
        }
    }
}

impl Group {
    /// Writes over entries of prefixes that are not longer.
    fn write(&mut self, range: Range<usize>, entry: u16, length: u8) {
        for at in range {
            if self.lengths[at] <= length {
                (self.entries[at], self.lengths[at]) = (entry, length);
            }
        }
    }

    /// Gives entries of the prefix of this length to a shorter one.
    fn replace(&mut self, range: Range<usize>, length: u8, entry: u16, shorter: u8) {
        for at in range {
            if self.lengths[at] == length {
                (self.entries[at], self.lengths[at]) = (entry, shorter);
            }
        }
    }
}

fn group_of(entry: u16) -> Option<usize> {
    (entry & NAMES_GROUP != 0).then_some(usize::from(entry & !NAMES_GROUP))
}

/// The place in `first` of an address of the prefix.
fn first_of(prefix: Prefix) -> usize {
    (prefix.first().to_bits() >> 8) as usize
}

/// The places in `first` of a prefix of at most 24 bits.
fn first_of_all(prefix: Prefix) -> Range<usize> {
    let first = first_of(prefix);
    first..first + (1 << (24 - prefix.bits()))
}

/// The places in its group of a prefix of more than 24 bits.
fn last_of(prefix: Prefix) -> Range<usize> {
    let first = (prefix.first().to_bits() & 0xff) as usize;
    first..first + (1 << (32 - prefix.bits()))
}

#[cfg(test)]
mod tests;
