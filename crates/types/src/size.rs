//! Sizes in bytes as users write and read them.

/// Parses a number of bytes, with white space around it and before its unit. Every unit (k, kB, KiB and so on up to T, in
/// any case) is a power of 1024.
///
/// ```
/// assert_eq!(pario_types::parse_size("4 MiB"), Some(4 << 20));
/// assert_eq!(pario_types::parse_size("1.5M"), None);
/// ```
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The shortest form of a number of bytes that [`parse_size`] reads exactly: `64K`, `1536`.
pub fn format_size(bytes: u64) -> String {
    let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    let unit = units.into_iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    unit.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatted_sizes_are_parsed_exactly() {
        for bytes in [0, 1, 1000, 1024, 1536, 3 << 20, 1 << 40, 5 << 41, u64::MAX] {
            assert_eq!(parse_size(&format_size(bytes)), Some(bytes), "{bytes}");
        }
        assert_eq!(format_size(65536), "64K");
    }

    #[test]
    fn text_that_is_no_size_is_refused() {
        for bad in
            ["", "k", "-1", "+1", "1.5M", "1kk", "1 0", "16777216T", "0x10", "99999999999999999999", "1Mi"]
        {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }
}
