//! A name that a thread may be given while it lives, by itself or by others, as
//! `pthread_setname_np` does it.
//!
//! As long as the kernel's names of its threads are, and part of the control block: nothing is
//! allocated, and debuggers have it with the block. Who reads it while another sets it may find
//! half of each; so it is for people to look at. What `Builder::name` gives is longer and never
//! changes.

use core::sync::atomic::{AtomicU64, Ordering::*};

/// A text that ends with its first zero. Empty: none has been given.
pub(crate) struct Label([AtomicU64; 2]);

impl Label {
    pub(crate) const fn new() -> Label {
        Label([const { AtomicU64::new(0) }; 2])
    }

    pub(crate) fn set(&self, bytes: [u8; 16]) {
        let number = u128::from_le_bytes(bytes);
        self.0[0].store(number as u64, Relaxed);
        self.0[1].store((number >> 64) as u64, Relaxed);
    }

    pub(crate) fn get(&self) -> [u8; 16] {
        let [low, high] = [&self.0[0], &self.0[1]].map(|half| u128::from(half.load(Relaxed)));
        (low | high << 64).to_le_bytes()
    }
}

/// What a label's bytes say, as far as they are UTF-8: up to the first zero, or all. `None` if that
/// is nothing. Allocates nothing.
pub(crate) fn text(bytes: &[u8; 16]) -> Option<&str> {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    let valid = bytes[..end].utf8_chunks().next()?.valid();
    (!valid.is_empty()).then_some(valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_read() {
        let label = Label::new();
        assert_eq!(text(&label.get()), None);
        for (bytes, expected) in [
            (*b"quaver\0\0\0\0\0\0\0\0\0\0", Some("quaver")),
            (*b"a\0rest of before", Some("a")),
            (*b"sixteen of them!", Some("sixteen of them!")),
            // Cut in the middle of a character.
            (*b"fourteen of \xc3\xbc\xc3\0", Some("fourteen of ü")),
            (*b"\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", None),
            ([0; 16], None),
        ] {
            label.set(bytes);
            assert_eq!(label.get(), bytes);
            assert_eq!(text(&label.get()), expected);
        }
    }
}
