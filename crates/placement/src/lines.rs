//! A fast reader of plan files in the form in which they are written, line by line.
//!
//! A file may have a million chunks, and the general TOML parser takes long for them, while a program waits that opens the
//! file. So lists of chunks whose lines have the form of `to_text` are read here, and the parser gets the rest. A file with
//! any other form, or with an error, is left to the parser as a whole, which then reports what is wrong, and where.

use crate::text::{RawChunk, RawPlan};

/// Returns the content of a plan file, if all chunks have the form in which they are written.
pub(crate) fn read(text: &str) -> Option<RawPlan> {
    // A line that looks like a list might be part of a string of several lines.
    if text.contains("\"\"\"") || text.contains("'''") {
        return None;
    }
    let (mut rest, mut lists) = (String::new(), Vec::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        rest.push_str(line);
        if line == "chunks = [" {
            let list =
                lines.by_ref().take_while(|line| *line != "]").map(chunk).collect::<Option<Vec<_>>>()?;
            lists.push(list);
            rest.push(']');
        }
        rest.push('\n');
    }
    let mut plan: RawPlan = toml::from_str(&rest).ok()?;
    if plan.file.len() != lists.len() || plan.file.iter().any(|file| !file.chunks.is_empty()) {
        return None;
    }
    for (file, list) in plan.file.iter_mut().zip(lists) {
        file.chunks = list;
    }
    Some(plan)
}

fn chunk(line: &str) -> Option<RawChunk> {
    let (offset, rest) = line.strip_prefix("  { offset = ")?.split_once(", length = ")?;
    let (length, rest) = rest.split_once(", placement = \"")?;
    let (placement, rest) = rest.split_once('"')?;
    let (home, rest) = match rest.strip_prefix(", home = ") {
        Some(rest) => rest.split_once(", group = ").map(|(home, rest)| (Some(home), rest))?,
        None => (None, rest.strip_prefix(", group = ")?),
    };
    let (group, rest) = rest.split_once(", order = ")?;
    let (order, rest) = rest.split_once(", read = ")?;
    let (read, rest) = rest.split_once(", written = ")?;
    let (written, rest) = rest.split_once(", moved = ")?;
    let moved = rest.strip_suffix(" },")?;
    // An unknown name, or one with escapes, is left to the parser.
    let known = ["local", "duplicate", "broadcast", "central"].contains(&placement);
    Some(RawChunk {
        offset: number(offset)?,
        length: number(length)?,
        placement: known.then(|| placement.to_owned())?,
        home: home.map(short).map_or(Some(None), |home| home.map(Some))?,
        group: short(group)?,
        order: number(order)?,
        read: number(read)?,
        written: number(written)?,
        moved: number(moved)?,
    })
}

/// Reads a number as it is written: digits only, without leading zeros, and within the range of TOML.
fn number(word: &str) -> Option<u64> {
    let plain = word.bytes().all(|byte| byte.is_ascii_digit()) && (word.len() == 1 || !word.starts_with('0'));
    let number: i64 = word.parse().ok().filter(|_| plain)?;
    u64::try_from(number).ok()
}

fn short(word: &str) -> Option<u32> {
    number(word)?.try_into().ok()
}
