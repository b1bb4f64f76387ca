//! Defects of a partition.

use pario_layout::Layout;
use pario_types::{FileId, ServerId};
use std::fmt;
use std::ops::Range;

/// The most byte ranges that a line lists.
const MOST_RANGES: usize = 4;

/// Something that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFinding {
    /// The file.
    pub file: FileId,
    /// Its path, if it has one.
    pub path: Option<String>,
    /// The defect.
    pub inconsistency: Inconsistency,
    /// Whether it has been repaired.
    pub repaired: bool,
}

/// A defect of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inconsistency {
    /// Blocks on a server whose checksums differ from their bytes.
    Damaged {
        /// The server.
        server: ServerId,
        /// The blocks of its part of the file.
        blocks: Vec<u64>,
        /// The bytes of the file.
        bytes: Vec<Range<u64>>,
    },
    /// A server holds bytes of a file that is in no directory.
    Orphan {
        /// The server.
        server: ServerId,
        /// The number of bytes.
        len: u64,
    },
    /// A server holds bytes of a file whose layout does not include it: no client reads them.
    Stray {
        /// The server.
        server: ServerId,
        /// The number of bytes.
        len: u64,
    },
    /// The size that the metadata server has recorded is not the size that the servers' parts imply.
    Size {
        /// The recorded size.
        recorded: u64,
        /// The size that the parts imply.
        held: u64,
    },
    /// Replicas of the same bytes differ.
    Copies {
        /// The bytes of the file.
        bytes: Vec<Range<u64>>,
    },
    /// An unfinished truncation of a client that the metadata server has not resolved yet.
    Truncation {
        /// The size that the file was to get.
        size: u64,
    },
}

impl Inconsistency {
    /// Its name in reports.
    pub fn word(&self) -> &'static str {
        match self {
            Inconsistency::Damaged { .. } => "damaged",
            Inconsistency::Orphan { .. } => "orphan",
            Inconsistency::Stray { .. } => "stray",
            Inconsistency::Size { .. } => "size",
            Inconsistency::Copies { .. } => "copies",
            Inconsistency::Truncation { .. } => "truncate",
        }
    }
}

impl fmt::Display for CheckFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file;
        write!(f, "{:8} ", self.inconsistency.word())?;
        match &self.path {
            Some(path) => write_escaped(path, f)?,
            None => write!(f, "file {file} (no name)")?,
        }
        match &self.inconsistency {
            Inconsistency::Damaged { server, blocks, bytes } => {
                write_ranges(bytes, f)?;
                let plural = if blocks.len() == 1 { "" } else { "s" };
                write!(
                    f,
                    " (server {server}, {} block{plural} of {file}): the checksum differs",
                    blocks.len()
                )?;
            }
            Inconsistency::Orphan { server, len } => {
                write!(f, ": server {server} holds {len} bytes of it, and it is in no directory")?;
            }
            Inconsistency::Stray { server, len } => {
                write!(f, ": server {server} holds {len} bytes of it, and it is striped over others")?;
            }
            Inconsistency::Size { recorded, held } => {
                write!(f, ": its size is said to be {recorded}, and the servers hold {held} bytes")?;
            }
            Inconsistency::Copies { bytes } => {
                write_ranges(bytes, f)?;
                f.write_str(": the servers that keep them do not have them alike")?;
            }
            Inconsistency::Truncation { size } => write!(
                f,
                ": a truncation to {size} bytes is unfinished; the metadata server resolves it when it reaches all \
                 servers of the file"
            )?,
        }
        f.write_str(if self.repaired { "; repaired" } else { "" })
    }
}

/// Writes a name on one line: control characters are escaped.
fn write_escaped(name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    name.chars()
        .try_for_each(|c| if c.is_control() { write!(f, "{}", c.escape_default()) } else { write!(f, "{c}") })
}

fn write_ranges(bytes: &[Range<u64>], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let ranges = bytes.iter().take(MOST_RANGES).map(|range| match range.end - range.start {
        1 => range.start.to_string(),
        _ => format!("{}-{}", range.start, range.end - 1),
    });
    write!(f, ": bytes {}", ranges.collect::<Vec<_>>().join(", "))?;
    if bytes.len() > MOST_RANGES {
        write!(f, " and {} more ranges", bytes.len() - MOST_RANGES)?;
    }
    Ok(())
}

/// The bytes of a file in these blocks of a server's part, which ends at `end`.
pub(crate) fn bytes_of(
    layout: &Layout,
    server: ServerId,
    blocks: &[u64],
    block: u64,
    end: u64,
) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for number in blocks {
        let mut local = number * block;
        let stop = (local + block).min(end);
        while local < stop
            && let Some(offset) = layout.size_from(server, local + 1).checked_sub(1)
        {
            let len = layout.extent_at(offset, stop - local).len;
            match ranges.last_mut() {
                Some(last) if last.end == offset => last.end += len,
                _ => ranges.push(offset..offset + len),
            }
            local += len;
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_layout::Striping;
    use pario_types::Offset;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn findings_are_one_line_each() {
        let damaged =
            Inconsistency::Damaged { server: ServerId(1), blocks: vec![0], bytes: vec![0..10, 20..30] };
        let mut finding = CheckFinding {
            file: FileId(255),
            path: Some("/a\nb".into()),
            inconsistency: damaged,
            repaired: false,
        };
        assert_eq!(
            finding.to_string(),
            "damaged  /a\\nb: bytes 0-9, 20-29 (server 1, 1 block of 00000000000000ff): the checksum differs"
        );
        finding.path = None;
        finding.inconsistency = Inconsistency::Orphan { server: ServerId(2), len: 7 };
        finding.repaired = true;
        assert_eq!(
            finding.to_string(),
            "orphan   file 00000000000000ff (no name): server 2 holds 7 bytes of it, \
             and it is in no directory; repaired"
        );
    }

    proptest! {
        #[test]
        fn the_bytes_of_blocks_are_those_that_the_striping_puts_there(
            stripe in 1u64..20, servers in 1u16..5, first in 0u16..5, count in 1u16..5,
            size in 0u64..500, block in 1u64..30, blocks in prop::collection::btree_set(0u64..20, 0..6),
        ) {
            let striping = Striping::new(stripe, count.min(servers), first % servers, servers).unwrap();
            for server in striping.holders() {
                let end = striping.local_end(server, size);
                let naive: BTreeSet<u64> = (0..size).filter(|offset| {
                    let piece = striping.piece(Offset(*offset));
                    piece.server == server && blocks.contains(&(piece.local / block))
                }).collect();
                let blocks: Vec<u64> = blocks.iter().copied().collect();
                let ranges = bytes_of(&striping.into(), server, &blocks, block, end);
                prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
                prop_assert_eq!(ranges.into_iter().flatten().collect::<BTreeSet<u64>>(), naive);
            }
        }
    }
}
