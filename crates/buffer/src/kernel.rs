//! The copy loops for pieces of equal length at constant strides.
//!
//! Pieces of 1 to 64 bytes are copied by loads and stores of fixed width. Two overlapping ones are used if
//! the length is not a power of two. A piece then costs about a nanosecond. Longer pieces are copied by
//! `memcpy`.

/// Copies `count` pieces of `len` bytes; piece `i` goes from `src + i * src_stride` to `dst + i * dst_stride`.
///
/// # Safety
/// All pieces must be valid to read and to write, and no source piece may overlap a destination piece.
pub unsafe fn copy(
    dst: *mut u8,
    dst_stride: isize,
    src: *const u8,
    src_stride: isize,
    len: usize,
    count: usize,
) {
    let pieces = StridedCopy { dst, dst_stride, src, src_stride, count };
    // SAFETY: guaranteed by the caller; each loop copies exactly `len` bytes per piece.
    unsafe {
        match len {
            0 => {}
            1 => pieces.fixed::<1>(),
            2 => pieces.fixed::<2>(),
            4 => pieces.fixed::<4>(),
            8 => pieces.fixed::<8>(),
            12 => pieces.twice::<8>(len),
            16 => pieces.fixed::<16>(),
            24 => pieces.twice::<16>(len),
            32 => pieces.fixed::<32>(),
            48 => pieces.twice::<32>(len),
            64 => pieces.fixed::<64>(),
            3 => pieces.twice::<2>(len),
            5..8 => pieces.twice::<4>(len),
            9..16 => pieces.twice::<8>(len),
            17..32 => pieces.twice::<16>(len),
            33..64 => pieces.twice::<32>(len),
            _ => pieces.any(len),
        }
    }
}

#[derive(Clone, Copy)]
struct StridedCopy {
    dst: *mut u8,
    dst_stride: isize,
    src: *const u8,
    src_stride: isize,
    count: usize,
}

impl StridedCopy {
    /// # Safety
    /// As [`copy`], for pieces of `N` bytes.
    unsafe fn fixed<const N: usize>(self) {
        let StridedCopy { mut dst, dst_stride, mut src, src_stride, count } = self;
        for _ in 0..count {
            // SAFETY: the caller guarantees both pieces; any alignment is valid.
            unsafe { dst.cast::<[u8; N]>().write_unaligned(src.cast::<[u8; N]>().read_unaligned()) };
            dst = dst.wrapping_offset(dst_stride);
            src = src.wrapping_offset(src_stride);
        }
    }

    /// # Safety
    /// As [`copy`], for pieces of `len` bytes with `N <= len <= 2 * N`.
    unsafe fn twice<const N: usize>(self, len: usize) {
        let StridedCopy { mut dst, dst_stride, mut src, src_stride, count } = self;
        let second = len - N;
        for _ in 0..count {
            // SAFETY: the caller guarantees `len` bytes at both addresses; both halves are within them.
            unsafe {
                let head = src.cast::<[u8; N]>().read_unaligned();
                let tail = src.add(second).cast::<[u8; N]>().read_unaligned();
                dst.cast::<[u8; N]>().write_unaligned(head);
                dst.add(second).cast::<[u8; N]>().write_unaligned(tail);
            }
            dst = dst.wrapping_offset(dst_stride);
            src = src.wrapping_offset(src_stride);
        }
    }

    /// # Safety
    /// As [`copy`].
    unsafe fn any(self, len: usize) {
        let StridedCopy { mut dst, dst_stride, mut src, src_stride, count } = self;
        for _ in 0..count {
            // SAFETY: the caller guarantees `len` bytes at both addresses without overlap.
            unsafe { std::ptr::copy_nonoverlapping(src, dst, len) };
            dst = dst.wrapping_offset(dst_stride);
            src = src.wrapping_offset(src_stride);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_moves_its_bytes_and_no_others() {
        for len in 0..200usize {
            let (count, from, to) = (3usize, len + 7, len + 3);
            let src: Vec<u8> = (0..from * count).map(|i| (i * 31 + 7) as u8).collect();
            let mut dst = vec![0xEEu8; to * count];
            let mut want = dst.clone();
            for i in 0..count {
                want[i * to..][..len].copy_from_slice(&src[i * from..][..len]);
            }
            // SAFETY: both vectors hold `count` pieces at these strides.
            unsafe { copy(dst.as_mut_ptr(), to as isize, src.as_ptr(), from as isize, len, count) };
            assert_eq!(dst, want, "pieces of {len}");
        }
    }

    #[test]
    fn strides_may_go_backwards() {
        let src = [1u8, 2, 3, 4];
        let mut dst = [0u8; 4];
        // SAFETY: four one-byte pieces in each array, the destination from its end.
        unsafe { copy(dst.as_mut_ptr().add(3), -1, src.as_ptr(), 1, 1, 4) };
        assert_eq!(dst, [4, 3, 2, 1]);
    }
}
