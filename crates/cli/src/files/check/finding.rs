//! What can be wrong with a partition, in words and in JSON.

use pario_layout::Layout;
use pario_types::{FileId, ServerId};
use serde_json::{Value, json};
use std::fmt;
use std::ops::Range;

/// Ranges of a damaged block that are named.
const MOST_RANGES: usize = 4;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which file.
    pub file: FileId,
    /// Its path, if it has one.
    pub path: Option<String>,
    /// What is wrong with it.
    pub fault: Fault,
    /// Whether that has been put right.
    pub repaired: bool,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Blocks on a server whose checksums do not fit, and which bytes of the file that is.
    Damaged {
        /// Where.
        server: ServerId,
        /// Which blocks there.
        blocks: Vec<u64>,
        /// Which bytes of the file.
        bytes: Vec<Range<u64>>,
    },
    /// A server holds bytes of a file that is in no directory.
    Orphan {
        /// Where.
        server: ServerId,
        /// How many bytes.
        len: u64,
    },
    /// A server holds bytes of a file that is not striped over it: nobody ever reads them.
    Stray {
        /// Where.
        server: ServerId,
        /// How many bytes.
        len: u64,
    },
    /// The metadata server believes in another size than the servers.
    Size {
        /// What it believes.
        believed: u64,
        /// What the servers hold.
        held: u64,
    },
    /// Servers that keep the same bytes do not have them alike.
    Copies {
        /// Which bytes of the file.
        bytes: Vec<Range<u64>>,
    },
    /// A truncation that a client left unfinished, and that the metadata server has not resolved yet.
    Truncation {
        /// To this size.
        size: u64,
    },
}

impl Fault {
    fn word(&self) -> &'static str {
        match self {
            Fault::Damaged { .. } => "damaged",
            Fault::Orphan { .. } => "orphan",
            Fault::Stray { .. } => "stray",
            Fault::Size { .. } => "size",
            Fault::Copies { .. } => "copies",
            Fault::Truncation { .. } => "truncate",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file;
        write!(f, "{:8} ", self.fault.word())?;
        match &self.path {
            Some(path) => f.write_str(&super::super::text::printable(path))?,
            None => write!(f, "file {file} (no name)")?,
        }
        match &self.fault {
            Fault::Damaged { server, blocks, bytes } => {
                name_ranges(bytes, f)?;
                let plural = if blocks.len() == 1 { "" } else { "s" };
                write!(
                    f,
                    " (server {server}, {} block{plural} of {file}): the checksum differs",
                    blocks.len()
                )?;
            }
            Fault::Orphan { server, len } => {
                write!(f, ": server {server} holds {len} bytes of it, and it is in no directory")?;
            }
            Fault::Stray { server, len } => {
                write!(f, ": server {server} holds {len} bytes of it, and it is striped over others")?;
            }
            Fault::Size { believed, held } => {
                write!(f, ": its size is said to be {believed}, and the servers hold {held} bytes")?;
            }
            Fault::Copies { bytes } => {
                name_ranges(bytes, f)?;
                f.write_str(": the servers that keep them do not have them alike")?;
            }
            Fault::Truncation { size } => write!(
                f,
                ": a truncation to {size} bytes is unfinished; the metadata server resolves it when it reaches all \
                 servers of the file"
            )?,
        }
        f.write_str(if self.repaired { "; repaired" } else { "" })
    }
}

fn name_ranges(bytes: &[Range<u64>], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let ranges = bytes.iter().take(MOST_RANGES).map(|range| match range.end - range.start {
        1 => range.start.to_string(),
        _ => format!("{}-{}", range.start, range.end - 1),
    });
    write!(f, ": bytes {}", ranges.collect::<Vec<_>>().join(", "))?;
    match bytes.len() > MOST_RANGES {
        true => write!(f, " and {} more ranges", bytes.len() - MOST_RANGES),
        false => Ok(()),
    }
}

impl Finding {
    /// For programs.
    pub fn object(&self) -> Value {
        let pairs = |bytes: &[Range<u64>]| -> Value {
            bytes.iter().map(|range| json!([range.start, range.end])).collect()
        };
        let mut value = match &self.fault {
            Fault::Damaged { server, blocks, bytes } => {
                json!({ "server": server.0, "blocks": blocks, "bytes": pairs(bytes) })
            }
            Fault::Copies { bytes } => json!({ "bytes": pairs(bytes) }),
            Fault::Orphan { server, len } | Fault::Stray { server, len } => {
                json!({ "server": server.0, "held": len })
            }
            Fault::Size { believed, held } => json!({ "believed": believed, "held": held }),
            Fault::Truncation { size } => json!({ "size": size }),
        };
        value["fault"] = json!(self.fault.word());
        value["file"] = json!(self.file.to_string());
        value["path"] = json!(self.path);
        value["repaired"] = json!(self.repaired);
        value
    }
}

/// Which bytes of a file are in these blocks of a server's part, which ends at `end`.
pub fn bytes_of(layout: &Layout, server: ServerId, blocks: &[u64], block: u64, end: u64) -> Vec<Range<u64>> {
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
        let damaged = Fault::Damaged { server: ServerId(1), blocks: vec![0], bytes: vec![0..10, 20..30] };
        let mut finding =
            Finding { file: FileId(255), path: Some("/a\nb".into()), fault: damaged, repaired: false };
        assert_eq!(
            finding.to_string(),
            "damaged  /a\\nb: bytes 0-9, 20-29 (server 1, 1 block of 00000000000000ff): the checksum differs"
        );
        assert_eq!(finding.object()["bytes"][1][1], 30);
        finding.path = None;
        finding.fault = Fault::Orphan { server: ServerId(2), len: 7 };
        finding.repaired = true;
        assert_eq!(
            finding.to_string(),
            "orphan   file 00000000000000ff (no name): server 2 holds 7 bytes of it, \
             and it is in no directory; repaired"
        );
    }

    proptest! {
        #[test]
        fn bytes_of_blocks_are_those_the_striping_puts_there(
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
