//! Reading, writing and clearing bytes of an open file in full, however many operations that takes.

use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;

use crate::MediumFile;

/// Reads buffers one after the other, zeros beyond the end; returns the number of bytes in the file.
pub fn fill(file: &dyn MediumFile, mut at: u64, pieces: &mut [&mut [u8]]) -> io::Result<u64> {
    let start = at;
    let mut pieces: Vec<_> = pieces.iter_mut().map(|piece| IoSliceMut::new(piece)).collect();
    let mut rest = pieces.as_mut_slice();
    while !rest.is_empty() {
        let got = file.read_at(rest, at)?;
        if got == 0 {
            rest.iter_mut().for_each(|piece| piece.fill(0));
            break;
        }
        IoSliceMut::advance_slices(&mut rest, got);
        at += got as u64;
    }
    Ok(at - start)
}

/// Writes buffers one after the other.
pub fn put(file: &dyn MediumFile, mut at: u64, pieces: &[&[u8]]) -> io::Result<()> {
    let mut left: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut pieces: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
    let mut rest = pieces.as_mut_slice();
    while left > 0 {
        let done = file.write_at(rest, at)?;
        if done == 0 {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        IoSlice::advance_slices(&mut rest, done);
        (at, left) = (at + done as u64, left - done);
    }
    Ok(())
}

/// Replaces bytes by zeros, which take no space where the file system supports that.
pub fn clear(file: &dyn MediumFile, range: Range<u64>) -> io::Result<()> {
    if range.is_empty() || file.punch(range.start, range.end - range.start)? {
        return Ok(());
    }
    overwrite(file, range)
}

/// Writes zeros over existing bytes.
fn overwrite(file: &dyn MediumFile, range: Range<u64>) -> io::Result<()> {
    let zeros = [0; 64 << 10];
    let end = range.end.min(file.stats()?.len);
    let mut at = range.start;
    while at < end {
        // A file system that does not report holes has none.
        at = match file.next_data(at) {
            Ok(next) => next.unwrap_or(end),
            Err(_) => at,
        };
        let some = end.saturating_sub(at).min(zeros.len() as u64);
        put(file, at, &[&zeros[..some as usize]])?;
        at += some;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Medium, OpenMode, SimulatedMedium};
    use std::path::Path;

    fn file(len: usize) -> Box<dyn MediumFile> {
        let file = SimulatedMedium::new(1).open(Path::new("/file"), OpenMode::New).expect("nothing fails");
        put(&*file, 0, &[&vec![7; len]]).expect("room");
        file
    }

    #[test]
    fn cleared_bytes_are_zeros_and_all_others_stay() {
        for clear in [clear, overwrite] {
            let file = file(300_000);
            file.set_len(400_000).expect("holes take no room");
            for range in [10..20, 4096..204_800, 299_999..300_005, 390_000..900_000, 5..5] {
                clear(&*file, range).expect("it can be written");
            }
            assert_eq!(file.stats().expect("open").len, 400_000);
            let mut found = vec![1; 400_000];
            fill(&*file, 0, &mut [&mut found]).expect("it can be read");
            let zero = |at: usize| (10..20).contains(&at) || (4096..204_800).contains(&at) || at >= 299_999;
            assert!(found.iter().enumerate().all(|(at, byte)| *byte == if zero(at) { 0 } else { 7 }));
        }
    }
}
