//! Conversion between the memory of the program and external32, the portable data representation of MPI.
//!
//! external32 is big-endian, with IEEE floating point, two's complement, no padding, and sizes fixed by the
//! standard (MPI-4 §14.5.2). A [`TypedStream`] iterates over a buffer whose pattern keeps its basic types.
//! [`encode`] and [`decode`] convert as many whole values as fit into the chunk of the caller and continue
//! from there at the next call. Integers of other sizes are widened or narrowed. A value that does not fit
//! is an error and is never truncated. The `long double` of x86 is converted to and from IEEE binary128.

use pario_view::{Basic, Cursor, Kind, Pattern};

pub use crate::error::Error;
use crate::float80;
use crate::user::UserBuffer;

/// A position in a typed buffer.
pub struct TypedStream<'a> {
    buffer: &'a UserBuffer,
    cursor: Cursor,
}

impl<'a> TypedStream<'a> {
    /// The values of a buffer, from the first on. Its pattern must come from [`Pattern::typed`].
    pub fn new(buffer: &'a UserBuffer) -> TypedStream<'a> {
        let cursor = buffer.cursor(0);
        TypedStream { buffer, cursor }
    }

    /// Whether all values have been converted.
    pub fn is_done(&self) -> bool {
        self.cursor.remaining() == 0
    }

    /// The bytes in memory of the remaining values.
    pub fn remaining(&self) -> u64 {
        self.cursor.remaining()
    }
}

/// The bytes of `count` instances of a typed pattern in external32.
pub fn external_size(typed: &Pattern, count: u64) -> Result<u64, Error> {
    let one = typed.external_size().map_err(|_| Error::TooLarge)?;
    one.checked_mul(count).filter(|&all| all <= i64::MAX as u64).ok_or(Error::TooLarge)
}

/// Writes the next values to `dst` and returns the bytes written. On return `dst` has no room for another
/// value, or the stream is done. After an error the position of the stream is undefined.
pub fn encode(stream: &mut TypedStream<'_>, dst: &mut [u8]) -> Result<usize, Error> {
    let mut done = 0;
    while let Some(values) = next_values(stream, dst.len() - done)? {
        for i in 0..values.pieces {
            let native = values.piece(stream, i);
            let len = values.external_len();
            // SAFETY: the creator of the buffer guarantees that the memory of the piece is valid.
            let native = unsafe { std::slice::from_raw_parts(native, values.native_len()) };
            to_external(&values, native, &mut dst[done..done + len])?;
            done += len;
        }
    }
    Ok(done)
}

/// Reads the next values from `src` and returns the bytes used. On return the rest of `src` is less than
/// one value, or the stream is done. After an error the position of the stream is undefined.
pub fn decode(stream: &mut TypedStream<'_>, src: &[u8]) -> Result<usize, Error> {
    let mut done = 0;
    while let Some(values) = next_values(stream, src.len() - done)? {
        for i in 0..values.pieces {
            let native = values.piece(stream, i);
            let len = values.external_len();
            // SAFETY: as in `encode`, and nothing else uses the buffer during a read into it.
            let native = unsafe { std::slice::from_raw_parts_mut(native, values.native_len()) };
            to_native(&values, &src[done..done + len], native)?;
            done += len;
        }
    }
    Ok(done)
}

/// The conversion of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The bytes do not change.
    Keep,
    /// The size does not change. The bytes are reversed on little-endian machines.
    Reverse,
    Signed,
    Unsigned,
    /// x87 in memory, binary128 in the file.
    Extended,
}

/// Pieces of equal values. A complex value counts as two.
struct Values {
    basic: Basic,
    change: Change,
    native: usize,
    external: usize,
    per_piece: usize,
    offset: i64,
    stride: i64,
    pieces: u64,
}

impl Values {
    fn native_len(&self) -> usize {
        self.native * self.per_piece
    }

    fn external_len(&self) -> usize {
        self.external * self.per_piece
    }

    fn piece(&self, stream: &TypedStream<'_>, i: u64) -> *mut u8 {
        stream.buffer.address(self.offset + i as i64 * self.stride)
    }
}

/// The next values that take at most `room` bytes in external32.
fn next_values(stream: &mut TypedStream<'_>, room: usize) -> Result<Option<Values>, Error> {
    let Some(basic) = stream.cursor.basic() else { return Ok(None) };
    let change = change_of(basic)?;
    let fit = room as u64 / u64::from(basic.external);
    let Some(run) = stream.cursor.next_run(fit.saturating_mul(u64::from(basic.native))) else {
        return Ok(None);
    };
    let halves = if basic.kind == Kind::Complex { 2 } else { 1 };
    let native = basic.native as usize / halves;
    Ok(Some(Values {
        basic,
        change,
        native,
        external: basic.external as usize / halves,
        per_piece: run.len as usize / native,
        offset: run.offset,
        stride: run.stride,
        pieces: run.count,
    }))
}

fn change_of(basic: Basic) -> Result<Change, Error> {
    let (native, external) = match basic.kind {
        Kind::Complex if !basic.native.is_multiple_of(2) || !basic.external.is_multiple_of(2) => {
            return Err(Error::Unsupported(basic));
        }
        Kind::Complex => (basic.native / 2, basic.external / 2),
        _ => (basic.native, basic.external),
    };
    let extended = cfg!(any(target_arch = "x86", target_arch = "x86_64")) && matches!(native, 12 | 16);
    match basic.kind {
        _ if native == 0 || external == 0 => Err(Error::Unsupported(basic)),
        Kind::Bytes if native == external => Ok(Change::Keep),
        Kind::Float | Kind::Complex if extended && external == 16 => Ok(Change::Extended),
        Kind::Float | Kind::Complex if native == external => Ok(Change::Reverse),
        Kind::Bytes | Kind::Float | Kind::Complex => Err(Error::Unsupported(basic)),
        _ if native == external && native == 1 => Ok(Change::Keep),
        _ if native == external => Ok(Change::Reverse),
        _ if native > 16 || external > 16 => Err(Error::Unsupported(basic)),
        Kind::Signed | Kind::Logical => Ok(Change::Signed),
        Kind::Unsigned | Kind::Character => Ok(Change::Unsigned),
    }
}

fn to_external(values: &Values, native: &[u8], external: &mut [u8]) -> Result<(), Error> {
    match values.change {
        Change::Keep => external.copy_from_slice(native),
        Change::Reverse => reverse(native, external, values.native),
        Change::Extended => {
            for (from, to) in native.chunks_exact(values.native).zip(external.chunks_exact_mut(16)) {
                let mut value = [0; 10];
                value.copy_from_slice(&from[..10]);
                to.copy_from_slice(&float80::to_quad(value).to_be_bytes());
            }
        }
        Change::Signed | Change::Unsigned => {
            let signed = values.change == Change::Signed;
            for (from, to) in
                native.chunks_exact(values.native).zip(external.chunks_exact_mut(values.external))
            {
                let wide = widen(from, signed, cfg!(target_endian = "big"));
                narrow(wide, to, signed, true).ok_or(Error::DoesNotFit(values.basic))?;
            }
        }
    }
    Ok(())
}

fn to_native(values: &Values, external: &[u8], native: &mut [u8]) -> Result<(), Error> {
    match values.change {
        Change::Keep => native.copy_from_slice(external),
        Change::Reverse => reverse(external, native, values.native),
        Change::Extended => {
            for (from, to) in external.chunks_exact(16).zip(native.chunks_exact_mut(values.native)) {
                let mut bits = [0; 16];
                bits.copy_from_slice(from);
                to[..10].copy_from_slice(&float80::from_quad(u128::from_be_bytes(bits)));
                to[10..].fill(0);
            }
        }
        Change::Signed | Change::Unsigned => {
            let signed = values.change == Change::Signed;
            for (from, to) in
                external.chunks_exact(values.external).zip(native.chunks_exact_mut(values.native))
            {
                let wide = widen(from, signed, true);
                narrow(wide, to, signed, cfg!(target_endian = "big"))
                    .ok_or(Error::DoesNotFit(values.basic))?;
            }
        }
    }
    Ok(())
}

/// Converts between the byte order of this machine and big-endian.
fn reverse(from: &[u8], to: &mut [u8], size: usize) {
    if cfg!(target_endian = "big") {
        return to.copy_from_slice(from);
    }
    match size {
        2 => reverse_fixed::<2>(from, to),
        4 => reverse_fixed::<4>(from, to),
        8 => reverse_fixed::<8>(from, to),
        _ => {
            for (a, b) in from.chunks_exact(size).zip(to.chunks_exact_mut(size)) {
                b.iter_mut().zip(a.iter().rev()).for_each(|(b, a)| *b = *a);
            }
        }
    }
}

fn reverse_fixed<const N: usize>(from: &[u8], to: &mut [u8]) {
    for (a, b) in from.as_chunks::<N>().0.iter().zip(to.as_chunks_mut::<N>().0) {
        *b = *a;
        b.reverse();
    }
}

/// Widens an integer of up to 16 bytes to 128 bits, two's complement.
fn widen(bytes: &[u8], signed: bool, big_endian: bool) -> u128 {
    let n = bytes.len();
    let top = if big_endian { bytes[0] } else { bytes[n - 1] };
    let fill = if signed && top >= 0x80 { 0xff } else { 0 };
    let mut wide = [fill; 16];
    if big_endian {
        wide[16 - n..].copy_from_slice(bytes);
        u128::from_be_bytes(wide)
    } else {
        wide[..n].copy_from_slice(bytes);
        u128::from_le_bytes(wide)
    }
}

/// Narrows an integer. Returns `None` if it does not fit.
fn narrow(wide: u128, out: &mut [u8], signed: bool, big_endian: bool) -> Option<()> {
    let n = out.len();
    if big_endian {
        out.copy_from_slice(&wide.to_be_bytes()[16 - n..]);
    } else {
        out.copy_from_slice(&wide.to_le_bytes()[..n]);
    }
    (widen(out, signed, big_endian) == wide).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_view::{Datatype, Shape};
    use std::sync::Arc;

    const LONG: Basic = Basic { kind: Kind::Signed, native: 8, external: 4 };
    const DOUBLE: Basic = Basic { kind: Kind::Float, native: 8, external: 8 };
    const LONG_DOUBLE: Basic = Basic { kind: Kind::Float, native: 16, external: 16 };
    const WIDE: Basic = Basic { kind: Kind::Character, native: 4, external: 2 };

    fn buffer<T>(data: &mut [T], basic: Basic) -> UserBuffer {
        let typed = Pattern::typed(&Datatype::basic(basic)).unwrap();
        let count = std::mem::size_of_val(data) as u64 / u64::from(basic.native);
        // SAFETY: the slice outlives the buffer in every test below.
        unsafe { UserBuffer::new(data.as_mut_ptr().cast(), typed, count) }
    }

    #[test]
    fn known_byte_strings() {
        let mut out = [0; 64];
        let mut longs = [1i64, -2, 0x0102_0304];
        let memory = buffer(&mut longs, LONG);
        let mut stream = TypedStream::new(&memory);
        assert_eq!(encode(&mut stream, &mut out), Ok(12));
        assert_eq!(&out[..12], b"\x00\x00\x00\x01\xff\xff\xff\xfe\x01\x02\x03\x04");
        assert!(stream.is_done());

        let mut doubles = [1.5f64, -0.0];
        assert_eq!(encode(&mut TypedStream::new(&buffer(&mut doubles, DOUBLE)), &mut out), Ok(16));
        assert_eq!(&out[..16], b"\x3f\xf8\0\0\0\0\0\0\x80\0\0\0\0\0\0\0");

        let mut chars = ['A' as u32, 0xfffe];
        assert_eq!(encode(&mut TypedStream::new(&buffer(&mut chars, WIDE)), &mut out), Ok(4));
        assert_eq!(&out[..4], b"\0A\xff\xfe");
    }

    #[test]
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    fn long_double_is_binary128_in_the_file() {
        let mut value = [0u8; 16];
        value[7..10].copy_from_slice(&[0xc0, 0x00, 0xc0]); // -3
        let mut out = [0; 16];
        assert_eq!(encode(&mut TypedStream::new(&buffer(&mut value, LONG_DOUBLE)), &mut out), Ok(16));
        assert_eq!(out, *b"\xc0\x00\x80\0\0\0\0\0\0\0\0\0\0\0\0\0");
        let mut back = [0xffu8; 16];
        assert_eq!(decode(&mut TypedStream::new(&buffer(&mut back, LONG_DOUBLE)), &out), Ok(16));
        assert_eq!(back, value);
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        let mut out = [0; 64];
        for bad in [i64::from(i32::MAX) + 1, i64::from(i32::MIN) - 1] {
            let mut data = [bad];
            let result = encode(&mut TypedStream::new(&buffer(&mut data, LONG)), &mut out);
            assert_eq!(result, Err(Error::DoesNotFit(LONG)));
        }
        let mut data = [0x1_0000u32];
        let result = encode(&mut TypedStream::new(&buffer(&mut data, WIDE)), &mut out);
        assert_eq!(result, Err(Error::DoesNotFit(WIDE)));
        let odd = Basic { kind: Kind::Float, native: 8, external: 4 };
        let mut data = [0f64];
        let result = encode(&mut TypedStream::new(&buffer(&mut data, odd)), &mut out);
        assert_eq!(result, Err(Error::Unsupported(odd)));
    }

    #[test]
    fn chunks_hold_whole_values_and_streams_resume() {
        let mut data: Vec<i64> = (0..100).map(|i| i * 1_000_003 - 7).collect();
        let child = Arc::new(Datatype::basic(LONG));
        let shape = Shape::Vector { count: 25, blocklen: 3, stride: 4, child };
        let typed = Pattern::typed(&Datatype { lb: 0, extent: 99 * 8, shape }).unwrap();
        assert_eq!(external_size(&typed, 1), Ok(300));
        // SAFETY: the vector outlives the buffer.
        let user = unsafe { UserBuffer::new(data.as_mut_ptr().cast(), typed.clone(), 1) };
        let mut stream = TypedStream::new(&user);
        let mut file = Vec::new();
        let mut chunk = [0; 7 * 4 + 3];
        while !stream.is_done() {
            let n = encode(&mut stream, &mut chunk).unwrap();
            assert!(n.is_multiple_of(4) && n > 0);
            file.extend_from_slice(&chunk[..n]);
        }
        assert_eq!(file.len(), 300);
        let mut back = vec![0i64; 100];
        // SAFETY: the vector outlives the buffer.
        let user = unsafe { UserBuffer::new(back.as_mut_ptr().cast(), typed, 1) };
        let mut stream = TypedStream::new(&user);
        let mut at = 0;
        while !stream.is_done() {
            let end = (at + 33).min(file.len());
            at += decode(&mut stream, &file[at..end]).unwrap();
        }
        for i in 0..100 {
            assert_eq!(back[i], if i % 4 < 3 { data[i] } else { 0 });
        }
    }
}
