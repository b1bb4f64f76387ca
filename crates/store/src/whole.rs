//! Reading, writing and clearing bytes of an open file in full, however many system calls that takes.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::sys;

/// Reads pieces one after the other; zeros beyond the end.
pub fn fill(file: &File, mut at: u64, pieces: &mut [&mut [u8]]) -> io::Result<()> {
    let mut pieces: Vec<_> = pieces.iter_mut().map(|piece| IoSliceMut::new(piece)).collect();
    let mut rest = pieces.as_mut_slice();
    while !rest.is_empty() {
        let got = sys::preadv(file, rest, at)?;
        if got == 0 {
            rest.iter_mut().for_each(|piece| piece.fill(0));
            break;
        }
        IoSliceMut::advance_slices(&mut rest, got);
        at += got as u64;
    }
    Ok(())
}

/// Writes pieces one after the other.
pub fn put(file: &File, mut at: u64, pieces: &[&[u8]]) -> io::Result<()> {
    let mut left: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut pieces: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
    let mut rest = pieces.as_mut_slice();
    while left > 0 {
        let done = sys::pwritev(file, rest, at)?;
        if done == 0 {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        IoSlice::advance_slices(&mut rest, done);
        (at, left) = (at + done as u64, left - done);
    }
    Ok(())
}

/// Makes bytes zeros, which take no room where the file system can do that.
pub fn clear(file: &File, range: Range<u64>) -> io::Result<()> {
    match range.is_empty() || sys::punch(file, range.start, range.end - range.start)? {
        true => Ok(()),
        false => overwrite(file, range),
    }
}

/// Writes zeros over bytes that are there.
fn overwrite(file: &File, range: Range<u64>) -> io::Result<()> {
    let zeros = [0; 64 << 10];
    let end = range.end.min(file.metadata()?.len());
    let mut at = range.start;
    while at < end {
        // Who cannot tell where holes are has none.
        at = match sys::next_data(file, at) {
            Ok(next) => next.unwrap_or(end),
            Err(_) => at,
        };
        let some = end.saturating_sub(at).min(zeros.len() as u64);
        file.write_all_at(&zeros[..some as usize], at)?;
        at += some;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    /// A file without a name.
    fn file(len: usize) -> File {
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = std::fs::OpenOptions::new();
        let options = options.read(true).write(true).custom_flags(libc::O_TMPFILE);
        let file = options.open(std::env::temp_dir()).expect("a place for scratch files");
        file.write_all_at(&vec![7; len], 0).expect("room");
        file
    }

    #[test]
    fn cleared_bytes_are_zeros_and_all_others_stay() {
        for clear in [clear, overwrite] {
            let file = file(300_000);
            file.set_len(400_000).expect("holes take no room");
            for range in [10..20, 4096..204_800, 299_999..300_005, 390_000..900_000, 5..5] {
                clear(&file, range).expect("it can be written");
            }
            assert_eq!(file.metadata().expect("open").len(), 400_000);
            let mut found = vec![1; 400_000];
            fill(&file, 0, &mut [&mut found]).expect("it can be read");
            let zero = |at: usize| (10..20).contains(&at) || (4096..204_800).contains(&at) || at >= 299_999;
            assert!(found.iter().enumerate().all(|(at, byte)| *byte == if zero(at) { 0 } else { 7 }));
        }
    }

    #[test]
    fn clearing_gives_room_back() {
        let file = file(1 << 20);
        let before = file.metadata().expect("open").blocks();
        clear(&file, 0..1 << 20).expect("it can be written");
        assert!(file.metadata().expect("open").blocks() < before / 8);
    }
}
