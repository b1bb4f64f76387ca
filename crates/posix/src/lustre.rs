//! Lustre's description of a file's layout, read and written byte by byte, so that no library of Lustre is
//! needed.
//!
//! Simple layout (`lov_user_md_v1`; `v3` has a pool's name after it), 32 bytes, then a list of objects:
//!
//! | byte | size | |
//! |---|---|---|
//! | 0 | 4 | magic |
//! | 4 | 4 | pattern: 1 striped, 0x100 in the metadata server |
//! | 8 | 16 | the file's own id; zeros in a request |
//! | 24 | 4 | bytes per stripe; 0: the default; a multiple of 64 KiB |
//! | 28 | 2 | stripes; 0: the default, 0xFFFF: all servers |
//! | 30 | 2 | in a request the first server's number, 0xFFFF: any |
//!
//! Composite layout (`lov_comp_md_v1`): different parts of a file are laid out differently. A head of 32
//! bytes (0: magic, 14: number of entries in 2 bytes), then the entries, 48 bytes each, in the order of
//! their parts of the file, mirror by mirror:
//!
//! | byte | size | |
//! |---|---|---|
//! | 0 | 4 | id, with the mirror's number in bits 16 to 30 |
//! | 4 | 4 | flags: 0x2 stale, 0x40 room to extend, 0x80 parity |
//! | 8 | 8 + 8 | start and end of the part |
//! | 24 | 4 + 4 | where in the whole its simple layout stands, and the length of that |

use crate::striping::{FsStriping, StripingRequest};

/// Flags for opening a new file whose layout will be set before it gets objects: a combination that means
/// nothing else for files (`O_LOV_DELAY_CREATE`, in its old and its new form).
pub(crate) const DELAY_CREATE: i32 = 0o100000000 | libc::O_NOCTTY | libc::O_ASYNC;

/// The attribute that holds a file's layout.
pub(crate) const LAYOUT: &std::ffi::CStr = c"lustre.lov";

/// More bytes than any layout has: the most that Linux allows for an attribute.
pub(crate) const LARGEST_LAYOUT: usize = 64 << 10;

const MAGIC_V1: u32 = 0x0BD1_0BD0;
const MAGIC_V3: u32 = 0x0BD3_0BD0;
const MAGIC_SPECIFIC: u32 = 0x0BD5_0BD0;
const MAGIC_COMPOSITE: u32 = 0x0BD6_0BD0;

const STRIPED: u32 = 1;
const ALL: u16 = 0xFFFF;
const ANY: u16 = 0xFFFF;

const STRIPE_GRAIN: u64 = 64 << 10;
const HEAD: usize = 32;
const ENTRY: usize = 48;
const UNUSABLE: u32 = 0x2 | 0x40 | 0x80;

/// The layout to ask for. The stripe is rounded up to the next that Lustre takes.
pub(crate) fn request(wanted: &StripingRequest) -> [u8; HEAD] {
    let largest = u64::from(u32::MAX) / STRIPE_GRAIN * STRIPE_GRAIN;
    let unit = wanted.unit.map_or(0, |unit| unit.min(largest).next_multiple_of(STRIPE_GRAIN)) as u32;
    let count = wanted.count.map_or(0, |count| u16::try_from(count).unwrap_or(ALL));
    let first = wanted.first.map_or(ANY, |first| u16::try_from(first).unwrap_or(ANY));
    let mut layout = [0; HEAD];
    // This structure is in the byte order of the host.
    layout[0..4].copy_from_slice(&MAGIC_V1.to_ne_bytes());
    layout[4..8].copy_from_slice(&STRIPED.to_ne_bytes());
    layout[24..28].copy_from_slice(&unit.to_ne_bytes());
    layout[28..30].copy_from_slice(&count.to_ne_bytes());
    layout[30..32].copy_from_slice(&first.to_ne_bytes());
    layout
}

/// The striping of a layout. A composite layout has that of its widest component, usually the last one, which has no end;
/// where a file is large enough for its striping to matter, most of it lies there.
pub(crate) fn striping(layout: &[u8]) -> Option<FsStriping> {
    match u32_at(layout, 0)? {
        MAGIC_V1 | MAGIC_V3 | MAGIC_SPECIFIC => simple(layout),
        MAGIC_COMPOSITE => composite(layout),
        _ => None,
    }
}

fn simple(layout: &[u8]) -> Option<FsStriping> {
    // Flags (a released file, for one) stand in the upper half of the pattern; files in the metadata server
    // and foreign ones are not striped.
    let pattern = u32_at(layout, 4)? & 0xFFFF;
    let (unit, count) = (u32_at(layout, 24)?, u16_at(layout, 28)?);
    let count = (count != 0 && count != ALL).then_some(u32::from(count));
    (pattern <= STRIPED && unit > 0).then_some(FsStriping { unit: u64::from(unit), count })
}

fn composite(layout: &[u8]) -> Option<FsStriping> {
    let entries = usize::from(u16_at(layout, 14)?);
    let mut widest = None;
    for entry in layout.get(HEAD..)?.chunks_exact(ENTRY).take(entries) {
        let Some((width, striping)) = part(layout, entry) else { continue };
        if widest.is_none_or(|(most, _)| width > most) {
            widest = Some((width, striping));
        }
    }
    widest.map(|(_, striping)| striping)
}

/// The width of a composite layout's part and its striping, if it has one.
fn part(layout: &[u8], entry: &[u8]) -> Option<(u64, FsStriping)> {
    if u32_at(entry, 4)? & UNUSABLE != 0 {
        return None;
    }
    let width = u64_at(entry, 16)?.checked_sub(u64_at(entry, 8)?)?;
    let (from, len) = (u32_at(entry, 24)? as usize, u32_at(entry, 28)? as usize);
    let inner = layout.get(from..from.checked_add(len)?)?;
    match u32_at(inner, 0)? {
        MAGIC_V1 | MAGIC_V3 | MAGIC_SPECIFIC => Some((width, simple(inner)?)),
        _ => None,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout(magic: u32, pattern: u32, unit: u32, count: u16) -> Vec<u8> {
        let mut bytes = vec![0; HEAD];
        bytes[0..4].copy_from_slice(&magic.to_le_bytes());
        bytes[4..8].copy_from_slice(&pattern.to_le_bytes());
        bytes[24..28].copy_from_slice(&unit.to_le_bytes());
        bytes[28..30].copy_from_slice(&count.to_le_bytes());
        bytes
    }

    /// A composite layout of parts: start, end, flags, simple layout.
    fn parts(list: &[(u64, u64, u32, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = vec![0; HEAD + ENTRY * list.len()];
        bytes[0..4].copy_from_slice(&MAGIC_COMPOSITE.to_le_bytes());
        bytes[14..16].copy_from_slice(&(list.len() as u16).to_le_bytes());
        for (i, (start, end, flags, inner)) in list.iter().enumerate() {
            let (at, from) = (HEAD + i * ENTRY, bytes.len() as u32);
            bytes[at + 4..at + 8].copy_from_slice(&flags.to_le_bytes());
            bytes[at + 8..at + 16].copy_from_slice(&start.to_le_bytes());
            bytes[at + 16..at + 24].copy_from_slice(&end.to_le_bytes());
            bytes[at + 24..at + 28].copy_from_slice(&from.to_le_bytes());
            bytes[at + 28..at + 32].copy_from_slice(&(inner.len() as u32).to_le_bytes());
            bytes.extend(inner);
        }
        bytes
    }

    fn known(unit: u64, count: u32) -> Option<FsStriping> {
        Some(FsStriping { unit, count: Some(count) })
    }

    #[test]
    fn simple_layouts_of_both_versions_are_read() {
        assert_eq!(striping(&layout(MAGIC_V1, 1, 1 << 20, 4)), known(1 << 20, 4));
        let mut v3 = layout(MAGIC_V3, 0x8000_0001, 65536, 12);
        v3.extend([0; 16 + 12 * 24]);
        assert_eq!(striping(&v3), known(65536, 12));
        let all = Some(FsStriping { unit: 65536, count: None });
        assert_eq!(striping(&layout(MAGIC_V1, 1, 65536, ALL)), all);
    }

    #[test]
    fn files_without_stripes_have_no_striping() {
        assert_eq!(striping(&[]), None);
        assert_eq!(striping(&layout(0x0BD7_0BD0, 1, 65536, 1)), None);
        assert_eq!(striping(&layout(MAGIC_V1, 0x100, 65536, 0)), None);
        assert_eq!(striping(&layout(MAGIC_V1, 1, 0, 1)), None);
    }

    #[test]
    fn a_composite_layout_counts_as_its_widest_striped_component() {
        let growing = [
            (0, 1 << 20, 0x10, layout(MAGIC_V1, 0x100, 1 << 20, 0)),
            (1 << 20, 1 << 30, 0x10, layout(MAGIC_V1, 1, 1 << 20, 4)),
            (1 << 30, u64::MAX, 0, layout(MAGIC_V3, 1, 4 << 20, 64)),
        ];
        assert_eq!(striping(&parts(&growing)), known(4 << 20, 64));
        assert_eq!(striping(&parts(&growing[..2])), known(1 << 20, 4));
        assert_eq!(striping(&parts(&growing[..1])), None);
        let mirrors =
            [(0, u64::MAX, 0x2, layout(MAGIC_V1, 1, 65536, 2)), (0, 9, 0, layout(MAGIC_V1, 1, 65536, 3))];
        assert_eq!(striping(&parts(&mirrors)), known(65536, 3), "a stale mirror does not count");
    }

    #[test]
    fn a_requested_striping_is_rounded_to_what_lustre_accepts() {
        let read_back = |unit, count| {
            striping(&request(&StripingRequest { unit: Some(unit), count: Some(count), first: None }))
        };
        assert_eq!(read_back(65536, 4), known(65536, 4));
        assert_eq!(read_back(100_000, 1), known(131_072, 1));
        assert_eq!(read_back(1, 1), known(65536, 1));
        assert_eq!(read_back(u64::MAX, 1), known((4 << 30) - 65536, 1));
        assert_eq!(read_back(65536, u32::MAX), Some(FsStriping { unit: 65536, count: None }));
        let nothing = request(&StripingRequest::default());
        assert_eq!(nothing[4..30], [&[1][..], &[0; 25]].concat());
        assert_eq!(nothing[30..], [0xFF, 0xFF]);
        let first = request(&StripingRequest { first: Some(7), ..StripingRequest::default() });
        assert_eq!(first[30..], 7u16.to_ne_bytes());
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_a_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200), composite in any::<bool>(),
        ) {
            if let Some(magic) = bytes.get_mut(..4) {
                magic.copy_from_slice(&if composite { MAGIC_COMPOSITE } else { MAGIC_V1 }.to_le_bytes());
            }
            let _ = striping(&bytes);
        }

        #[test]
        fn a_truncated_layout_is_never_misread(cut in 0usize..200) {
            let whole = parts(&[
                (0, 10, 0, layout(MAGIC_V1, 1, 65536, 2)),
                (10, 100, 0, layout(MAGIC_V1, 1, 131_072, 3)),
            ]);
            let found = striping(&whole[..cut.min(whole.len())]);
            prop_assert!([None, known(65536, 2), known(131_072, 3)].contains(&found));
        }
    }
}
