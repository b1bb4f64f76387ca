//! Checksum files: their content and its meaning for a part and its blocks.
//!
//! All numbers are little-endian. The header is stored twice, in a sector of its own each time, so that one damaged copy
//! does no harm; the valid one with the higher sequence number is used.
//!
//! ```text
//! offset  bytes
//!      0      8  "PARIOSM2"
//!      8      8  the file's id
//!     16      8  sequence number of this header
//!     24      8  where the part ends
//!     32      8  up to where there may be durable blocks
//!     40      8  the highest identity of a truncation that was carried out or fenced
//!     48      8  how often power had been lost when the entries were last looked through
//!     56      8  up to where all entries are on the medium
//!     64      4  1: there may be entries that are not durable; 2: the part has an order of its own
//!     68      4  CRC-32C of the 68 bytes before
//!    512         the same again
//!   1024     16  the entry of block 0
//!   1040     16  the entry of block 1, and so on
//!
//! an entry:
//!      0      4  checksum of the newest version
//!      4      4  checksum of the durable version before it
//!      8      4  what it says (below)
//!     12      4  CRC-32C of the file's id, the block's number and the 12 bytes before
//! ```
//!
//! Of the third number, bits 0 to 3 are: 1 zeros, 2 stored, 3 lost. Of a block that is stored, bit 4 is its home (0 A, 1 B),
//! bits 5 and 6 the stage (0 fresh, 1 in place, 2 written, 3 durable), bits 7 and 8 the version before (0 zeros, 1 durable in
//! the other home, 2 lost). An entry of 16 zeros is that of a block that was never written.
//!
//! A block's checksum is the CRC-32C of the file's id (8 bytes), the block's number (8 bytes) and the block's bytes, padded
//! with zeros. So a misplaced block is detected, and growing with zeros changes no entry.

use pario_types::FileId;

/// Bytes before the first entry.
pub const HEADER: usize = 2 * SECTOR;
/// Bytes of an entry.
pub const ENTRY: usize = 16;

const SECTOR: usize = 512;
const SOUND: usize = 72;
const MAGIC: [u8; 8] = *b"PARIOSM2";

/// The content of a part's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartHeader {
    /// The sequence number of the header.
    pub sequence: u64,
    /// The end of the part.
    pub end: u64,
    /// The offset below which there may be durable blocks.
    pub synced_end: u64,
    /// The offset below which all entries are on the medium.
    pub entries_end: u64,
    /// The highest id of a truncation that was performed or fenced.
    pub cut: u64,
    /// The number of power losses when the entries were last examined.
    pub losses: u64,
    /// Whether there may be entries that are not durable.
    pub unsynced: bool,
    /// Whether the part has an order of its own.
    pub ordered: bool,
}

/// The location of a version of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In the part's own file, or that of the ordered blocks.
    A,
    /// In the file of second versions.
    B,
}

/// The progress of the newest version of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is being written where there was none.
    Fresh,
    /// It is being written over one that was not durable.
    InPlace,
    /// It is written.
    Written,
    /// It is on the medium.
    Durable,
}

/// The version of a block before the newest, while that is not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreviousVersion {
    /// The block was never written.
    Zeros,
    /// It is durable in the other home, and has this checksum.
    Durable(u32),
    /// It was lost.
    Lost,
}

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumEntry {
    /// It was never written, and its home is zeros.
    None,
    /// It is zeros, whatever its home contains: a write of it was lost with the power.
    Zeros,
    /// It was written.
    Stored(BlockVersion),
    /// Its bytes are known to be lost.
    Lost,
    /// The entry is damaged, or missing where there must be one.
    Damaged,
}

/// The newest version of a block that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockVersion {
    /// Its location.
    pub home: Home,
    /// Its progress.
    pub stage: Stage,
    /// Its checksum.
    pub sum: u32,
    /// The version before.
    pub before: PreviousVersion,
}

impl Home {
    /// The other home.
    pub fn other(self) -> Home {
        match self {
            Home::A => Home::B,
            Home::B => Home::A,
        }
    }
}

impl BlockVersion {
    /// The same at another stage.
    pub fn at(self, stage: Stage) -> BlockVersion {
        let before = if stage == Stage::Durable { PreviousVersion::Zeros } else { self.before };
        BlockVersion { stage, before, ..self }
    }

    /// The entry without the newest version.
    pub fn without(self) -> ChecksumEntry {
        match self.before {
            PreviousVersion::Zeros => ChecksumEntry::Zeros,
            PreviousVersion::Lost => ChecksumEntry::Lost,
            PreviousVersion::Durable(sum) => ChecksumEntry::Stored(BlockVersion {
                home: self.home.other(),
                stage: Stage::Durable,
                sum,
                before: PreviousVersion::Zeros,
            }),
        }
    }
}

impl ChecksumEntry {
    /// Whether the newest version is not durable.
    pub fn is_unsynced(self) -> bool {
        matches!(self, ChecksumEntry::Stored(stored) if stored.stage != Stage::Durable)
    }

    /// Returns the next version with this checksum, while it is being written. A durable version stays.
    pub fn next(self, sum: u32) -> BlockVersion {
        let (home, stage, before) = match self {
            ChecksumEntry::None | ChecksumEntry::Zeros => (Home::A, Stage::Fresh, PreviousVersion::Zeros),
            ChecksumEntry::Lost | ChecksumEntry::Damaged => (Home::A, Stage::Fresh, PreviousVersion::Lost),
            ChecksumEntry::Stored(BlockVersion { home, stage, sum, before }) => match stage {
                Stage::Durable if !pario_runtime::is_planted("durable-block-overwritten") => {
                    (home.other(), Stage::Fresh, PreviousVersion::Durable(sum))
                }
                Stage::Written | Stage::InPlace | Stage::Durable => (home, Stage::InPlace, before),
                Stage::Fresh => (home, Stage::Fresh, before),
            },
        };
        BlockVersion { home, stage, sum, before }
    }

    /// Encodes an entry.
    pub fn encode(self, file: FileId, block: u64) -> [u8; ENTRY] {
        let (sum, before, code) = match self {
            ChecksumEntry::None => return [0; ENTRY],
            ChecksumEntry::Zeros => (0, 0, 1),
            ChecksumEntry::Lost | ChecksumEntry::Damaged => (0, 0, 3),
            ChecksumEntry::Stored(BlockVersion { home, stage, sum, before }) => {
                let (old, kind) = match before {
                    PreviousVersion::Zeros => (0, 0),
                    PreviousVersion::Durable(sum) => (sum, 1),
                    PreviousVersion::Lost => (0, 2),
                };
                (sum, old, 2 | (home as u32) << 4 | (stage as u32) << 5 | kind << 7)
            }
        };
        let mut bytes = [0; ENTRY];
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes[4..8].copy_from_slice(&before.to_le_bytes());
        bytes[8..12].copy_from_slice(&u32::to_le_bytes(code));
        let check = check(file, block, &bytes[..12]);
        bytes[12..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Decodes an entry.
    pub fn decode(file: FileId, block: u64, bytes: &[u8; ENTRY]) -> ChecksumEntry {
        if *bytes == [0; ENTRY] {
            return ChecksumEntry::None;
        }
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if number(12) != check(file, block, &bytes[..12]) {
            return ChecksumEntry::Damaged;
        }
        let code = number(8);
        let before = match code >> 7 {
            0 => PreviousVersion::Zeros,
            1 => PreviousVersion::Durable(number(4)),
            _ => PreviousVersion::Lost,
        };
        let stage = [Stage::Fresh, Stage::InPlace, Stage::Written, Stage::Durable][(code >> 5 & 3) as usize];
        let home = if code >> 4 & 1 == 0 { Home::A } else { Home::B };
        match code & 15 {
            1 => ChecksumEntry::Zeros,
            2 => ChecksumEntry::Stored(BlockVersion { home, stage, sum: number(0), before }),
            3 => ChecksumEntry::Lost,
            _ => ChecksumEntry::Damaged,
        }
    }
}

impl PartHeader {
    /// Encodes both copies.
    pub fn encode(&self, file: FileId) -> [u8; HEADER] {
        let flags = u64::from(self.unsynced) | u64::from(self.ordered) << 1;
        let PartHeader { sequence, end, synced_end, cut, losses, entries_end, .. } = *self;
        let numbers = [file.0, sequence, end, synced_end, cut, losses, entries_end, flags].into_iter();
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&MAGIC);
        for (place, number) in bytes[8..SOUND].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let sum = crc32c::crc32c(&bytes[..68]);
        bytes[68..SOUND].copy_from_slice(&sum.to_le_bytes());
        bytes.copy_within(..SECTOR, SECTOR);
        bytes
    }

    /// Decodes the newer of the valid copies; `None` if neither is valid.
    pub fn decode(file: FileId, bytes: &[u8; HEADER]) -> Option<PartHeader> {
        let copies = bytes.chunks_exact(SECTOR).filter_map(|copy| PartHeader::decode_one(file, copy));
        copies.max_by_key(|header| header.sequence)
    }

    fn decode_one(file: FileId, bytes: &[u8]) -> Option<PartHeader> {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let sum = u32::from_le_bytes(bytes[68..SOUND].try_into().expect("four bytes"));
        let sound = bytes[..8] == MAGIC && number(8) == file.0 && sum == crc32c::crc32c(&bytes[..68]);
        sound.then(|| PartHeader {
            sequence: number(16),
            end: number(24),
            synced_end: number(32),
            cut: number(40),
            losses: number(48),
            entries_end: number(56),
            unsynced: bytes[64] & 1 == 1,
            ordered: bytes[64] & 2 == 2,
        })
    }
}

/// The checksum of a block of which only the first `kept` bytes are valid; the others count as zeros.
pub fn sum(file: FileId, block: u64, bytes: &[u8], kept: usize) -> u32 {
    let mut sum = crc32c::crc32c_append(crc32c::crc32c(&place_of(file, block)), &bytes[..kept]);
    let mut missing = bytes.len() - kept;
    while missing > 0 {
        let some = missing.min(ZEROS.len());
        sum = crc32c::crc32c_append(sum, &ZEROS[..some]);
        missing -= some;
    }
    sum
}

/// The offset of a block's entry.
pub fn place(block: u64) -> u64 {
    HEADER as u64 + block * ENTRY as u64
}

/// Whether all bytes are zeros.
pub fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(ZEROS.len()).all(|chunk| *chunk == ZEROS[..chunk.len()])
}

static ZEROS: [u8; 4096] = [0; 4096];

fn check(file: FileId, block: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&place_of(file, block)), bytes)
}

fn place_of(file: FileId, block: u64) -> [u8; 16] {
    let mut place = [0; 16];
    place[..8].copy_from_slice(&file.0.to_le_bytes());
    place[8..].copy_from_slice(&block.to_le_bytes());
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_entries_are_encoded_as_documented() {
        let header = PartHeader {
            sequence: 1,
            end: 2,
            synced_end: 3,
            cut: 4,
            losses: 5,
            entries_end: 6,
            unsynced: true,
            ordered: true,
        };
        let mut bytes = header.encode(FileId(0x0102));
        let number = |value: u8| [value, 0, 0, 0, 0, 0, 0, 0];
        let expected = [*b"PARIOSM2", [2, 1, 0, 0, 0, 0, 0, 0], number(1), number(2), number(3), number(4)];
        assert_eq!(bytes[..48], expected.concat());
        assert_eq!(bytes[48..68], [5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(bytes[..512], bytes[512..]);
        assert_eq!(PartHeader::decode(FileId(0x0103), &bytes), None);
        // One of the two may be damaged.
        for at in 0..72 {
            bytes[at] ^= 8;
            assert_eq!(PartHeader::decode(FileId(0x0102), &bytes), Some(header));
            bytes[512 + at] ^= 1;
            assert_eq!(PartHeader::decode(FileId(0x0102), &bytes), None);
            bytes[512 + at] ^= 1;
            bytes[at] ^= 8;
        }
        assert_eq!(place(2), 1056);
    }

    #[test]
    fn an_entry_is_read_as_it_was_written_or_is_damaged() {
        let stages = [Stage::Fresh, Stage::InPlace, Stage::Written, Stage::Durable];
        let befores = [PreviousVersion::Zeros, PreviousVersion::Durable(7), PreviousVersion::Lost];
        let all = stages.iter().flat_map(|stage| befores.iter().map(move |before| (*stage, *before)));
        let mut entries: Vec<ChecksumEntry> = all
            .flat_map(|(stage, before)| {
                let stored =
                    |home| ChecksumEntry::Stored(BlockVersion { home, stage, sum: 0x0403_0201, before });
                [stored(Home::A), stored(Home::B)]
            })
            .collect();
        entries.extend([ChecksumEntry::None, ChecksumEntry::Zeros, ChecksumEntry::Lost]);
        for entry in entries {
            let mut bytes = entry.encode(FileId(1), 2);
            assert_eq!(ChecksumEntry::decode(FileId(1), 2, &bytes), entry);
            if entry == ChecksumEntry::None {
                continue;
            }
            assert_eq!(ChecksumEntry::decode(FileId(1), 3, &bytes), ChecksumEntry::Damaged);
            assert_eq!(ChecksumEntry::decode(FileId(2), 2, &bytes), ChecksumEntry::Damaged);
            for at in 0..ENTRY {
                bytes[at] ^= 16;
                assert_eq!(ChecksumEntry::decode(FileId(1), 2, &bytes), ChecksumEntry::Damaged);
                bytes[at] ^= 16;
            }
        }
        let stored = BlockVersion {
            home: Home::B,
            stage: Stage::Written,
            sum: 0x0403_0201,
            before: PreviousVersion::Durable(5),
        };
        let bytes = ChecksumEntry::Stored(stored).encode(FileId(1), 2);
        assert_eq!(bytes[..12], [1, 2, 3, 4, 5, 0, 0, 0, 2 | 1 << 4 | 2 << 5 | 1 << 7, 0, 0, 0]);
    }

    #[test]
    fn a_checksum_covers_the_position_and_the_bytes() {
        // CRC-32C of the id, the number and "123456789", computed bit by bit with other code.
        let mut crc = !0u32;
        for byte in [1u8, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0].iter().chain(b"123456789") {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            }
        }
        assert_eq!(sum(FileId(1), 2, b"123456789", 9), !crc);
        // Bytes beyond the valid ones count as zeros.
        let (mut block, mut dirty) = (vec![0u8; 9000], vec![0xee; 9000]);
        block[..3].copy_from_slice(b"abc");
        dirty[..3].copy_from_slice(b"abc");
        assert_eq!(sum(FileId(9), 4, &dirty, 3), sum(FileId(9), 4, &block, 9000));
        assert!(is_zero(&block[3..]) && !is_zero(&block));
    }
}
