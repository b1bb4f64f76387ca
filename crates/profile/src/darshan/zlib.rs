//! zlib streams (RFC 1950): any are read, and those that are written consist of stored blocks, so that their size is
//! known before what is in them. (flate2 does not promise the size of its stored blocks.)

use flate2::{Decompress, FlushDecompress, Status};
use std::io::{self, BufRead, Read, Write};

/// Decompresses consecutive streams.
pub struct Unpacked<R> {
    input: R,
    state: Decompress,
    in_stream: bool,
}

impl<R: BufRead> Unpacked<R> {
    pub fn new(input: R) -> Unpacked<R> {
        Unpacked { input, state: Decompress::new(true), in_stream: false }
    }
}

impl<R: BufRead> Read for Unpacked<R> {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        if output.is_empty() {
            return Ok(0);
        }
        loop {
            let input = self.input.fill_buf()?;
            let is_end = input.is_empty();
            if is_end && !self.in_stream {
                return Ok(0);
            }
            let (read, written) = (self.state.total_in(), self.state.total_out());
            let status = self.state.decompress(input, output, FlushDecompress::None);
            let consumed = (self.state.total_in() - read) as usize;
            let produced = (self.state.total_out() - written) as usize;
            self.input.consume(consumed);
            self.in_stream |= consumed > 0;
            match status {
                Ok(Status::StreamEnd) => {
                    self.state.reset(true);
                    self.in_stream = false;
                }
                Ok(_) if consumed > 0 || produced > 0 => {}
                Ok(_) if is_end => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
            if produced > 0 {
                return Ok(produced);
            }
        }
    }
}

/// Bytes of a stored block, at most.
const BLOCK: u64 = 65_535;

/// The size of a zlib stream of stored blocks for so many bytes: two bytes, five for each block, and a sum of four.
pub fn stored_size(bytes: u64) -> u64 {
    2 + 5 * bytes.div_ceil(BLOCK).max(1) + bytes + 4
}

/// A zlib stream of stored blocks, of known size, being written.
pub struct Stored<W: Write> {
    output: W,
    /// Bytes still to come, and how many of them in the current block.
    left: u64,
    in_block: u64,
    /// The two halves of Adler's sum.
    sum: (u32, u32),
}

impl<W: Write> Stored<W> {
    pub fn new(mut output: W, bytes: u64) -> io::Result<Stored<W>> {
        output.write_all(&[0x78, 0x01])?;
        let mut stored = Stored { output, left: bytes, in_block: 0, sum: (1, 0) };
        if bytes == 0 {
            stored.begin_block()?;
        }
        Ok(stored)
    }

    fn begin_block(&mut self) -> io::Result<()> {
        self.in_block = self.left.min(BLOCK);
        let size = self.in_block as u16;
        self.output.write_all(&[u8::from(self.left <= BLOCK)])?;
        self.output.write_all(&size.to_le_bytes())?;
        self.output.write_all(&(!size).to_le_bytes())
    }

    pub fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        assert!(bytes.len() as u64 <= self.left, "the size was said before");
        while !bytes.is_empty() {
            if self.in_block == 0 {
                self.begin_block()?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(self.in_block as usize));
            self.output.write_all(now)?;
            for &byte in now {
                self.sum.0 = (self.sum.0 + u32::from(byte)) % 65_521;
                self.sum.1 = (self.sum.1 + self.sum.0) % 65_521;
            }
            self.left -= now.len() as u64;
            self.in_block -= now.len() as u64;
            bytes = later;
        }
        Ok(())
    }

    pub fn finish(mut self) -> io::Result<()> {
        assert_eq!(self.left, 0, "the size was said before");
        self.output.write_all(&(self.sum.1 << 16 | self.sum.0).to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::ZlibEncoder};
    use proptest::prelude::*;
    use std::io::BufReader;

    fn compress(data: &[u8], level: u8) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(level.into()));
        encoder.write_all(data).expect("memory takes it");
        encoder.finish().expect("memory takes it")
    }

    /// Decodes a zlib stream of stored blocks; everything is checked.
    fn unpacked(stream: &[u8]) -> Vec<u8> {
        assert_eq!(
            u16::from_be_bytes([stream[0], stream[1]]) % 31,
            0,
            "the first bytes have a check of their own"
        );
        let (mut at, mut all) = (2, Vec::new());
        loop {
            let size = u16::from_le_bytes([stream[at + 1], stream[at + 2]]);
            assert_eq!(!size, u16::from_le_bytes([stream[at + 3], stream[at + 4]]));
            all.extend(&stream[at + 5..][..usize::from(size)]);
            let is_last = stream[at] == 1;
            at += 5 + usize::from(size);
            if is_last {
                break;
            }
        }
        let (mut a, mut b) = (1u64, 0u64);
        for &byte in &all {
            a += u64::from(byte);
            b += a;
        }
        let sum = ((b % 65_521) << 16) | (a % 65_521);
        assert_eq!(stream[at..], (sum as u32).to_be_bytes());
        all
    }

    #[test]
    fn streams_of_any_size_are_whole() {
        for size in [0, 1, 65_534, 65_535, 65_536, 131_070, 131_071] {
            let data: Vec<u8> = (0..size).map(|at| (at * 31 % 251) as u8).collect();
            let mut bytes = Vec::new();
            let mut stored = Stored::new(&mut bytes, size as u64).expect("memory takes it");
            data.chunks(1000).for_each(|part| stored.write(part).expect("memory takes it"));
            stored.finish().expect("memory takes it");
            assert_eq!(bytes.len() as u64, stored_size(size as u64));
            assert_eq!(unpacked(&bytes), data);
        }
    }

    proptest! {
        /// However the streams are cut into pieces, on both sides.
        #[test]
        fn streams_that_follow_each_other_are_unpacked(
            parts in prop::collection::vec((prop::collection::vec(0u8..4, 0..3000), 0u8..10), 1..5),
            input in 1usize..200,
            output in 1usize..200,
        ) {
            let packed: Vec<u8> = parts.iter().flat_map(|(part, level)| compress(part, *level)).collect();
            let wanted: Vec<u8> = parts.into_iter().flat_map(|(part, _)| part).collect();
            let mut unpacked = Unpacked::new(BufReader::with_capacity(input, &packed[..]));
            let (mut seen, mut part) = (Vec::<u8>::new(), vec![0; output]);
            loop {
                let count = unpacked.read(&mut part).expect("good streams");
                if count == 0 {
                    break;
                }
                seen.extend(&part[..count]);
            }
            prop_assert_eq!(seen, wanted);
        }

        #[test]
        fn damage_is_no_panic_and_no_success(
            data in prop::collection::vec(any::<u8>(), 1..3000), place in any::<prop::sample::Index>(), cut in any::<bool>(),
        ) {
            let mut packed = compress(&data, 6);
            let place = place.index(packed.len());
            if cut {
                packed.truncate(place);
            } else {
                packed[place] ^= 0x10;
            }
            let mut seen = Vec::new();
            let read = Unpacked::new(&packed[..]).read_to_end(&mut seen);
            // Nothing at all is a good region, which is empty. The bits that fill up a byte before stored bytes mean nothing.
            let harmless = if cut { packed.is_empty() } else { seen == data };
            prop_assert!(read.is_err() || harmless, "{} bytes", seen.len());
        }
    }
}
