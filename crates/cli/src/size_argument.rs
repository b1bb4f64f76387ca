//! Sizes as arguments.

use pario_types::parse_size;

/// A size that is not 0, such as 65536, 64K or 4M.
pub fn size(text: &str) -> Result<u64, String> {
    parse_size(text).filter(|size| *size > 0).ok_or_else(|| "not a size; examples: 65536, 64K, 4M".to_owned())
}
