//! Finding the repository's files, and reading Rust source just well enough to see its code without its
//! comments and strings.

use std::path::{Path, PathBuf};

use crate::place;
use crate::program::{Outcome, at};

/// Directories without text of ours. In a linked worktree `.git` is a file.
const SKIPPED: &[&str] = &["target", ".git"];

/// All files of the repository but build results, sorted.
pub fn files() -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    walk(&place::root(), &mut found)?;
    found.sort();
    Ok(found)
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) -> Outcome {
    for entry in at(dir, std::fs::read_dir(dir))? {
        let entry = at(dir, entry)?;
        let path = entry.path();
        let kind = at(&path, entry.file_type())?;
        if SKIPPED.iter().any(|name| entry.file_name() == *name) || path == place::target() {
            continue;
        }
        if kind.is_dir() {
            walk(&path, found)?;
        } else if kind.is_file() {
            found.push(path);
        }
    }
    Ok(())
}

/// The path as the user of the repository writes it.
pub fn shown(path: &Path) -> String {
    path.strip_prefix(place::root()).unwrap_or(path).display().to_string()
}

/// Rust code with every comment and every string or character literal left out; line ends stay.
pub fn code_only(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match skipped(rest, code.chars().next_back()) {
            0 => {
                code.push(first);
                first.len_utf8()
            }
            length => {
                code.push(' ');
                code.extend(rest[..length].chars().filter(|c| *c == '\n'));
                length
            }
        };
        rest = &rest[length..];
    }
    code
}

/// The comments of Rust or C code; everything else is left out, and line ends stay.
pub fn comments_only(text: &str) -> String {
    let mut comments = String::new();
    let mut rest = text;
    let mut before = None;
    while let Some(first) = rest.chars().next() {
        let length = skipped(rest, before);
        let taken = if length == 0 { first.len_utf8() } else { length };
        let is_comment = length > 0 && rest.starts_with('/');
        comments.extend(rest[..taken].chars().filter(|c| is_comment || *c == '\n'));
        before = if length == 0 { Some(first) } else { Some(' ') };
        rest = &rest[taken..];
    }
    comments
}

/// The length of the comment or literal that `rest` starts with; 0 if it starts with code.
fn skipped(rest: &str, before: Option<char>) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment(rest);
    }
    if rest.starts_with('"') {
        return quoted(rest, '"');
    }
    let in_a_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if !in_a_word && ["r", "br", "cr"].iter().any(|prefix| rest.starts_with(prefix)) {
        return raw_string(rest);
    }
    if rest.starts_with('\'') && is_character(rest) {
        return quoted(rest, '\'');
    }
    0
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        let tail = &rest[at..];
        if tail.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if tail.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += tail.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

/// `r"…"`, `r#"…"#` and so on, also behind `b` or `c`; 0 if it is but a word that starts with these letters.
fn raw_string(rest: &str) -> usize {
    let Some(prefix) = rest.find('r').map(|at| at + 1) else {
        return 0;
    };
    let hashes = rest[prefix..].chars().take_while(|c| *c == '#').count();
    let open = prefix + hashes;
    if !rest[open..].starts_with('"') {
        return 0;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    rest[open + 1..].find(&close).map_or(rest.len(), |at| open + 1 + at + close.len())
}

/// A quote opens a character literal, not a lifetime, if it closes after one character or an escape.
fn is_character(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{code_only, comments_only};

    fn words(text: &str) -> Vec<String> {
        code_only(text).split_whitespace().map(String::from).collect()
    }

    #[test]
    fn comments_and_literals_go() {
        assert_eq!(words("a // unsafe\nb /* unsafe /* unsafe */ */ c"), ["a", "b", "c"]);
        assert_eq!(words(r##"f("unsafe \" unsafe", r#"unsafe " "#, b"unsafe")"##).join(""), "f(,,b)");
        assert_eq!(words("x('\"') 'a' y<'a>(b'\\'')").join(""), "x()y<'a>(b)");
    }

    #[test]
    fn lines_stay() {
        assert_eq!(code_only("a\n/* \n */\n\"\n\"\n").matches('\n').count(), 5);
    }

    #[test]
    fn comments_alone_are_left() {
        let text = "a(\"// b\"); // c\n/// d\nlet e = '\"'; /* f\n g */ h\n";
        assert_eq!(comments_only(text), "// c\n/// d\n/* f\n g */\n");
    }

    #[test]
    fn words_that_look_like_raw_strings_stay() {
        assert_eq!(words("return r; for b in break_ {}"), ["return", "r;", "for", "b", "in", "break_", "{}"]);
    }
}
