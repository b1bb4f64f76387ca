//! Reads what `darshan-dxt-parser` prints of a log.
//!
//! A section begins with the name of a file, a rank and its host; each of its lines is an access.

use super::{Accesses, Segment, keep};
use crate::Error;
use std::io::BufRead;

pub(super) fn read(input: impl BufRead) -> Result<Accesses, Error> {
    let mut accesses = Accesses::default();
    let mut section = Section::default();
    let mut segments = Vec::new();
    for (line, number) in input.split(b'\n').zip(1..) {
        let line = line.map_err(Error::Unreadable)?;
        let line = String::from_utf8_lossy(&line);
        let line = line.trim();
        if let Some(said) = line.strip_prefix("# DXT, ") {
            section.take(said);
        } else if !line.is_empty() && !line.starts_with('#') {
            let segment = section.segment(line, &mut accesses).map_err(|why| Error::line(number, why))?;
            keep(&mut segments, segment)?;
        }
    }
    Ok(accesses.with(segments))
}

/// The content of the lines before a table.
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

    fn segment(&self, line: &str, accesses: &mut Accesses) -> Result<Segment, String> {
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
        if self.file.is_empty() {
            return Err("no line before it names a file".to_owned());
        }
        let bytes = |word: &str| word.parse::<u64>().map_err(|_| format!("{word:?} is no number of bytes"));
        let (offset, len) = (bytes(offset)?, bytes(length)?);
        if offset.checked_add(len).is_none_or(|end| end > i64::MAX as u64) {
            return Err("the access ends beyond the largest file".to_owned());
        }
        let time = |word: &str| crate::csv::seconds(word).ok_or_else(|| format!("{word:?} is no time"));
        let (start_ns, end_ns) = (time(start)?, time(end)?);
        let (file, rank) = (accesses.file(&self.file, mpi), accesses.rank(rank, &self.host));
        let took_ns = end_ns.saturating_sub(start_ns);
        Ok(Segment { file, rank, write, mpi, offset, len, start_ns, took_ns })
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
        let dxt = read(LOG.as_bytes()).unwrap();
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
            let line = read(text.as_bytes()).unwrap_err().to_string();
            assert!(line.contains(part), "{line}");
        }
    }
}
