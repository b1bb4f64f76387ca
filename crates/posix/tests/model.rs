//! Every strategy against a flat vector of bytes, on random views, memories, positions and buffer sizes.

mod fixture;

use fixture::*;
use pario_posix::{FileSystem, FsKind, Linux, PlainFile};
use pario_types::Pos;
use pario_types::{AccessTuning, Toggle};
use proptest::prelude::*;
use std::sync::Arc;

fn toggle() -> impl Strategy<Value = Toggle> {
    prop_oneof![Just(Toggle::Enable), Just(Toggle::Disable), Just(Toggle::Automatic)]
}

fn buffer_size() -> impl Strategy<Value = usize> {
    prop_oneof![Just(1usize), Just(16), 16usize..300, Just(4096), Just(1 << 20)]
}

fn tuning() -> impl Strategy<Value = AccessTuning> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (buffer_size(), buffer_size(), toggle(), toggle(), flags, 0u32..5).prop_map(
        |(read_buffer, write_buffer, sieve_read, sieve_write, (atomic, sole, peers_sieve), rank)| {
            AccessTuning {
                read_buffer,
                write_buffer,
                sieve_read,
                sieve_write,
                atomic,
                sole,
                peers_sieve,
                stagger: (rank, 5),
            }
        },
    )
}

/// A local or a remote file system's prices and windows, whatever the file really lies on.
fn kind() -> impl Strategy<Value = FsKind> {
    prop_oneof![Just(FsKind::Tmpfs), Just(FsKind::Ext4), Just(FsKind::Lustre)]
}

fn memory_layout() -> impl Strategy<Value = Layout> {
    let coarse = (1024u64..3000, 0u64..100).prop_map(|(len, gap)| strided(3, len, len + gap, 2));
    let contiguous = Just(Layout { pieces: vec![(0, 64)], extent: 64 });
    let spread = scrambled().prop_map(|mut layout| {
        // Memory must not overlap itself where it is written: whole tiles only.
        layout.extent = layout.pieces.iter().map(|p| p.0 + p.1 as i64).max().unwrap_or(1);
        layout
    });
    prop_oneof![contiguous, spread, coarse]
}

fn open_as(path: &TempPath, kind: FsKind) -> PlainFile {
    PlainFile::open_with(&path.0, &both(), Arc::new(Linux), Some(FileSystem::new(kind, 4096))).unwrap()
}

fn old_bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8 | 1).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn a_write_changes_its_own_bytes_and_no_other(
        layout in ascending(), disp in 0u64..100, at in 0u64..400, len in 0u64..3000, skip in 0u64..50,
        mem in memory_layout(), old in 0usize..6000, tune in tuning(), kind in kind(),
    ) {
        let before = old_bytes(old);
        let path = TempPath::with(&before);
        let mut memory = Memory::new(&mem, skip + len);
        memory.fill(|i| (i * 13 + 5) as u8);
        let file = open_as(&path, kind);
        let done = file.write(&layout.view(disp), Pos(at), &memory.buffer, skip, len, &tune).unwrap();
        prop_assert_eq!(done, len);
        let mut expected = before;
        for i in 0..len {
            let offset = disp as usize + layout.offset(at + i) as usize;
            expected.resize(expected.len().max(offset + 1), 0);
            expected[offset] = memory.get(skip + i);
        }
        prop_assert_eq!(path.bytes(), expected);
    }

    #[test]
    fn a_read_gets_the_leading_bytes_below_the_end(
        layout in prop_oneof![ascending(), scrambled()], disp in 0u64..100, at in 0u64..400,
        len in 0u64..3000, skip in 0u64..50, mem in memory_layout(), old in 0usize..9000,
        tune in tuning(), kind in kind(),
    ) {
        let before = old_bytes(old);
        let path = TempPath::with(&before);
        let memory = Memory::new(&mem, skip + len);
        let file = open_as(&path, kind);
        let done = file.read(&layout.view(disp), Pos(at), &memory.buffer, skip, len, &tune).unwrap();
        let offset = |i: u64| disp as usize + layout.offset(at + i) as usize;
        let visible = (0..len).take_while(|&i| offset(i) < old).count() as u64;
        prop_assert_eq!(done, visible);
        for i in 0..memory.buffer.len() {
            let inside = i >= skip && i < skip + visible;
            let expected = if inside { before[offset(i - skip)] } else { UNTOUCHED };
            prop_assert_eq!(memory.get(i), expected, "data byte {}", i);
        }
        prop_assert_eq!(path.bytes(), before);
    }

    #[test]
    fn writes_of_scrambled_views_keep_stream_order(
        layout in scrambled(), len in 1u64..500, tune in tuning(),
    ) {
        let path = TempPath::with(&old_bytes(300));
        let mut memory = whole(len);
        memory.fill(|i| (i % 255) as u8);
        let file = open(&path.0);
        file.write(&layout.view(0), Pos(0), &memory.buffer, 0, len, &tune).unwrap();
        let mut expected = old_bytes(300);
        for i in 0..len {
            let offset = layout.offset(i) as usize;
            expected.resize(expected.len().max(offset + 1), 0);
            expected[offset] = memory.get(i);
        }
        prop_assert_eq!(path.bytes(), expected);
    }
}

#[test]
fn holes_read_as_zeros_and_large_offsets_work() {
    let path = TempPath::with(&[]);
    let file = open(&path.0);
    let base = 5 << 30;
    let layout = strided(0, 8, 16, 4);
    let mut memory = whole(64);
    memory.fill(|i| i as u8 + 1);
    let view = layout.view(base);
    file.write(&view, Pos(0), &memory.buffer, 0, 64, &AccessTuning::default()).unwrap();
    assert_eq!(file.size().unwrap(), base + 7 * 16 + 8);
    let mut bytes = [9u8; 24];
    assert_eq!(file.read_bytes(pario_types::Offset(base + 8), &mut bytes).unwrap(), 24);
    assert_eq!(bytes[..8], [0; 8]);
    assert_eq!(bytes[8..16], [9, 10, 11, 12, 13, 14, 15, 16]);
}

#[test]
fn requests_beyond_any_file_or_memory_are_refused() {
    use pario_types::ErrorKind;
    let path = TempPath::with(b"x");
    let file = open(&path.0);
    let memory = whole(8);
    let view = strided(0, 1, 1 << 40, 1).view(0);
    let far = file.write(&view, Pos(1 << 40), &memory.buffer, 0, 8, &AccessTuning::default());
    assert_eq!(far.unwrap_err().kind(), ErrorKind::Arg);
    let long = file.read(&view, Pos(0), &memory.buffer, 4, 5, &AccessTuning::default());
    assert_eq!(long.unwrap_err().kind(), ErrorKind::Buffer);
    assert_eq!(path.bytes(), b"x");
}
