//! Views: the bytes of a file that belong to one process, and their order. A view begins at an offset of the file and
//! repeats its pattern from there on without end; positions count the bytes that it selects.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use pario::{Offset, Pos, view};
//!
//! // Columns 256..512 of a matrix of 1000 × 1024 numbers of 8 bytes.
//! let columns = view::subarray(Offset(0), &[1000, 1024], &[1000, 256], &[0, 256], 8)?;
//! # let file = pario::open("scratch")?.open("/matrix", pario::OpenOptions::new().write(true))?;
//! file.write_view(&columns, Pos(0), &vec![0; 1000 * 256 * 8])?;
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use pario_client::Offset;
use pario_view::{Datatype, Pattern, Shape, View};

pub use pario_view::Error;

/// All bytes from an offset on.
///
/// ```
/// use pario::{Offset, Pos, view};
///
/// assert_eq!(view::contiguous(Offset(100)).select(Pos(5)), Some(Offset(105)));
/// ```
pub fn contiguous(from: Offset) -> View {
    View::contiguous(from)
}

/// Pieces of `len` bytes, each `stride` bytes after the one before.
///
/// ```
/// use pario::{Offset, Pos, view};
///
/// let second_of_four = view::strided(Offset(1000), 1000, 4000)?;
/// assert_eq!(second_of_four.select(Pos(1005)), Some(Offset(5005)));
/// # Ok::<(), view::Error>(())
/// ```
pub fn strided(from: Offset, len: u64, stride: u64) -> Result<View, Error> {
    let (length, extent) = (signed(len)?, signed(stride)?);
    let piece = Datatype { lb: 0, extent: length, shape: contiguous_bytes(len) };
    let shape = Shape::Resized { lb: 0, extent, child: Arc::new(piece) };
    Ok(View::new(from, Pattern::native(&Datatype { lb: 0, extent, shape })?))
}

/// A block of an array that lies in the file row by row: the array has `sizes` elements of `element` bytes in each
/// dimension, the block `subsizes`, from `starts` on. The next array of the same kind follows the last element.
///
/// ```
/// use pario::{Offset, Pos, view};
///
/// // The lower right quarter of 4 × 4 bytes.
/// let quarter = view::subarray(Offset(0), &[4, 4], &[2, 2], &[2, 2], 1)?;
/// let offsets: Vec<u64> = (0..6).filter_map(|at| quarter.select(Pos(at))).map(|offset| offset.0).collect();
/// assert_eq!(offsets, [10, 11, 14, 15, 26, 27]);
/// # Ok::<(), view::Error>(())
/// ```
pub fn subarray(
    from: Offset,
    sizes: &[u64],
    subsizes: &[u64],
    starts: &[u64],
    element: u64,
) -> Result<View, Error> {
    let child = Datatype { lb: 0, extent: signed(element)?, shape: contiguous_bytes(element) };
    let whole = sizes.iter().try_fold(element, |product, size| product.checked_mul(*size));
    let extent = signed(whole.ok_or(Error::TooLarge)?)?;
    let shape = Shape::Subarray {
        sizes: sizes.to_vec(),
        subsizes: subsizes.to_vec(),
        starts: starts.to_vec(),
        order: pario_view::Order::C,
        child: Arc::new(child),
    };
    Ok(View::new(from, Pattern::native(&Datatype { lb: 0, extent, shape })?))
}

fn contiguous_bytes(count: u64) -> Shape {
    Shape::Contiguous { count, child: Arc::new(Datatype::byte()) }
}

fn signed(bytes: u64) -> Result<i64, Error> {
    i64::try_from(bytes).map_err(|_| Error::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_client::Pos;
    use proptest::prelude::*;

    fn first(view: &View, count: u64) -> Vec<u64> {
        (0..count).map(|at| view.select(Pos(at)).expect("there").0).collect()
    }

    proptest! {
        #[test]
        fn strides_byte_by_byte(from in 0u64..100, len in 1u64..20, gap in 0u64..20) {
            let view = strided(Offset(from), len, len + gap).expect("sound");
            let naive: Vec<u64> = (0..100).map(|at| from + at / len * (len + gap) + at % len).collect();
            prop_assert_eq!(first(&view, 100), naive);
        }

        #[test]
        fn blocks_of_arrays_byte_by_byte(
            from in 0u64..100, element in 1u64..9,
            dimensions in prop::collection::vec((1u64..6, 1u64..6, 0u64..6), 1..4),
        ) {
            let sizes: Vec<u64> = dimensions.iter().map(|(size, sub, start)| size + sub + start).collect();
            let subsizes: Vec<u64> = dimensions.iter().map(|d| d.1).collect();
            let starts: Vec<u64> = dimensions.iter().map(|d| d.2).collect();
            let view = subarray(Offset(from), &sizes, &subsizes, &starts, element).expect("sound");
            let total: u64 = sizes.iter().product();
            let inside = |index: u64| {
                let mut rest = index;
                dimensions.iter().zip(&sizes).rev().all(|((_, sub, start), size)| {
                    let here = rest % size;
                    rest /= size;
                    (*start..start + sub).contains(&here)
                })
            };
            let naive: Vec<u64> = (0..2 * total)
                .filter(|index| inside(index % total))
                .flat_map(|index| (0..element).map(move |byte| from + index * element + byte))
                .collect();
            prop_assert_eq!(first(&view, naive.len() as u64), naive);
        }
    }

    #[test]
    fn invalid_blocks_are_refused() {
        assert!(subarray(Offset(0), &[4], &[5], &[0], 1).is_err());
        assert!(subarray(Offset(0), &[4, 4], &[1], &[0], 1).is_err());
        assert!(subarray(Offset(0), &[u64::MAX, 2], &[1, 1], &[0, 0], 1).is_err());
        assert!(strided(Offset(0), u64::MAX, u64::MAX).is_err());
    }
}
