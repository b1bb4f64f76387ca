//! A plan file as it is written, read line by line.
//!
//! A file may have a million chunks, and the parser of all of TOML takes long for them: a program would wait for that when it
//! opens the file. So lists of chunks whose lines look as `to_text` writes them are read here, and the parser gets the rest.
//! Whatever looks otherwise, or is wrong, is left to it as a whole: then it says what, and where.

use crate::text::{RawChunk, RawPlan};

/// What is in a plan file, if all chunks stand there as they are written.
pub(crate) fn read(text: &str) -> Option<RawPlan> {
    // What looks like a list might be part of a string of several lines.
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
    // A word that is none, or is written with escapes, is not for here.
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

/// A number as it is written: digits only, none of them a useless 0, and no more than TOML has.
fn number(word: &str) -> Option<u64> {
    let plain = word.bytes().all(|byte| byte.is_ascii_digit()) && (word.len() == 1 || !word.starts_with('0'));
    let number: i64 = word.parse().ok().filter(|_| plain)?;
    u64::try_from(number).ok()
}

fn short(word: &str) -> Option<u32> {
    number(word)?.try_into().ok()
}
