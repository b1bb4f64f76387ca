//! Just enough JSON to write: a string in quotes. serde_json's writer would be linked into `libpario.so` for this alone.

/// The text as a JSON string, quotes included.
pub(crate) fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn quotes_and_control_characters_are_escaped() {
        assert_eq!(super::string("a\"b\\c\n\u{1}ä"), r#""a\"b\\c\n\u0001ä""#);
    }
}
