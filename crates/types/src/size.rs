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

/// The exact number of bytes in the largest unit that divides it, for sentences: `4 MiB`, `1536 bytes`.
pub fn spell_size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    match unit {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None if bytes == 1 => "1 byte".to_owned(),
        None => format!("{bytes} bytes"),
    }
}

/// A rounded number of bytes, for sentences: `999 B`, `1.5 MiB`.
pub fn round_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1024.0, 0);
    // 1023.95 would be rounded to 1024.0.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A rounded number of bytes in at most four characters, for columns: `999`, `1.0K`, `64K`, `1.5G`.
pub fn short_size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    let mut unit = (63 - (bytes | 1).leading_zeros() as usize) / 10;
    loop {
        let value = bytes as f64 / (1u128 << (10 * unit)) as f64;
        if unit == 0 {
            return bytes.to_string();
        }
        if value < 9.95 {
            return format!("{value:.1}{}", UNITS[unit]);
        }
        // A value that rounds up to 1024 is one of the next unit.
        if value.round() < 1024.0 || unit + 1 == UNITS.len() {
            return format!("{value:.0}{}", UNITS[unit]);
        }
        unit += 1;
    }
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

    #[test]
    fn sizes_in_sentences_have_units() {
        let sizes = [0, 1023, 1024, 1_048_575, 1 << 20, 3 << 39, u64::MAX].map(round_size);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "1.0 MiB", "1.5 TiB", "16384.0 PiB"]);
        let sizes = [0, 1, 1536, 4 << 30].map(spell_size);
        assert_eq!(sizes, ["0 bytes", "1 byte", "1536 bytes", "4 GiB"]);
    }
}
