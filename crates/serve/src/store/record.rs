//! An entry as bytes, for stores that keep bytes: version, expiry and flags, then the value.

use super::Item;

const HEADER: usize = 8 + 8 + 4;

/// The bytes of an entry.
pub(super) fn encode(item: &Item) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + item.value.len());
    bytes.extend_from_slice(&item.version.to_le_bytes());
    bytes.extend_from_slice(&item.expires_ms.to_le_bytes());
    bytes.extend_from_slice(&item.flags.to_le_bytes());
    bytes.extend_from_slice(&item.value);
    bytes
}

/// The entry of these bytes; `None` when they are none, because somebody else has written them.
pub(super) fn decode(bytes: &[u8]) -> Option<Item> {
    let (version, rest) = bytes.split_first_chunk()?;
    let (expires_ms, rest) = rest.split_first_chunk()?;
    let (flags, value) = rest.split_first_chunk()?;
    Some(Item {
        version: u64::from_le_bytes(*version),
        expires_ms: u64::from_le_bytes(*expires_ms),
        flags: u32::from_le_bytes(*flags),
        value: value.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let item = Item { value: b"value".to_vec(), flags: 7, expires_ms: 1 << 40, version: 3 };
        assert_eq!(decode(&encode(&item)), Some(item));
        let empty = Item::default();
        assert_eq!(decode(&encode(&empty)), Some(empty));
    }

    #[test]
    fn what_is_too_short_is_no_entry() {
        let bytes = encode(&Item::default());
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end]), None);
        }
    }
}
