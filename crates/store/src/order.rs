//! The order of a part's blocks on the medium, if it differs from that of the part.
//!
//! Before a part has any bytes, it can be given the order in which its blocks will first be used (see
//! [`Store::arrange`](crate::Store::arrange)). These blocks then lie in a file of their own in this order, so that a reader
//! which uses them in order reads the medium sequentially; all other blocks lie at their usual offsets. The order is at the
//! start of that file. All numbers are little-endian.
//!
//! ```text
//! offset  bytes
//!      0      8  "PARIOOR1"
//!      8      8  the file's id
//!     16      8  the number of runs
//!     24      4  CRC-32C of all else up to the last run
//!     28      4  0
//!     32     16  the first run: its first block 8, how many blocks 8
//!     48     16  the second run, and so on
//! ```
//!
//! From the next multiple of the block size on: the blocks of the first run, those of the second, and so on.

use std::ops::Range;

use pario_types::FileId;

const MAGIC: [u8; 8] = *b"PARIOOR1";
const HEADER: usize = 32;
const RUN: usize = 16;

/// The offsets of ordered blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockOrder {
    /// The runs, by their first blocks.
    runs: Vec<OrderedRun>,
    /// Bytes before the first block.
    start: u64,
    block: u64,
}

/// Blocks that are consecutive in the part and in the ordered file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OrderedRun {
    first: u64,
    count: u64,
    /// The number of blocks before them.
    at: u64,
}

/// The location of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockPlace {
    /// In the ordered file, at this offset.
    Ordered(u64),
    /// At its usual offset, as in parts without an order.
    Plain,
}

impl BlockOrder {
    /// These runs of blocks one after the other; `None` if a block is named twice or lies beyond the largest offset.
    pub fn new(block: usize, runs: &[Range<u64>]) -> Option<BlockOrder> {
        let block = block as u64;
        let start = ((HEADER + RUN * runs.len()) as u64).next_multiple_of(block);
        let mut at = 0u64;
        let mut placed = Vec::with_capacity(runs.len());
        for run in runs {
            let count = run.end.checked_sub(run.start).filter(|count| *count > 0)?;
            placed.push(OrderedRun { first: run.start, count, at });
            at = at.checked_add(count)?;
        }
        placed.sort_unstable_by_key(|run| run.first);
        let apart = placed.windows(2).all(|two| two[0].end() <= two[1].first);
        let reach = placed.last().map_or(0, OrderedRun::end).checked_mul(block)?.checked_add(start)?;
        (apart && reach <= i64::MAX as u64).then_some(BlockOrder { runs: placed, start, block })
    }

    /// Whether it is the order of the part itself.
    pub fn is_plain(&self) -> bool {
        self.runs.is_sorted_by_key(|run| run.at)
    }

    /// Returns the location of a block, and the number of blocks from it on that follow it there, at most `most`.
    pub fn place(&self, block: u64, most: u64) -> (BlockPlace, u64) {
        let next = self.runs.partition_point(|run| run.first <= block);
        let before = next.checked_sub(1).map(|index| self.runs[index]).filter(|run| block < run.end());
        match (before, self.runs.get(next)) {
            (Some(run), _) => {
                let within = block - run.first;
                (BlockPlace::Ordered(self.offset(run.at + within)), most.min(run.count - within))
            }
            (None, Some(run)) => (BlockPlace::Plain, most.min(run.first - block)),
            (None, None) => (BlockPlace::Plain, most),
        }
    }

    /// Returns the bytes of all blocks from this one on, as few ranges of the ordered file.
    pub fn beyond(&self, block: u64) -> Vec<Range<u64>> {
        let later = self.runs.iter().filter(|run| run.end() > block);
        let position = |run: &OrderedRun| {
            let from = run.at + block.saturating_sub(run.first);
            self.offset(from)..self.offset(run.at + run.count)
        };
        let mut ranges: Vec<Range<u64>> = later.map(position).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        ranges.dedup_by(|next, before| {
            let follows = next.start == before.end;
            if follows {
                before.end = next.end;
            }
            follows
        });
        ranges
    }

    /// Returns the start of the ordered file.
    pub fn encode(&self, file: FileId) -> Vec<u8> {
        let mut runs = self.runs.clone();
        runs.sort_unstable_by_key(|run| run.at);
        let numbers = [file.0, runs.len() as u64, 0].into_iter();
        let numbers = numbers.chain(runs.iter().flat_map(|run| [run.first, run.count]));
        let mut bytes = MAGIC.to_vec();
        bytes.extend(numbers.flat_map(u64::to_le_bytes));
        let sum = crc32c::crc32c(&bytes);
        bytes[24..28].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the order from the start of a file, of which `read` gets the first bytes; `None` if it is invalid.
    pub fn decode<E>(
        file: FileId,
        block: usize,
        len: u64,
        read: impl Fn(&mut [u8]) -> Result<(), E>,
    ) -> Result<Option<BlockOrder>, E> {
        if len < HEADER as u64 {
            return Ok(None);
        }
        let mut header = [0; HEADER];
        read(&mut header)?;
        let runs = word(&header, 16);
        if header[..8] != MAGIC || word(&header, 8) != file.0 || runs > (len - HEADER as u64) / RUN as u64 {
            return Ok(None);
        }
        let mut bytes = vec![0; HEADER + RUN * runs as usize];
        read(&mut bytes)?;
        let run = |bytes: &[u8]| {
            let first = word(bytes, 0);
            first.checked_add(word(bytes, 8)).map(|end| first..end)
        };
        let runs: Option<Vec<Range<u64>>> = bytes[HEADER..].chunks_exact(RUN).map(run).collect();
        let order = runs.and_then(|runs| BlockOrder::new(block, &runs));
        Ok(order.filter(|order| order.encode(file) == bytes))
    }

    fn offset(&self, position: u64) -> u64 {
        self.start + position * self.block
    }
}

impl OrderedRun {
    fn end(&self) -> u64 {
        self.first + self.count
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: usize = 4096;

    /// Runs of some blocks below `blocks`, in any order.
    pub(crate) fn any_runs(blocks: u64) -> impl Strategy<Value = Vec<Range<u64>>> {
        let cuts = prop::collection::btree_set(0..=blocks, 2..12);
        let runs = cuts.prop_map(|cuts| {
            let cuts: Vec<u64> = cuts.into_iter().collect();
            cuts.windows(2).map(|two| two[0]..two[1]).collect::<Vec<_>>()
        });
        runs.prop_shuffle().prop_flat_map(|runs| {
            let count = runs.len();
            (Just(runs), 1..=count).prop_map(|(runs, count)| runs[..count].to_vec())
        })
    }

    proptest! {
        #[test]
        fn ordered_blocks_are_contiguous(runs in any_runs(40), most in 1u64..9) {
            let order = BlockOrder::new(SIZE, &runs).unwrap();
            let start = ((32 + 16 * runs.len()) as u64).next_multiple_of(SIZE as u64);
            let named: Vec<u64> = runs.iter().cloned().flatten().collect();
            let naive = |block: u64| match named.iter().position(|other| *other == block) {
                Some(position) => BlockPlace::Ordered(start + (position * SIZE) as u64),
                None => BlockPlace::Plain,
            };
            for block in 0..45 {
                let (place, count) = order.place(block, most);
                prop_assert!((1..=most).contains(&count));
                for more in 0..count {
                    let expected = match place {
                        BlockPlace::Ordered(at) => BlockPlace::Ordered(at + more * SIZE as u64),
                        BlockPlace::Plain => BlockPlace::Plain,
                    };
                    prop_assert_eq!(naive(block + more), expected);
                }
                let mut beyond: Vec<u64> =
                    order.beyond(block).into_iter().flat_map(|range| range.step_by(SIZE)).collect();
                let mut expected: Vec<u64> = (block..45).filter_map(|block| match naive(block) {
                    BlockPlace::Ordered(at) => Some(at),
                    BlockPlace::Plain => None,
                }).collect();
                beyond.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(beyond, expected);
            }
            prop_assert_eq!(order.is_plain(), named.is_sorted());
            prop_assert_eq!(order.beyond(0).len(), 1);
        }

        #[test]
        fn an_encoded_order_is_decoded_unless_a_byte_was_changed(runs in any_runs(40), spoil in any::<(usize, u8)>()) {
            let (file, order) = (FileId(7), BlockOrder::new(SIZE, &runs).unwrap());
            let mut bytes = order.encode(file);
            let decode = |file, bytes: &[u8]| {
                let read = |to: &mut [u8]| bytes.get(..to.len()).map(|from| to.copy_from_slice(from)).ok_or(());
                BlockOrder::decode(file, SIZE, bytes.len() as u64, read)
            };
            prop_assert_eq!(decode(file, &bytes), Ok(Some(order.clone())));
            prop_assert_eq!(decode(FileId(8), &bytes), Ok(None));
            prop_assert_eq!(decode(file, &bytes[..bytes.len() - 1]), Ok(None));
            let index = spoil.0 % bytes.len();
            bytes[index] ^= spoil.1;
            prop_assert_eq!(decode(file, &bytes) == Ok(Some(order)), spoil.1 == 0);
        }
    }

    #[test]
    fn invalid_orders_are_refused() {
        for runs in [&[0..2, 1..3][..], &[4..5, 3..3], &[0..1, u64::MAX - 1..u64::MAX], &[5..9, 7..8]] {
            assert_eq!(BlockOrder::new(SIZE, runs), None, "{runs:?}");
        }
        let bytes = BlockOrder::new(SIZE, &[4..6, 0..1]).unwrap().encode(FileId(0x102));
        assert_eq!(bytes[..24], *b"PARIOOR1\x02\x01\0\0\0\0\0\0\x02\0\0\0\0\0\0\0");
        assert_eq!(bytes[28..48], [0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    }
}
