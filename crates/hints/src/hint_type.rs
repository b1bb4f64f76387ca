//! The types a hint's value can have: how each is read, written, and described to a user.
//!
//! Reading is lenient in spelling (any case, `64M`, `4 MiB`) and strict in meaning: nothing is clamped or
//! guessed. Writing is canonical, the way ROMIO returns hints: sizes as plain bytes, words in lower case.
//! What is written reads back as the same value.

use std::borrow::Cow;
use std::ops::Range;

use pario_types::Toggle;

/// The longest text a hint may hold: MPICH's limit on an info value, less its closing zero byte.
const LONGEST_TEXT: usize = 1023;
/// The longest list of numbers or words; more dimensions than this no array has.
const LONGEST_LIST: usize = 64;
/// MPI counts ranks in a C `int`.
const HIGHEST_RANK: u64 = i32::MAX as u64;

/// A hint's value, typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Yes or no.
    Switch(bool),
    /// Yes, no, or where it pays.
    Toggle(Toggle),
    /// A number of bytes.
    Size(u64),
    /// A number of anything else.
    Count(u64),
    /// File permission bits.
    Mode(u32),
    /// One of a closed list of words.
    Word(&'static str),
    /// Several of a closed list of words.
    Words(Vec<&'static str>),
    /// A list of numbers.
    Numbers(Vec<u64>),
    /// Ranges of a file.
    Extents(Vec<Range<u64>>),
    /// Free text.
    Text(Cow<'static, str>),
}

/// What a text value must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Anything printable.
    Any,
    /// Node names with commas between them.
    Nodes,
    /// ROMIO's `cb_config_list`: `node:count` items with commas between them; `*` stands for any node, and as
    /// a count for any number.
    NodeCounts,
}

/// The type and range of a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// `enable` or `disable`.
    OnOff,
    /// `enable`, `disable` or `automatic`.
    Toggle,
    /// Bytes in this range.
    Size {
        /// The least allowed.
        min: u64,
        /// The most allowed.
        max: u64,
    },
    /// A whole number in this range.
    Count {
        /// The least allowed.
        min: u64,
        /// The most allowed.
        max: u64,
    },
    /// Octal permission bits, up to 7777.
    Mode,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One or more of these words, with commas between them.
    Words(&'static [&'static str]),
    /// One or more positive numbers, with commas between them.
    Numbers,
    /// One or more ranks, counted from 0, with commas between them; the same may come again.
    Ranks,
    /// One or more ranges of a file, each an offset, a plus sign and a length, with commas between them.
    Extents,
    /// Text of this form.
    Text(Form),
}

impl Kind {
    /// The value that `text` means, or `None` if this kind does not allow it.
    pub fn parse(&self, text: &str) -> Option<Value> {
        let text = text.trim();
        match *self {
            Kind::Boolean => parse_switch(text).map(Value::Switch),
            Kind::OnOff => parse_switch(text).map(Value::Switch),
            Kind::Toggle => match parse_switch(text) {
                Some(true) => Some(Value::Toggle(Toggle::Enable)),
                Some(false) => Some(Value::Toggle(Toggle::Disable)),
                None => {
                    (is(text, "automatic") || is(text, "auto")).then_some(Value::Toggle(Toggle::Automatic))
                }
            },
            Kind::Size { min, max } => parse_size(text).filter(|n| (min..=max).contains(n)).map(Value::Size),
            Kind::Count { min, max } => {
                parse_whole(text).filter(|n| (min..=max).contains(n)).map(Value::Count)
            }
            Kind::Mode => parse_mode(text).map(Value::Mode),
            Kind::Word(words) => find_word(words, text).map(Value::Word),
            Kind::Words(words) => {
                let found =
                    text.split(',').map(|w| find_word(words, w.trim())).collect::<Option<Vec<_>>>()?;
                (found.len() <= LONGEST_LIST).then_some(Value::Words(found))
            }
            Kind::Numbers => {
                let all = text.split(',').map(|n| parse_whole(n.trim()).filter(|&n| n > 0));
                let all = all.collect::<Option<Vec<_>>>()?;
                (all.len() <= LONGEST_LIST).then_some(Value::Numbers(all))
            }
            Kind::Ranks => {
                let all = text.split(',').map(|n| parse_whole(n.trim()).filter(|&n| n <= HIGHEST_RANK));
                let all = all.collect::<Option<Vec<_>>>()?;
                (text.len() <= LONGEST_TEXT).then_some(Value::Numbers(all))
            }
            Kind::Extents => {
                let all = text.split(',').map(parse_extent).collect::<Option<Vec<_>>>()?;
                (text.len() <= LONGEST_TEXT).then_some(Value::Extents(all))
            }
            Kind::Text(form) => form.allows(text).then(|| Value::Text(Cow::Owned(text.to_owned()))),
        }
    }

    /// The canonical spelling of a value of this kind.
    pub fn spell(&self, value: &Value) -> String {
        match value {
            Value::Switch(on) => match (self, on) {
                (Kind::OnOff, true) => "enable".to_owned(),
                (Kind::OnOff, false) => "disable".to_owned(),
                (_, on) => on.to_string(),
            },
            Value::Toggle(Toggle::Enable) => "enable".to_owned(),
            Value::Toggle(Toggle::Disable) => "disable".to_owned(),
            Value::Toggle(Toggle::Automatic) => "automatic".to_owned(),
            Value::Size(n) | Value::Count(n) => n.to_string(),
            Value::Mode(bits) => format!("{bits:04o}"),
            Value::Word(word) => (*word).to_owned(),
            Value::Words(words) => words.join(","),
            Value::Numbers(all) => all.iter().map(u64::to_string).collect::<Vec<_>>().join(","),
            Value::Extents(all) => {
                let spell = |range: &Range<u64>| format!("{}+{}", range.start, range.end - range.start);
                all.iter().map(spell).collect::<Vec<_>>().join(",")
            }
            Value::Text(text) => text.clone().into_owned(),
        }
    }

    /// What is allowed, in words that follow "allowed:".
    pub fn allowed(&self) -> String {
        match *self {
            Kind::Boolean => "true or false".to_owned(),
            Kind::OnOff => "enable or disable".to_owned(),
            Kind::Toggle => "enable, disable or automatic".to_owned(),
            Kind::Size { min, max } => {
                format!("a size from {} to {}, such as 64k, 16M or 1GiB", spell_size(min), spell_size(max))
            }
            Kind::Count { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Mode => "octal permission bits from 0 to 7777, such as 0644".to_owned(),
            Kind::Word(words) => format!("one of {}", words.join(", ")),
            Kind::Words(words) => format!("one or more of {}, with commas between them", words.join(", ")),
            Kind::Numbers => "positive whole numbers with commas between them".to_owned(),
            Kind::Ranks => "ranks, counted from 0, with commas between them".to_owned(),
            Kind::Extents => {
                "ranges of the file as offset+length with commas between them, such as 0+64k,1M+4096"
                    .to_owned()
            }
            Kind::Text(Form::Any) => "text".to_owned(),
            Kind::Text(Form::Nodes) => "node names with commas between them".to_owned(),
            Kind::Text(Form::NodeCounts) => {
                "node:count items with commas between them, such as *:1".to_owned()
            }
        }
    }

    /// The name of the type, in a word or two.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Boolean => "boolean",
            Kind::OnOff => "on/off",
            Kind::Toggle => "toggle",
            Kind::Size { .. } => "size",
            Kind::Count { .. } => "integer",
            Kind::Mode => "octal mode",
            Kind::Word(_) => "word",
            Kind::Words(_) => "list of words",
            Kind::Numbers => "list of integers",
            Kind::Ranks => "list of ranks",
            Kind::Extents => "list of ranges",
            Kind::Text(_) => "text",
        }
    }
}

impl Form {
    fn allows(self, text: &str) -> bool {
        if text.is_empty() || text.len() > LONGEST_TEXT || text.chars().any(char::is_control) {
            return false;
        }
        match self {
            Form::Any => true,
            Form::Nodes => text.split(',').all(is_node),
            Form::NodeCounts => text.split(',').all(|item| match item.trim().split_once(':') {
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

fn is(text: &str, word: &str) -> bool {
    text.eq_ignore_ascii_case(word)
}

fn find_word(words: &'static [&'static str], text: &str) -> Option<&'static str> {
    words.iter().copied().find(|w| is(w, text))
}

/// Booleans and on/off switches read each other's words: programs mix them up.
fn parse_switch(text: &str) -> Option<bool> {
    if is(text, "true") || is(text, "enable") {
        Some(true)
    } else if is(text, "false") || is(text, "disable") {
        Some(false)
    } else {
        None
    }
}

/// Digits only: the standard parser would let a plus sign through.
fn parse_whole(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// A number of bytes; every suffix (k, kB, KiB and so on up to T, in any case) counts in steps of 1024.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, suffix) = text.split_at(digits);
    let mut unit = suffix.trim_start().chars();
    let shift = match unit.next().map(|c| c.to_ascii_lowercase()) {
        None => 0,
        Some('b') if unit.as_str().is_empty() => 0,
        Some('k') => 10,
        Some('m') => 20,
        Some('g') => 30,
        Some('t') => 40,
        Some(_) => return None,
    };
    let rest = unit.as_str();
    if !(rest.is_empty() || is(rest, "b") || is(rest, "ib")) {
        return None;
    }
    parse_whole(number)?.checked_mul(1 << shift)
}

/// Bytes of a file, at least one, and none beyond the largest offset.
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

/// A size for people: whole units of 1024 where it is one.
pub(crate) fn spell_size(bytes: u64) -> String {
    const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    for (shift, unit) in UNITS {
        if bytes > 0 && bytes.trailing_zeros() >= shift {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    format!("{bytes} byte{}", if bytes == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Kind = Kind::Size { min: 1, max: 1 << 40 };

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
            assert_eq!(SIZE.parse(text), Some(Value::Size(bytes)), "{text}");
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
        assert_eq!(Kind::Mode.parse("644"), Some(Value::Mode(0o644)));
        assert_eq!(Kind::Mode.parse("0o600"), Some(Value::Mode(0o600)));
        assert_eq!(Kind::Mode.spell(&Value::Mode(0o644)), "0644");
        for bad in ["", "8", "rw-r--r--", "10000", "-1", "0x1", "77777777777777777777"] {
            assert_eq!(Kind::Mode.parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn words_are_read_in_any_case_and_written_in_one() {
        let kind = Kind::Words(&["read_once", "random"]);
        assert_eq!(
            kind.parse("RANDOM, read_once").map(|v| kind.spell(&v)).as_deref(),
            Some("random,read_once")
        );
        assert_eq!(kind.parse("random,,read_once"), None);
        assert_eq!(Kind::Toggle.parse("ENABLE"), Some(Value::Toggle(Toggle::Enable)));
        assert_eq!(Kind::Toggle.parse("auto"), Some(Value::Toggle(Toggle::Automatic)));
        assert_eq!(Kind::OnOff.parse("true").map(|v| Kind::OnOff.spell(&v)).as_deref(), Some("enable"));
        assert_eq!(Kind::Boolean.parse("automatic"), None);
    }

    #[test]
    fn node_lists_are_checked() {
        let kind = Kind::Text(Form::NodeCounts);
        for good in ["*:1", "n0:2,n1:*", "n0", "n0:2, *:*"] {
            assert!(kind.parse(good).is_some(), "{good}");
        }
        for bad in ["", ":1", "n0:", "n0:x", "n0,,n1", "a b:1", "n0:1:2", "n\u{1}"] {
            assert!(kind.parse(bad).is_none(), "{bad}");
        }
        assert!(Kind::Text(Form::Any).parse(&"x".repeat(2000)).is_none());
    }

    #[test]
    fn ranks_count_from_0_and_may_repeat() {
        assert_eq!(Kind::Ranks.parse(" 0,2, 0,1"), Some(Value::Numbers(vec![0, 2, 0, 1])));
        for bad in ["", "-1", "0,,1", "0;1", "2147483648", "0-3", "all"] {
            assert_eq!(Kind::Ranks.parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn extents_are_offset_and_length() {
        let parsed = Kind::Extents.parse("0+64k, 1M + 1,9223372036854775806+1");
        let last = i64::MAX as u64;
        assert_eq!(parsed, Some(Value::Extents(vec![0..65536, 1 << 20..(1 << 20) + 1, last - 1..last])));
        assert_eq!(Kind::Extents.spell(&parsed.unwrap()), "0+65536,1048576+1,9223372036854775806+1");
        for bad in ["", "0", "+5", "0+0", "5+", "-1+4", "0+4,", "0-4", "0+1+2", "9223372036854775807+1"] {
            assert_eq!(Kind::Extents.parse(bad), None, "{bad}");
        }
        assert_eq!(Kind::Extents.parse(&vec!["0+1"; 300].join(",")), None);
    }

    #[test]
    fn ranges_read_well() {
        assert_eq!(
            Kind::Size { min: 1, max: 4 << 30 }.allowed(),
            "a size from 1 byte to 4 GiB, such as 64k, 16M or 1GiB"
        );
        assert_eq!(spell_size(0), "0 bytes");
        assert_eq!(spell_size(1536), "1536 bytes");
    }
}
