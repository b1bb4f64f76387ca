//! A number that hardly two different lists of words share.

/// FNV-1a over words: fixed, and the same in every process.
pub fn digest(words: impl IntoIterator<Item = u64>) -> u64 {
    words
        .into_iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(23))
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
}
