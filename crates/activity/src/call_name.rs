//! The name of an MPI function as words, so that recording it takes a few stores.

/// The number of words of a name.
pub(crate) const WORDS: usize = 4;

/// The name of an MPI function. Names of more than 32 bytes are cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CallName(pub(crate) [u64; WORDS]);

impl CallName {
    /// The name of a function. The variant for large counts (`…_c`) has the same name: ranks may mix the two in one
    /// collective call.
    pub const fn new(name: &str) -> CallName {
        let bytes = name.as_bytes();
        let len = match bytes {
            [start @ .., b'_', b'c'] => start.len(),
            _ => bytes.len(),
        };
        let mut words = [0; WORDS];
        let mut i = 0;
        while i < len && i < 8 * WORDS {
            words[i / 8] |= (bytes[i] as u64) << (8 * (i % 8));
            i += 1;
        }
        CallName(words)
    }
}

impl std::fmt::Display for CallName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes: Vec<u8> = self.0.iter().flat_map(|word| word.to_le_bytes()).collect();
        let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        f.write_str(&String::from_utf8_lossy(&bytes[..len]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_without_the_suffix_of_large_counts() {
        assert_eq!(CallName::new("MPI_File_sync").to_string(), "MPI_File_sync");
        assert_eq!(CallName::new("MPI_File_write_at_all_c"), CallName::new("MPI_File_write_at_all"));
        assert_eq!(
            CallName::new("MPI_File_write_ordered_begin_c").to_string(),
            "MPI_File_write_ordered_begin"
        );
        assert_eq!(CallName::default().to_string(), "");
        assert_eq!(CallName::new(&"x".repeat(40)).to_string(), "x".repeat(32));
    }
}
