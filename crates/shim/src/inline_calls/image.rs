//! What a loaded library has in memory that is not written to.

use core::ops::Range;

/// A part of it, and where that is.
pub(crate) struct Part<'a> {
    pub(crate) at: u64,
    pub(crate) bytes: &'a [u8],
}

/// See the module documentation.
pub(crate) struct Image<'a> {
    pub(crate) parts: Vec<Part<'a>>,
}

impl Image<'_> {
    /// Everything from there to the end of the part; nothing if there is none.
    pub(crate) fn from(&self, address: u64) -> &[u8] {
        let found = self.parts.iter().find_map(|part| {
            let offset = address.checked_sub(part.at)?;
            part.bytes.get(usize::try_from(offset).ok()?..).filter(|rest| !rest.is_empty())
        });
        found.unwrap_or_default()
    }

    fn word(&self, address: u64) -> Option<u32> {
        self.from(address).first_chunk().map(|&word| u32::from_le_bytes(word))
    }

    /// The address whose distance from `base` is at `address`.
    fn relative(&self, base: u64, address: u64) -> Option<u64> {
        Some(base.wrapping_add_signed(self.word(address)?.cast_signed().into()))
    }

    /// Where the functions are, in order, by the table for unwinders at `header`: in files of older
    /// linkers constants lie among the code. `None`: it has another form than linkers give it.
    pub(crate) fn functions(&self, header: u64) -> Option<Vec<Range<u64>>> {
        /// Version 1; a relative address, a number, and pairs of addresses relative to this.
        const FORM: u32 = u32::from_le_bytes([1, 0x1b, 0x03, 0x3b]);
        if self.word(header)? != FORM {
            return None;
        }
        let number = u64::from(self.word(header.checked_add(8)?)?);
        (0..number)
            .map(|n| {
                let pair = header + 12 + 8 * n;
                let start = self.relative(header, pair)?;
                // Its size, its kind, the function's beginning and size.
                let entry = self.relative(header, pair + 4)?;
                let begins = entry.checked_add(8)?;
                let size = u64::from(self.word(begins.checked_add(4)?)?);
                (self.relative(begins, begins)? == start && size <= self.from(start).len() as u64)
                    .then(|| start..start + size)
            })
            .collect()
    }
}
