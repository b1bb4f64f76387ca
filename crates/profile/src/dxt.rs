//! Profiles from Darshan: what `darshan-dxt-parser` prints of a log with extended tracing (DXT).
//!
//! A section begins with the name of a file, a rank and its host; each of its lines is an access. Where a file
//! was accessed through MPI-IO, the lines of that level count, because the level below it shows who wrote for others;
//! other files have lines of the lower level only.

use crate::interned::Interned;
use crate::{Error, Who};
use pario_trace::{Call, Event, Op, Pieces};
use std::io::BufRead;
use std::sync::Arc;

/// One line.
#[derive(Clone, Copy, Debug)]
struct Line {
    file: u32,
    who: u32,
    write: bool,
    mpi: bool,
    offset: u64,
    len: u64,
    start_ns: u64,
    took_ns: u64,
}

/// The accesses of a log as operations.
#[derive(Debug, Default)]
pub struct Dxt {
    files: Interned,
    /// Which files were accessed through MPI-IO.
    by_mpi: Vec<bool>,
    who: Vec<Who>,
    lines: std::vec::IntoIter<Line>,
}

impl Dxt {
    /// Reads all of it, because which lines count shows at its end.
    pub fn new(input: impl BufRead) -> Result<Dxt, Error> {
        let mut dxt = Dxt::default();
        let mut section = Section::default();
        let mut lines = Vec::new();
        for (line, number) in input.split(b'\n').zip(1..) {
            let line = line.map_err(Error::Unreadable)?;
            let line = String::from_utf8_lossy(&line);
            let line = line.trim();
            if let Some(said) = line.strip_prefix("# DXT, ") {
                section.take(said);
            } else if !line.is_empty() && !line.starts_with('#') {
                lines.push(dxt.line(line, &section).map_err(|why| Error::line(number, why))?);
            }
        }
        dxt.lines = lines.into_iter();
        Ok(dxt)
    }

    fn line(&mut self, line: &str, section: &Section) -> Result<Line, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [module, rank, op, _, offset, length, start, end, ..] = words[..] else {
            return Err("it has fewer than eight words".to_owned());
        };
        let mpi = match module {
            "X_MPIIO" => true,
            "X_POSIX" => false,
            _ => return Err(format!("{module:?} is neither X_MPIIO nor X_POSIX")),
        };
        let write = match op {
            "write" => true,
            "read" => false,
            _ => return Err(format!("{op:?} is neither read nor write")),
        };
        if section.file.is_empty() {
            return Err("no line before it names a file".to_owned());
        }
        let bytes = |word: &str| word.parse::<u64>().map_err(|_| format!("{word:?} is no number of bytes"));
        let (offset, len) = (bytes(offset)?, bytes(length)?);
        if offset.checked_add(len).is_none_or(|end| end > i64::MAX as u64) {
            return Err("the access ends beyond the largest file".to_owned());
        }
        let time = |word: &str| crate::csv::seconds(word).ok_or_else(|| format!("{word:?} is no time"));
        let (start_ns, end_ns) = (time(start)?, time(end)?);
        let file = self.files.number(&section.file);
        if file as usize == self.by_mpi.len() {
            self.by_mpi.push(false);
        }
        self.by_mpi[file as usize] |= mpi;
        let who = self.who(rank, &section.host);
        let took_ns = end_ns.saturating_sub(start_ns);
        Ok(Line { file, who, write, mpi, offset, len, start_ns, took_ns })
    }

    fn who(&mut self, rank: &str, host: &str) -> u32 {
        // Lines come rank by rank.
        let known = self.who.iter().rposition(|who| &*who.label == rank);
        let number = known.unwrap_or_else(|| {
            self.who.push(Who { label: Arc::from(rank), node: Arc::from(host) });
            self.who.len() - 1
        });
        number as u32
    }
}

/// What the lines before a table say.
#[derive(Default)]
struct Section {
    file: String,
    host: String,
}

impl Section {
    fn take(&mut self, said: &str) {
        if let Some((_, name)) = said.split_once(", file_name: ") {
            self.file = name.to_owned();
        } else if let Some((_, host)) = said.split_once(", hostname: ") {
            self.host = host.to_owned();
        }
    }
}

impl Iterator for Dxt {
    type Item = (Who, Event);

    fn next(&mut self) -> Option<(Who, Event)> {
        let by_mpi = &self.by_mpi;
        let line = self.lines.find(|line| line.mpi == by_mpi[line.file as usize])?;
        let event = Event {
            call: Call::from(if line.write { Op::Write } else { Op::Read }),
            file: Some(self.files.strings()[line.file as usize].clone()),
            offset: line.offset,
            end: line.offset + line.len,
            len: line.len,
            moved: line.len,
            start_ns: line.start_ns,
            took_ns: line.took_ns,
            errno: 0,
            kind: None,
            class: 0,
            on_behalf_of: None,
            pieces: Pieces::All,
        };
        Some((self.who[line.who as usize].clone(), event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
# darshan log version: 3.41

# DXT, file_id: 1, file_name: /scratch/a b
# DXT, rank: 0, hostname: n1
# DXT, write_count: 1, read_count: 1
# DXT, mnt_pt: /, fs_type: ext4
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)
 X_POSIX       0  write        0               0            64      0.0010      0.0030  [  1]
 X_POSIX       0   read        0              64             8      0.0050      0.0060

# DXT, file_id: 2, file_name: /scratch/only-posix
# DXT, rank: 1, hostname: n2
 X_POSIX       1   read        0               0             4      0.0050      0.0060

# DXT, file_id: 1, file_name: /scratch/a b
# DXT, rank: 1, hostname: n2
 X_MPIIO       1  write        0              16            16      0.0001      0.0002
";

    #[test]
    fn the_highest_level_of_each_file_counts() {
        let dxt = Dxt::new(LOG.as_bytes()).unwrap();
        let seen: Vec<_> = dxt
            .map(|(who, event)| {
                let file = event.file.unwrap_or_default();
                (
                    format!("{}@{} {file}", who.label, who.node),
                    event.offset,
                    event.len,
                    event.start_ns,
                    event.took_ns,
                )
            })
            .collect();
        let wanted = [
            ("1@n2 /scratch/only-posix".to_owned(), 0, 4, 5_000_000, 1_000_000),
            ("1@n2 /scratch/a b".to_owned(), 16, 16, 100_000, 100_000),
        ];
        assert_eq!(seen, wanted);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, part) in [
            (" X_POSIX 0 read 0 0 4 0 1", "names a file"),
            ("# DXT, file_id: 1, file_name: f\n X_POSIX 0 read 0 -1 4 0 1", "line 2: \"-1\""),
            ("# DXT, file_id: 1, file_name: f\n X_POSIX 0 read 0", "eight words"),
            ("# DXT, file_id: 1, file_name: f\n X_STDIO 0 read 0 0 4 0 1", "X_MPIIO"),
        ] {
            let line = Dxt::new(text.as_bytes()).unwrap_err().to_string();
            assert!(line.contains(part), "{line}");
        }
    }
}
