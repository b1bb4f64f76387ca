//! From a text to its settings.
//!
//! A text that is TOML is read as TOML. Else, if it has a line whose value is bare, as in `stripe_size =
//! 64k`, it is in the plain format: one `key = value` per line, without quotes, `#` before comments, lists as
//! repeated lines. Else it is TOML with a mistake.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::draft::Setting;
use super::keys;
use crate::error::DescriptionError;

/// The settings of a text, in order.
pub(super) fn settings(text: &str) -> Result<Vec<Setting>, DescriptionError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match DeTable::parse(text) {
        Ok(table) => from_toml(text, table.get_ref()),
        Err(error) => match first_bare(text) {
            Some(bare) => plain(text, bare),
            None => {
                let line = error.span().map(|span| line_at(text, span.start));
                let why = error.message().lines().map(str::trim).collect::<Vec<_>>().join("; ");
                Err(DescriptionError::Syntax { line, why })
            }
        },
    }
}

fn from_toml(text: &str, table: &DeTable<'_>) -> Result<Vec<Setting>, DescriptionError> {
    let mut settings = Vec::new();
    for (key, value) in table {
        let line = Some(line_at(text, key.span().start));
        let name = key.get_ref().as_ref();
        let is_list = keys::find(name).is_some_and(keys::Key::is_list);
        match value.get_ref() {
            DeValue::Array(all) if is_list => {
                for item in all {
                    let line = Some(line_at(text, item.span().start));
                    let value = scalar(item.get_ref()).unwrap_or_else(|| shown(text, item.span()));
                    settings.push(Setting { line, key: name.to_owned(), value });
                }
            }
            other => {
                let value = scalar(other).unwrap_or_else(|| shown(text, value.span()));
                settings.push(Setting { line, key: name.to_owned(), value });
            }
        }
    }
    // The table is sorted by key; errors are reported in the order of the lines.
    settings.sort_by_key(|setting| setting.line);
    Ok(settings)
}

/// The text of a TOML value; `None` for values that no key allows. (Its text is then refused like any other.)
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n.to_string())
        }
        DeValue::Boolean(on) => Some(on.to_string()),
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// The beginning of a part of the text, for an error message about it.
fn shown(text: &str, part: Range<usize>) -> String {
    let line = text.get(part).and_then(|part| part.lines().next());
    line.unwrap_or_default().chars().take(60).collect()
}

fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// The `key = value` lines of a text with their numbers; `Err` for a line that is neither that nor blank nor a comment.
fn lines(text: &str) -> impl Iterator<Item = (usize, Result<(&str, &str), &str>)> {
    let meaningful = text.lines().map(uncommented).zip(1..).filter(|(line, _)| !line.is_empty());
    meaningful.map(|(line, number)| {
        let pair = line.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        (number, pair.filter(|(key, _)| is_key(key)).ok_or(line))
    })
}

/// A line without its comment: from a `#` on at its start or after a blank.
fn uncommented(line: &str) -> &str {
    let starts = line.match_indices('#').map(|(at, _)| at);
    let comment = starts.into_iter().find(|&at| at == 0 || line[..at].ends_with(char::is_whitespace));
    comment.map_or(line, |at| &line[..at]).trim()
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// The first line that only the plain format allows, with its value.
fn first_bare(text: &str) -> Option<(usize, &str)> {
    lines(text).find_map(|(number, line)| {
        let (_, value) = line.ok()?;
        (!looks_like_toml(value) && !value.is_empty() && DeValue::parse(value).is_err())
            .then_some((number, value))
    })
}

/// Whether a value begins like those of TOML only.
fn looks_like_toml(value: &str) -> bool {
    value.starts_with(['"', '\'', '[', '{'])
}

fn plain(text: &str, (bare, bare_value): (usize, &str)) -> Result<Vec<Setting>, DescriptionError> {
    let mixed = |line| DescriptionError::Mixed { line, plain: bare, value: bare_value.to_owned() };
    let setting = |(number, line): (usize, Result<(&str, &str), &str>)| match line {
        Ok((_, value)) if looks_like_toml(value) => Err(mixed(number)),
        Ok((key, value)) => Ok(Setting { line: Some(number), key: key.to_owned(), value: value.to_owned() }),
        Err(line) if looks_like_toml(line) => Err(mixed(number)),
        Err(line) => Err(DescriptionError::Syntax {
            line: Some(number),
            why: format!("{:?} is not key = value", shown(line, 0..line.len())),
        }),
    };
    lines(text).map(setting).collect()
}
