//! Copies between user memory, contiguous buffers and file windows, against the flat model.

use pario_buffer::UserBuffer;
use pario_buffer::convert::{TypedStream, decode, encode, external_size};
use pario_reference_model::{FlatView, Representation, arb_datatype, arb_file_type, expand};
use pario_types::{Offset, Pos};
use pario_view::{Cursor, Datatype, Pattern, View};
use proptest::prelude::*;

/// Memory around a type's origin, and the offsets of its data bytes in that memory.
struct Memory {
    bytes: Vec<u8>,
    origin: usize,
    data: Vec<usize>,
}

impl Memory {
    fn new(t: &Datatype, count: u64) -> Memory {
        let map = expand(t, Representation::Native);
        let one = map.bytes();
        let all: Vec<i64> =
            (0..count as i64).flat_map(|i| one.iter().map(move |b| b + i * t.extent)).collect();
        let low = all.iter().copied().min().unwrap_or(0).min(0);
        let high = all.iter().copied().max().unwrap_or(0).max(0) + 1;
        let bytes = (0..(high - low) as usize).map(|i| (i * 37 + 11) as u8).collect();
        Memory { bytes, origin: -low as usize, data: all.iter().map(|b| (b - low) as usize).collect() }
    }

    fn buffer(&mut self, pattern: &Pattern, count: u64) -> UserBuffer {
        // SAFETY: `bytes` covers every data byte and outlives the buffer in each test.
        unsafe { UserBuffer::new(self.bytes.as_mut_ptr().add(self.origin), pattern.clone(), count) }
    }

    /// The data stream.
    fn stream(&self) -> Vec<u8> {
        self.data.iter().map(|&i| self.bytes[i]).collect()
    }
}

fn range(len: u64, a: u64, b: u64) -> (u64, u64) {
    let (a, b) = (a % (len + 1), b % (len + 1));
    (a.min(b), a.max(b) - a.min(b))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pack_and_unpack_move_the_stream(t in arb_datatype(), count in 0..4u64, a in 0..5000u64, b in 0..5000u64) {
        let pattern = Pattern::native(&t).unwrap();
        let mut memory = Memory::new(&t, count);
        let buffer = memory.buffer(&pattern, count);
        prop_assert_eq!(buffer.len(), memory.data.len() as u64);
        let (at, len) = range(buffer.len(), a, b);
        let mut packed = vec![0; len as usize];
        buffer.pack(at, &mut packed);
        prop_assert_eq!(&packed, &memory.stream()[at as usize..][..len as usize]);

        let fresh: Vec<u8> = (0..len).map(|i| (i * 13 + 5) as u8).collect();
        let mut want = memory.bytes.clone();
        for (i, byte) in fresh.iter().enumerate() {
            want[memory.data[at as usize + i]] = *byte;
        }
        buffer.unpack(at, &fresh);
        prop_assert_eq!(&memory.bytes, &want);
    }

    #[test]
    fn segments_are_the_stream(t in arb_datatype(), a in 0..5000u64, b in 0..5000u64, max in 0..20usize) {
        let pattern = Pattern::native(&t).unwrap();
        let mut memory = Memory::new(&t, 2);
        let buffer = memory.buffer(&pattern, 2);
        let (at, len) = range(buffer.len(), a, b);
        let mut segments = Vec::new();
        let got = buffer.iovecs(at, len, max, &mut segments);
        prop_assert!(segments.len() <= max && got <= len);
        prop_assert!(got == len || segments.len() == max);
        let base = memory.bytes.as_ptr() as usize;
        let places: Vec<usize> =
            segments.iter().flat_map(|s| (0..s.len).map(move |i| s.base as usize - base + i)).collect();
        prop_assert_eq!(&places, &memory.data[at as usize..][..got as usize]);
        if let Some((address, all)) = buffer.as_contiguous() && all > 0 {
            prop_assert_eq!(address as usize - base, memory.data[0]);
        }
    }

    #[test]
    fn windows_are_written_and_read_through_views(
        t in arb_datatype(), f in arb_file_type(), pos in 0..200u64, a in 0..5000u64, b in 0..5000u64,
    ) {
        let pattern = Pattern::native(&t).unwrap();
        let mut memory = Memory::new(&t, 3);
        let buffer = memory.buffer(&pattern, 3);
        let (view, flat) = (View::new(Offset(7), Pattern::native(&f).unwrap()), FlatView::new(7, &f));
        let (at, len) = range(buffer.len(), a, b);
        let Some((low, high)) = view.bounds(Pos(pos), len) else { return Ok(()) };

        let mut window = vec![0xEE; (high.0 - low.0) as usize];
        buffer.scatter(at, len, &mut view.cursor(Pos(pos), len), &mut window, low);
        let mut file = vec![0xEE; high.0 as usize];
        flat.write(&mut file, pos, &memory.stream()[at as usize..][..len as usize]);
        prop_assert_eq!(&window, &file[low.0 as usize..]);

        let noise: Vec<u8> = (0..window.len()).map(|i| (i * 7 + 3) as u8).collect();
        file[low.0 as usize..].copy_from_slice(&noise);
        let data = flat.read(&file, pos, len);
        let mut want = memory.bytes.clone();
        for (i, byte) in data.iter().enumerate() {
            want[memory.data[at as usize + i]] = *byte;
        }
        buffer.gather(at, len, &mut view.cursor(Pos(pos), len), &noise, low);
        prop_assert_eq!(&memory.bytes, &want);
    }

    #[test]
    fn external32_comes_back(t in arb_datatype(), chunk in 32..200usize) {
        let typed = Pattern::typed(&t).unwrap();
        let mut memory = Memory::new(&t, 2);
        tame(&t, &mut memory);
        let buffer = memory.buffer(&typed, 2);
        if typed.has_overlap() || Cursor::over(&typed, 2, 0).remaining() != memory.data.len() as u64 {
            return Ok(());
        }
        let before = memory.bytes.clone();
        let mut file = Vec::new();
        let mut stream = TypedStream::new(&buffer);
        let mut piece = vec![0; chunk];
        while !stream.is_done() {
            let n = encode(&mut stream, &mut piece).unwrap();
            prop_assert!(n > 0);
            file.extend_from_slice(&piece[..n]);
        }
        prop_assert_eq!(external_size(&typed, 2), Ok(file.len() as u64));
        for &i in &memory.data {
            memory.bytes[i] = 0;
        }
        let mut stream = TypedStream::new(&buffer);
        let mut at = 0;
        while !stream.is_done() {
            let end = (at + chunk).min(file.len());
            at += decode(&mut stream, &file[at..end]).unwrap();
        }
        prop_assert_eq!(at, file.len());
        prop_assert_eq!(&memory.bytes, &before);
    }
}

/// Gives every value bytes that exist in both representations: zeros where a longer integer or the padding of
/// an extended float would not come back.
fn tame(t: &Datatype, memory: &mut Memory) {
    let map = expand(t, Representation::Native);
    for i in 0..2 {
        for &(disp, basic, len) in &map.entries {
            if basic.native > basic.external || basic.native == 16 {
                let at = (disp + i * t.extent + memory.origin as i64) as usize;
                memory.bytes[at..at + len as usize].fill(0);
            }
        }
    }
}
