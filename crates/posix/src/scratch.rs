//! Scratch memory that a thread reuses between calls, so that small accesses in a loop allocate nothing.

use pario_buffer::IoVec;
use std::cell::Cell;
use std::thread::LocalKey;

thread_local! {
    static BYTES: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static PIECES: Cell<Vec<IoVec>> = const { Cell::new(Vec::new()) };
}

/// The memory that the thread has kept; none while the thread is ending.
fn kept<T>(place: &'static LocalKey<Cell<Vec<T>>>) -> Vec<T> {
    place.try_with(Cell::take).unwrap_or_default()
}

/// Gives memory back; the thread keeps the larger one.
fn keep<T>(place: &'static LocalKey<Cell<Vec<T>>>, mine: Vec<T>) {
    // While the thread is ending the memory is simply freed.
    let _ = place.try_with(|kept| {
        let other = kept.take();
        kept.set(if other.capacity() > mine.capacity() { other } else { mine });
    });
}

/// Bytes for one operation; they go back to the thread when dropped.
pub(crate) struct Scratch(Vec<u8>);

impl Scratch {
    /// At least `len` bytes, or `None` if memory ran out.
    pub fn of(len: usize) -> Option<Scratch> {
        let mut bytes = kept(&BYTES);
        if bytes.len() < len {
            // The old content is not needed: growing in place would copy it.
            bytes = Vec::new();
            bytes.try_reserve_exact(len).ok()?;
            bytes.resize(len, 0);
        }
        Some(Scratch(bytes))
    }

    pub fn bytes(&mut self, len: usize) -> &mut [u8] {
        &mut self.0[..len]
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        keep(&BYTES, std::mem::take(&mut self.0));
    }
}

/// A list of pieces of the program's memory for one operation.
pub(crate) struct Pieces(Vec<IoVec>);

impl Pieces {
    pub fn take() -> Pieces {
        Pieces(kept(&PIECES))
    }

    pub fn cleared(&mut self) -> &mut Vec<IoVec> {
        self.0.clear();
        &mut self.0
    }

    pub fn as_iovecs(&mut self) -> &mut [libc::iovec] {
        let pieces = self.0.as_mut_slice();
        // SAFETY: `IoVec` is declared with the layout of `iovec`: an address and a length.
        unsafe { std::slice::from_raw_parts_mut(pieces.as_mut_ptr().cast(), pieces.len()) }
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        keep(&PIECES, std::mem::take(&mut self.0));
    }
}

const _: () = assert!(
    size_of::<IoVec>() == size_of::<libc::iovec>()
        && align_of::<IoVec>() == align_of::<libc::iovec>()
        && std::mem::offset_of!(IoVec, len) == std::mem::offset_of!(libc::iovec, iov_len)
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_memory_comes_back() {
        let mut first = Scratch::of(1000).unwrap();
        let address = first.bytes(1000).as_ptr();
        drop(first);
        let mut second = Scratch::of(500).unwrap();
        assert_eq!(second.bytes(500).as_ptr(), address);
        let mut third = Scratch::of(10).unwrap();
        assert_ne!(third.bytes(10).as_ptr(), address);
    }

    #[test]
    fn an_allocation_that_is_too_large_is_an_error() {
        assert!(Scratch::of(isize::MAX as usize).is_none());
    }
}
