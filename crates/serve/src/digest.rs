//! A number that depends on every byte of what was read: work that a server cannot leave out.

/// The number after another row.
pub(crate) fn row(sum: u64, key: &[u8], value: &[u8]) -> u64 {
    bytes(bytes(sum, key), value)
}

fn bytes(sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let step =
        |sum: u64, word: u64| (sum.rotate_left(7) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let sum = words.iter().fold(sum, |sum, word| step(sum, u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, &byte| step(sum, u64::from(byte) + 1))
}

#[cfg(test)]
mod tests {
    use super::row;

    #[test]
    fn every_byte_counts() {
        let (key, value) = (*b"key:00000000", *b"a value of 20 bytes.");
        let right = row(0, &key, &value);
        for index in 0..value.len() {
            let mut other = value;
            other[index] ^= 1;
            assert_ne!(row(0, &key, &other), right);
        }
        assert_ne!(row(1, &key, &value), right);
    }
}
