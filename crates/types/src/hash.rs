//! The hash of this project for short keys that several processes compute alike.
//!
//! The standard library's hasher has a random seed in each process, and a cryptographic hash is not needed: these keys
//! compare settings and names of cooperating ranks.

const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x100_0000_01b3;

/// FNV-1a over bytes.
pub fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// FNV-1a over 64-bit words. The rotation spreads the high bits of a word, which multiplication alone loses.
pub fn digest(words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(BASIS, |hash, word| (hash ^ word).wrapping_mul(PRIME).rotate_left(23))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_their_order_count() {
        assert_eq!(digest([1, 2]), digest(vec![1, 2]));
        assert_ne!(digest([1, 2]), digest([2, 1]));
        assert_ne!(digest([1, 2]), digest([1, 2, 0]));
    }

    #[test]
    fn bytes_hash_to_the_published_values() {
        assert_eq!(fnv1a([]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(*b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(*b"foobar"), 0x8594_4171_f739_67e8);
    }
}
