//! Profiles as tables: `process,file,offset,length,op,time`.
//!
//! The first line names the columns, in any order; further columns are passed over. Without such a line the
//! columns are those six, in that order. `process` is any label, `op` is `read` or `write`, `time` is in seconds, with
//! decimals if need be, or in nanoseconds if the column is called `time_ns`. Fields that hold a comma or a quote stand
//! in quotes, with quotes doubled. Empty lines and lines that start with `#` are passed over.
//!
//! The crate csv would accept a field in quotes that goes on over lines, and characters behind a closing quote; here both are
//! errors with the number of their line.

use crate::interned::Interned;
use crate::{Collector, Error, TracedProcess};
use pario_trace::{TraceEvent, TracedCall, TracedOp, TracedPieces};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::io::BufRead;
use std::sync::Arc;

/// The columns in the order in which they stand without a heading.
pub const COLUMNS: [&str; 6] = ["process", "file", "offset", "length", "op", "time"];

/// The lines of a table as operations.
#[derive(Debug)]
pub struct Csv<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    /// The position of each of [`COLUMNS`].
    places: [usize; 6],
    in_ns: bool,
    /// The first line, if it is not a heading.
    pending: bool,
    processes: Interned,
    files: Interned,
    who: Vec<TracedProcess>,
}

impl<R: BufRead> Csv<R> {
    /// Reads the heading.
    pub fn new(input: R) -> Result<Csv<R>, Error> {
        let mut csv = Csv {
            input,
            line: Vec::new(),
            number: 0,
            places: [0, 1, 2, 3, 4, 5],
            in_ns: false,
            pending: false,
            processes: Interned::default(),
            files: Interned::default(),
            who: Vec::new(),
        };
        if csv.next_line()? {
            csv.heading()?;
        }
        Ok(csv)
    }

    fn heading(&mut self) -> Result<(), Error> {
        let wrong = |why: String| Error::line(self.number, why);
        let line = std::str::from_utf8(&self.line).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
        let names = fields(line).map_err(wrong)?;
        let names: Vec<String> = names.iter().map(|field| field.trim().to_ascii_lowercase()).collect();
        if !names.iter().any(|name| COLUMNS.contains(&name.as_str())) {
            self.pending = true;
            return Ok(());
        }
        for (place, column) in self.places.iter_mut().zip(COLUMNS) {
            let find = |wanted: &str| names.iter().position(|name| name == wanted);
            *place = match find(column) {
                Some(found) => found,
                None if column == "time" => {
                    self.in_ns = true;
                    find("time_ns").ok_or_else(|| Error::Columns(column.to_owned()))?
                }
                None => return Err(Error::Columns(column.to_owned())),
            };
        }
        Ok(())
    }

    /// Reads the next line that says something; false at the end.
    fn next_line(&mut self) -> Result<bool, Error> {
        loop {
            self.line.clear();
            if self.input.read_until(b'\n', &mut self.line).map_err(Error::Unreadable)? == 0 {
                return Ok(false);
            }
            self.number += 1;
            while self.line.last().is_some_and(|byte| b"\r\n".contains(byte)) {
                self.line.pop();
            }
            if self.line.iter().any(|byte| !byte.is_ascii_whitespace()) && self.line[0] != b'#' {
                return Ok(true);
            }
        }
    }

    fn operation(&mut self) -> Result<(TracedProcess, TraceEvent), String> {
        let line = std::str::from_utf8(&self.line).map_err(|_| "it is not UTF-8".to_owned())?;
        let quoted = if line.contains('"') { fields(line)? } else { Vec::new() };
        let [process, file, offset, length, op, time] = match quoted.is_empty() {
            // Most lines have no quotes, and need no memory.
            true => self.six(line.split(','))?,
            false => self.six(quoted.iter().map(Cow::as_ref))?,
        };
        let number = |name: &str, text: &str| {
            text.parse::<u64>().map_err(|_| format!("{name} is {text:?}, which is no number of bytes"))
        };
        let (offset, len) = (number("offset", offset)?, number("length", length)?);
        let end = offset.checked_add(len).filter(|&end| end <= i64::MAX as u64);
        let end = end.ok_or("the access ends beyond the largest file")?;
        let op = match op {
            "read" | "Read" | "READ" => TracedOp::Read,
            "write" | "Write" | "WRITE" => TracedOp::Write,
            _ => return Err(format!("op is {op:?}; it must be read or write")),
        };
        let start_ns = if self.in_ns { time.parse().ok() } else { seconds(time) }
            .ok_or_else(|| format!("time is {time:?}, which is no time in {}", self.unit()))?;
        let file = self.files.number(file) as usize;
        let process = self.processes.number(process) as usize;
        if process == self.who.len() {
            let label = self.processes.strings()[process].clone();
            self.who.push(TracedProcess { label, node: "".into() });
        }
        let event = TraceEvent {
            call: TracedCall::from(op),
            file: Some(self.files.strings()[file].clone()),
            offset,
            end,
            len,
            moved: len,
            start_ns,
            took_ns: 0,
            errno: 0,
            kind: None,
            class: 0,
            on_behalf_of: None,
            pieces: TracedPieces::All,
        };
        Ok((self.who[process].clone(), event))
    }

    /// The fields in the order of [`COLUMNS`].
    fn six<'a>(&self, fields: impl Iterator<Item = &'a str>) -> Result<[&'a str; 6], String> {
        let mut six = [None; 6];
        for (place, field) in fields.enumerate() {
            if let Some(column) = self.places.iter().position(|&wanted| wanted == place) {
                six[column] = Some(field.trim());
            }
        }
        match six.iter().position(Option::is_none) {
            Some(column) => Err(format!("{} is missing", COLUMNS[column])),
            None => Ok(six.map(Option::unwrap_or_default)),
        }
    }

    fn unit(&self) -> &'static str {
        if self.in_ns { "nanoseconds" } else { "seconds (a column time_ns is in nanoseconds)" }
    }
}

impl<R: BufRead> Iterator for Csv<R> {
    type Item = Result<(TracedProcess, TraceEvent), Error>;

    fn next(&mut self) -> Option<Result<(TracedProcess, TraceEvent), Error>> {
        if !std::mem::take(&mut self.pending) {
            match self.next_line() {
                Ok(true) => (),
                Ok(false) => return None,
                Err(e) => return Some(Err(e)),
            }
        }
        Some(self.operation().map_err(|why| Error::line(self.number, why)))
    }
}

/// The fields of a line.
fn fields(line: &str) -> Result<Vec<Cow<'_, str>>, String> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let (field, after) = match rest.trim_start().strip_prefix('"') {
            Some(quoted) => in_quotes(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (Cow::Borrowed(&rest[..end]), &rest[end..])
            }
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(fields),
            None => return Err("a comma is missing after a field in quotes".to_owned()),
        }
    }
}

/// The field that begins behind a quote, and what follows it.
fn in_quotes(text: &str) -> Result<(Cow<'_, str>, &str), String> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let end = rest.find('"').ok_or("a quote is not closed on its line")?;
        field.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(after) => {
                field.push('"');
                rest = after;
            }
            None => return Ok((Cow::Owned(field), rest.trim_start())),
        }
    }
}

/// Seconds, with decimals if need be, in nanoseconds.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || (whole.is_empty() && part.is_empty()) {
        // Such as 1e-05, which is how some programs write small numbers.
        let value = text.parse::<f64>().ok().filter(|value| *value >= 0.0)? * 1e9;
        return (value < u64::MAX as f64).then_some(value as u64);
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut ns = 0;
    for place in 0..9 {
        ns = 10 * ns + part.as_bytes().get(place).map_or(0, |digit| u64::from(digit - b'0'));
    }
    whole.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// Writes a line of such a table.
fn line(label: &str, event: &TraceEvent, into: &mut String) {
    use std::fmt::Write;
    let (seconds, ns) = (event.start_ns / 1_000_000_000, event.start_ns % 1_000_000_000);
    let file = event.file.as_deref().unwrap_or_default();
    // Writing to a string does not fail.
    let _ = writeln!(
        into,
        "{},{},{},{},{},{seconds}.{ns:09}",
        quoted(label),
        quoted(file),
        event.offset,
        event.moved,
        event.call.op.word(),
    );
}

/// An access as lines of a table, one per piece.
pub fn lines(pieces: &mut Collector, who: &TracedProcess, event: &TraceEvent) -> Result<String, Error> {
    let mut text = String::new();
    if !matches!(event.call.op, TracedOp::Read | TracedOp::Write) || event.moved == 0 {
        return Ok(text);
    }
    for (offset, end) in pieces.pieces(who, event)? {
        let moved = end - offset;
        line(
            &who.label,
            &TraceEvent { offset, end, moved, len: moved, pieces: TracedPieces::All, ..event.clone() },
            &mut text,
        );
    }
    Ok(text)
}

fn quoted(text: &str) -> Cow<'_, str> {
    let plain = |c: char| !matches!(c, ',' | '"' | '\r' | '\n');
    if text.chars().all(plain) && text.trim() == text && !text.starts_with('#') {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"").replace(['\r', '\n'], "?")))
    }
}

/// Numbers before words, numbers by their value.
pub(crate) fn by_number(a: &Arc<str>, b: &Arc<str>) -> Ordering {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(one), Ok(other)) => one.cmp(&other).then_with(|| a.cmp(b)),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Row = (String, String, u64, u64, TracedOp, u64);

    fn read(text: &str) -> Result<Vec<Row>, Error> {
        let all: Result<Vec<_>, Error> = Csv::new(text.as_bytes())?.collect();
        let tuple = |(who, event): (TracedProcess, TraceEvent)| {
            let file = event.file.as_deref().unwrap_or_default().to_owned();
            (who.label.to_string(), file, event.offset, event.len, event.call.op, event.start_ns)
        };
        Ok(all?.into_iter().map(tuple).collect())
    }

    #[test]
    fn headings_may_be_there_or_not_and_in_any_order() {
        let row = ("w".to_owned(), "f".to_owned(), 8, 16, TracedOp::Write, 1_500_000_000);
        let wanted = std::slice::from_ref(&row);
        assert_eq!(read("process,file,offset,length,op,time\nw,f,8,16,write,1.5\n").unwrap(), wanted);
        assert_eq!(read("w,f,8,16,write,1.5").unwrap(), wanted);
        assert_eq!(
            read("# x\r\n\r\nTime, op ,file,length,offset,x,process\r\n1.5,write, f ,16,8,,w\r\n").unwrap(),
            wanted
        );
        assert_eq!(
            read("time_ns,op,file,length,offset,process\n1500000000,write,\"f\",16,8,w").unwrap(),
            wanted
        );
        assert_eq!(read("").unwrap(), []);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let wrong = [
            ("process,file,offset,length,op\n", "no column time"),
            ("process,file,offset,length,op,time\nw,f,8,16,write\n", "line 2: time is missing"),
            ("w,f,-8,16,write,0\n", "line 1: offset"),
            ("w,f,8,16,append,0\n", "read or write"),
            ("w,f,8,16,read,soon\n", "time is"),
            ("w,f,8,16,read,-1\n", "time is"),
            ("w,f,8,16,read,1700000000000000000\n", "time_ns"),
            ("w,f,9223372036854775807,1,read,0\n", "largest file"),
            ("w,\"f,8,16,read,0\n", "quote"),
            ("w,\"f\"g,8,16,read,0\n", "comma"),
        ];
        for (text, part) in wrong {
            let line = read(text).unwrap_err().to_string();
            assert!(line.contains(part), "{text:?}: {line}");
        }
        assert!(Csv::new(&b"w,\xff,0,1,read,0"[..]).is_err());
    }

    #[test]
    fn seconds_are_exact() {
        let times =
            ["0", "1", ".5", "1.", "0.000000001", "1.0000000019", "1e-3"].map(|text| seconds(text).unwrap());
        assert_eq!(times, [0, 1_000_000_000, 500_000_000, 1_000_000_000, 1, 1_000_000_001, 1_000_000]);
        assert!(
            [".", "", "x", "inf", "nan", "1e30", "99999999999"].iter().all(|text| seconds(text).is_none())
        );
    }

    #[test]
    fn numbers_come_before_words() {
        let mut labels: Vec<Arc<str>> = ["x", "10", "9", "a", "2"].map(Arc::from).into();
        labels.sort_by(by_number);
        assert_eq!(labels.join(" "), "2 9 10 a x");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            rows in prop::collection::vec(("[^\r\n]{1,8}", "[^\r\n]{1,8}", 0u64..1 << 60, 1u64..1 << 60, any::<bool>(), 0u64..1 << 60), 1..10)
        ) {
            let mut text = COLUMNS.join(",") + "\n";
            let mut wanted = Vec::new();
            for (label, file, offset, len, write, start_ns) in rows {
                let (label, file) = (label.trim().to_owned() + "x", file.trim().to_owned());
                let op = if write { TracedOp::Write } else { TracedOp::Read };
                let event = TraceEvent {
                    call: TracedCall::from(op), file: Some(file.as_str().into()), offset, end: offset + len, len, moved: len,
                    start_ns, took_ns: 0, errno: 0, kind: None, class: 0, on_behalf_of: None, pieces: TracedPieces::All,
                };
                line(&label, &event, &mut text);
                wanted.push((label, file, offset, len, op, start_ns));
            }
            prop_assert_eq!(read(&text).unwrap(), wanted);
        }

        #[test]
        fn no_text_panics(text in "([a-z0-9,.\"\n-]|process,){0,80}") {
            let _ = read(&text);
        }
    }
}
