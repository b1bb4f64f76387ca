//! The types of hint values: how they are parsed, formatted and described.
//!
//! Parsing accepts any case and several spellings (`64M`, `4 MiB`), but clamps and guesses nothing. Formatting is
//! canonical and follows ROMIO: sizes in bytes, words in lower case. A formatted value parses to the same value.

use std::borrow::Cow;
use std::ops::Range;

use pario_types::{Toggle, parse_size, spell_size};

/// The longest text value: MPICH's limit on info values, without the final zero byte.
const MAX_TEXT: usize = 1023;
/// The longest list of numbers or words. No array has more dimensions.
const MAX_LIST: usize = 64;
/// MPI ranks are C `int`s.
const MAX_RANK: u64 = i32::MAX as u64;

/// A typed hint value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HintValue {
    /// A boolean.
    Switch(bool),
    /// Always, never, or automatic.
    Toggle(Toggle),
    /// A number of bytes.
    Size(u64),
    /// A number that is not a size.
    Count(u64),
    /// File permission bits.
    Mode(u32),
    /// One word of a fixed list.
    Word(&'static str),
    /// Several words of a fixed list.
    Words(Vec<&'static str>),
    /// A list of numbers.
    Numbers(Vec<u64>),
    /// Ranges of a file.
    Extents(Vec<Range<u64>>),
    /// Free text.
    Text(Cow<'static, str>),
}

/// The format of a text value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// Any printable text.
    Any,
    /// Node names, separated by commas.
    Nodes,
    /// ROMIO's `cb_config_list`: `node:count` items, separated by commas. `*` means any node, or any number as a
    /// count.
    NodeCounts,
}

/// The type and range of a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintType {
    /// `true` or `false`.
    Boolean,
    /// `enable` or `disable`.
    OnOff,
    /// `enable`, `disable` or `automatic`.
    Toggle,
    /// A size in this range.
    Size {
        /// The minimum.
        min: u64,
        /// The maximum.
        max: u64,
    },
    /// A whole number in this range.
    Count {
        /// The minimum.
        min: u64,
        /// The maximum.
        max: u64,
    },
    /// Octal permission bits, up to 7777.
    Mode,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One or more of these words, separated by commas.
    Words(&'static [&'static str]),
    /// One or more positive numbers, separated by commas.
    Numbers,
    /// One or more ranks, separated by commas. A rank may occur several times.
    Ranks,
    /// One or more ranges of a file as offset, plus sign and length, separated by commas.
    Extents,
    /// Text in this format.
    Text(TextFormat),
}

impl HintType {
    /// Parses a value; `None` if this type does not allow it.
    pub fn parse(&self, text: &str) -> Option<HintValue> {
        let text = text.trim();
        match *self {
            HintType::Boolean => parse_switch(text).map(HintValue::Switch),
            HintType::OnOff => parse_switch(text).map(HintValue::Switch),
            HintType::Toggle => match parse_switch(text) {
                Some(true) => Some(HintValue::Toggle(Toggle::Enable)),
                Some(false) => Some(HintValue::Toggle(Toggle::Disable)),
                None => (equals(text, "automatic") || equals(text, "auto"))
                    .then_some(HintValue::Toggle(Toggle::Automatic)),
            },
            HintType::Size { min, max } => {
                parse_size(text).filter(|n| (min..=max).contains(n)).map(HintValue::Size)
            }
            HintType::Count { min, max } => {
                parse_whole(text).filter(|n| (min..=max).contains(n)).map(HintValue::Count)
            }
            HintType::Mode => parse_mode(text).map(HintValue::Mode),
            HintType::Word(words) => find_word(words, text).map(HintValue::Word),
            HintType::Words(words) => {
                let found =
                    text.split(',').map(|w| find_word(words, w.trim())).collect::<Option<Vec<_>>>()?;
                (found.len() <= MAX_LIST).then_some(HintValue::Words(found))
            }
            HintType::Numbers => {
                let all = text.split(',').map(|n| parse_whole(n.trim()).filter(|&n| n > 0));
                let all = all.collect::<Option<Vec<_>>>()?;
                (all.len() <= MAX_LIST).then_some(HintValue::Numbers(all))
            }
            HintType::Ranks => {
                let all = text.split(',').map(|n| parse_whole(n.trim()).filter(|&n| n <= MAX_RANK));
                let all = all.collect::<Option<Vec<_>>>()?;
                (text.len() <= MAX_TEXT).then_some(HintValue::Numbers(all))
            }
            HintType::Extents => {
                let all = text.split(',').map(parse_extent).collect::<Option<Vec<_>>>()?;
                (text.len() <= MAX_TEXT).then_some(HintValue::Extents(all))
            }
            HintType::Text(form) => form.allows(text).then(|| HintValue::Text(Cow::Owned(text.to_owned()))),
        }
    }

    /// The canonical text of a value of this type.
    pub fn format(&self, value: &HintValue) -> String {
        match value {
            HintValue::Switch(on) => match (self, on) {
                (HintType::OnOff, true) => "enable".to_owned(),
                (HintType::OnOff, false) => "disable".to_owned(),
                (_, on) => on.to_string(),
            },
            HintValue::Toggle(toggle) => toggle.name().to_owned(),
            HintValue::Size(n) | HintValue::Count(n) => n.to_string(),
            HintValue::Mode(bits) => format!("{bits:04o}"),
            HintValue::Word(word) => (*word).to_owned(),
            HintValue::Words(words) => words.join(","),
            HintValue::Numbers(all) => all.iter().map(u64::to_string).collect::<Vec<_>>().join(","),
            HintValue::Extents(all) => {
                let format = |range: &Range<u64>| format!("{}+{}", range.start, range.end - range.start);
                all.iter().map(format).collect::<Vec<_>>().join(",")
            }
            HintValue::Text(text) => text.clone().into_owned(),
        }
    }

    /// The allowed values, as a phrase that follows "allowed:".
    pub fn allowed(&self) -> String {
        match *self {
            HintType::Boolean => "true or false".to_owned(),
            HintType::OnOff => "enable or disable".to_owned(),
            HintType::Toggle => "enable, disable or automatic".to_owned(),
            HintType::Size { min, max } => {
                format!("a size from {} to {}, such as 64k, 16M or 1GiB", spell_size(min), spell_size(max))
            }
            HintType::Count { min, max } => format!("a whole number from {min} to {max}"),
            HintType::Mode => "octal permission bits from 0 to 7777, such as 0644".to_owned(),
            HintType::Word(words) => format!("one of {}", words.join(", ")),
            HintType::Words(words) => {
                format!("one or more of {}, with commas between them", words.join(", "))
            }
            HintType::Numbers => "positive whole numbers with commas between them".to_owned(),
            HintType::Ranks => "ranks, counted from 0, with commas between them".to_owned(),
            HintType::Extents => {
                "ranges of the file as offset+length with commas between them, such as 0+64k,1M+4096"
                    .to_owned()
            }
            HintType::Text(TextFormat::Any) => "text".to_owned(),
            HintType::Text(TextFormat::Nodes) => "node names with commas between them".to_owned(),
            HintType::Text(TextFormat::NodeCounts) => {
                "node:count items with commas between them, such as *:1".to_owned()
            }
        }
    }

    /// The name of the type.
    pub fn name(&self) -> &'static str {
        match self {
            HintType::Boolean => "boolean",
            HintType::OnOff => "on/off",
            HintType::Toggle => "toggle",
            HintType::Size { .. } => "size",
            HintType::Count { .. } => "integer",
            HintType::Mode => "octal mode",
            HintType::Word(_) => "word",
            HintType::Words(_) => "list of words",
            HintType::Numbers => "list of integers",
            HintType::Ranks => "list of ranks",
            HintType::Extents => "list of ranges",
            HintType::Text(_) => "text",
        }
    }
}

impl TextFormat {
    fn allows(self, text: &str) -> bool {
        if text.is_empty() || text.len() > MAX_TEXT || text.chars().any(char::is_control) {
            return false;
        }
        match self {
            TextFormat::Any => true,
            TextFormat::Nodes => text.split(',').all(is_node),
            TextFormat::NodeCounts => text.split(',').all(|item| match item.trim().split_once(':') {
                Some((node, count)) => is_node(node) && (count == "*" || parse_whole(count).is_some()),
                None => is_node(item),
            }),
        }
    }
}

fn is_node(name: &str) -> bool {
    let name = name.trim();
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == ':')
}

fn equals(text: &str, word: &str) -> bool {
    text.eq_ignore_ascii_case(word)
}

fn find_word(words: &'static [&'static str], text: &str) -> Option<&'static str> {
    words.iter().copied().find(|w| equals(w, text))
}

/// Booleans and on/off switches accept each other's words, and 1 and 0, because programs mix them up.
fn parse_switch(text: &str) -> Option<bool> {
    if equals(text, "true") || equals(text, "enable") || text == "1" {
        Some(true)
    } else if equals(text, "false") || equals(text, "disable") || text == "0" {
        Some(false)
    } else {
        None
    }
}

/// Accepts digits only. The parser of the standard library would accept a plus sign.
fn parse_whole(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// Parses a range of at least one byte that ends before the largest offset.
fn parse_extent(text: &str) -> Option<Range<u64>> {
    let (at, len) = text.split_once('+')?;
    let (at, len) = (parse_size(at.trim())?, parse_size(len.trim())?);
    let end = at.checked_add(len).filter(|end| *end <= i64::MAX as u64)?;
    (len > 0).then_some(at..end)
}

fn parse_mode(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|b| (b'0'..=b'7').contains(&b));
    plain.then(|| u32::from_str_radix(digits, 8).ok()).flatten().filter(|&bits| bits <= 0o7777)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: HintType = HintType::Size { min: 1, max: 1 << 40 };

    #[test]
    fn sizes_count_in_steps_of_1024() {
        for (text, bytes) in [
            ("1", 1),
            ("64k", 65536),
            ("64K", 65536),
            ("64M", 64 << 20),
            ("4 MiB", 4 << 20),
            ("4MB", 4 << 20),
            ("512kib", 512 << 10),
            ("1G", 1 << 30),
            ("1T", 1 << 40),
            (" 7b ", 7),
        ] {
            assert_eq!(SIZE.parse(text), Some(HintValue::Size(bytes)), "{text}");
        }
    }

    #[test]
    fn sizes_that_mean_nothing_are_refused() {
        let huge =
            ["18446744073709551616", "99999999999999999999", "18446744073709551615k", "2T", "17179869185G"];
        for text in ["", "0", "-1", "+1", "k", "1.5M", "0x10", "1kk", "1 0", "1Mi", "1Mb ib", "b", "1e6", "١"]
            .into_iter()
            .chain(huge)
        {
            assert_eq!(SIZE.parse(text), None, "{text}");
        }
    }

    #[test]
    fn modes_are_octal() {
        assert_eq!(HintType::Mode.parse("644"), Some(HintValue::Mode(0o644)));
        assert_eq!(HintType::Mode.parse("0o600"), Some(HintValue::Mode(0o600)));
        assert_eq!(HintType::Mode.format(&HintValue::Mode(0o644)), "0644");
        for bad in ["", "8", "rw-r--r--", "10000", "-1", "0x1", "77777777777777777777"] {
            assert_eq!(HintType::Mode.parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn words_are_read_in_any_case_and_written_in_one() {
        let kind = HintType::Words(&["read_once", "random"]);
        assert_eq!(
            kind.parse("RANDOM, read_once").map(|v| kind.format(&v)).as_deref(),
            Some("random,read_once")
        );
        assert_eq!(kind.parse("random,,read_once"), None);
        assert_eq!(HintType::Toggle.parse("ENABLE"), Some(HintValue::Toggle(Toggle::Enable)));
        assert_eq!(HintType::Toggle.parse("auto"), Some(HintValue::Toggle(Toggle::Automatic)));
        assert_eq!(
            HintType::OnOff.parse("true").map(|v| HintType::OnOff.format(&v)).as_deref(),
            Some("enable")
        );
        assert_eq!(HintType::Boolean.parse("1"), Some(HintValue::Switch(true)));
        assert_eq!(HintType::Boolean.parse("automatic"), None);
    }

    #[test]
    fn node_lists_are_checked() {
        let kind = HintType::Text(TextFormat::NodeCounts);
        for good in ["*:1", "n0:2,n1:*", "n0", "n0:2, *:*"] {
            assert!(kind.parse(good).is_some(), "{good}");
        }
        for bad in ["", ":1", "n0:", "n0:x", "n0,,n1", "a b:1", "n0:1:2", "n\u{1}"] {
            assert!(kind.parse(bad).is_none(), "{bad}");
        }
        assert!(HintType::Text(TextFormat::Any).parse(&"x".repeat(2000)).is_none());
    }

    #[test]
    fn ranks_count_from_0_and_may_repeat() {
        assert_eq!(HintType::Ranks.parse(" 0,2, 0,1"), Some(HintValue::Numbers(vec![0, 2, 0, 1])));
        for bad in ["", "-1", "0,,1", "0;1", "2147483648", "0-3", "all"] {
            assert_eq!(HintType::Ranks.parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn extents_are_offset_and_length() {
        let parsed = HintType::Extents.parse("0+64k, 1M + 1,9223372036854775806+1");
        let last = i64::MAX as u64;
        assert_eq!(parsed, Some(HintValue::Extents(vec![0..65536, 1 << 20..(1 << 20) + 1, last - 1..last])));
        assert_eq!(HintType::Extents.format(&parsed.unwrap()), "0+65536,1048576+1,9223372036854775806+1");
        for bad in ["", "0", "+5", "0+0", "5+", "-1+4", "0+4,", "0-4", "0+1+2", "9223372036854775807+1"] {
            assert_eq!(HintType::Extents.parse(bad), None, "{bad}");
        }
        assert_eq!(HintType::Extents.parse(&vec!["0+1"; 300].join(",")), None);
    }

    #[test]
    fn ranges_read_well() {
        assert_eq!(
            HintType::Size { min: 1, max: 4 << 30 }.allowed(),
            "a size from 1 byte to 4 GiB, such as 64k, 16M or 1GiB"
        );
    }
}
