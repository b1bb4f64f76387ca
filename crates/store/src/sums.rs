//! Checksum files: what stands in them and what it says of a block.
//!
//! All numbers are little-endian.
//!
//! ```text
//! offset  bytes
//!      0      8  "PARIOSM2"
//!      8      8  the file's id
//!     16      8  the highest identity of a truncation that was carried out or fenced
//!     24      4  CRC-32C of all this
//!     28      4  0
//!     32      8  the entry of block 0
//!     40      8  the entry of block 1, and so on
//!
//! an entry:
//!      0      4  checksum
//!      4      4  state: 0 none, 1 good, 2 in flux
//! ```
//!
//! The checksum is the CRC-32C of the file's id (8 bytes), the block's number (8 bytes) and the block's
//! bytes, padded with zeros behind the part's end. So a block in a wrong place is found, too, growing with
//! zeros changes no entry, and entries need no header to be believed: a wrong header is written anew.
//!
//! Entry *none*, which is all zeros and is what a file that is too short has: the block was never written
//! and has to be zeros. *Good*: the checksum is that of the block. *In flux*: the block was being written,
//! and the checksum is that of the new bytes; if it is right the block is as good as a good one, if not the
//! block is *unverified*: old bytes, or some old and some new, because somebody was killed in between. That
//! is no damage. Entries of blocks beyond the part's end mean nothing and are cut off when the file is
//! opened.

use pario_units::FileId;

/// Bytes before the first entry.
pub const HEADER: usize = 32;
/// Bytes of an entry.
pub const ENTRY: usize = 8;

const MAGIC: [u8; 8] = *b"PARIOSM2";
const NONE: u32 = 0;
const GOOD: u32 = 1;
const FLUX: u32 = 2;

/// What is known of a block's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    sum: u32,
    state: u32,
}

/// What an entry says of a block's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They are those that were written.
    Good,
    /// They are those that were written, but a crash has left the entry in flux.
    GoodInFlux,
    /// A crash came while they were written.
    Unverified,
    /// They are not those that were written.
    Damaged,
}

impl Entry {
    /// Of a block that was never written.
    pub const NONE: Entry = Entry { sum: 0, state: NONE };

    /// Of a block that has these bytes.
    pub fn good(sum: u32) -> Entry {
        Entry { sum, state: GOOD }
    }

    /// Of a block that is about to get these bytes.
    pub fn in_flux(sum: u32) -> Entry {
        Entry { sum, state: FLUX }
    }

    /// Whether the block was never written.
    pub fn is_none(self) -> bool {
        self.state == NONE
    }

    /// What this says of a block with these bytes.
    pub fn judge(self, file: FileId, block: u64, bytes: &[u8]) -> Verdict {
        match self.state {
            NONE if is_zero(bytes) => Verdict::Good,
            GOOD if self.sum == sum(file, block, bytes, bytes.len()) => Verdict::Good,
            FLUX if self.sum == sum(file, block, bytes, bytes.len()) => Verdict::GoodInFlux,
            FLUX => Verdict::Unverified,
            _ => Verdict::Damaged,
        }
    }

    fn encode(self) -> [u8; ENTRY] {
        (u64::from(self.sum) | u64::from(self.state) << 32).to_le_bytes()
    }

    fn decode(bytes: [u8; ENTRY]) -> Entry {
        let word = u64::from_le_bytes(bytes);
        Entry { sum: word as u32, state: (word >> 32) as u32 }
    }
}

/// The checksum of a block of which only the first `kept` bytes count; the others are taken for zeros.
pub fn sum(file: FileId, block: u64, bytes: &[u8], kept: usize) -> u32 {
    let mut place = [0; 16];
    place[..8].copy_from_slice(&file.0.to_le_bytes());
    place[8..].copy_from_slice(&block.to_le_bytes());
    let mut sum = crc32c::crc32c_append(crc32c::crc32c(&place), &bytes[..kept]);
    let mut missing = bytes.len() - kept;
    while missing > 0 {
        let some = missing.min(ZEROS.len());
        sum = crc32c::crc32c_append(sum, &ZEROS[..some]);
        missing -= some;
    }
    sum
}

/// The start of a checksum file.
pub fn header(file: FileId, cut: u64) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&file.0.to_le_bytes());
    bytes[16..24].copy_from_slice(&cut.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..24]);
    bytes[24..28].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The identity of a truncation that a header has; `None` if it is none of this file.
pub fn cut(file: FileId, bytes: &[u8; HEADER]) -> Option<u64> {
    let cut = u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes"));
    (*bytes == header(file, cut)).then_some(cut)
}

/// Where a block's entry stands.
pub fn place(block: u64) -> u64 {
    HEADER as u64 + block * ENTRY as u64
}

/// Entries as they stand in a file.
pub fn encode(entries: impl Iterator<Item = Entry>) -> Vec<u8> {
    entries.flat_map(Entry::encode).collect()
}

/// Entries from what stands in a file.
pub fn decode(bytes: &[u8]) -> Vec<Entry> {
    let entries = bytes.chunks_exact(ENTRY);
    entries.map(|entry| Entry::decode(entry.try_into().expect("eight bytes"))).collect()
}

static ZEROS: [u8; 4096] = [0; 4096];

fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(ZEROS.len()).all(|chunk| *chunk == ZEROS[..chunk.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stand_as_documented() {
        assert_eq!(header(FileId(0x0102), 3)[..24], *b"PARIOSM2\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0");
        assert_eq!(cut(FileId(0x0102), &header(FileId(0x0102), 3)), Some(3));
        assert_eq!(cut(FileId(0x0101), &header(FileId(0x0102), 3)), None);
        let bytes = encode([Entry::NONE, Entry::good(0x0403_0201), Entry::in_flux(5)].into_iter());
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 1, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(decode(&bytes), [Entry::NONE, Entry::good(0x0403_0201), Entry::in_flux(5)]);
        assert_eq!(place(2), 48);
        // CRC-32C of the id, the number and "123456789", computed elsewhere bit by bit.
        let mut crc = !0u32;
        for byte in [1u8, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0].iter().chain(b"123456789") {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            }
        }
        assert_eq!(sum(FileId(1), 2, b"123456789", 9), !crc);
    }

    #[test]
    fn an_entry_knows_its_block() {
        let (file, mut block) = (FileId(9), vec![0u8; 9000]);
        block[..3].copy_from_slice(b"abc");
        let right = sum(file, 4, &block, 9000);
        // What lies behind the end does not count.
        let mut dirty = block.clone();
        dirty[3..].fill(0xee);
        assert_eq!(sum(file, 4, &dirty, 3), right);

        assert_eq!(Entry::good(right).judge(file, 4, &block), Verdict::Good);
        assert_eq!(Entry::in_flux(right).judge(file, 4, &block), Verdict::GoodInFlux);
        assert_eq!(Entry::in_flux(right).judge(file, 4, &dirty), Verdict::Unverified);
        assert_eq!(Entry::NONE.judge(file, 4, &vec![0; 9000]), Verdict::Good);
        for damaged in [
            Entry::good(right).judge(file, 4, &dirty),
            Entry::good(right).judge(file, 5, &block),
            Entry::good(right).judge(FileId(8), 4, &block),
            Entry::NONE.judge(file, 4, &block),
            Entry { sum: right, state: 3 }.judge(file, 4, &block),
        ] {
            assert_eq!(damaged, Verdict::Damaged);
        }
    }
}
