//! The layout of a file of a partition: which servers hold which bytes, and at which offset. Pure computation.
//!
//! A [`Layout`] is a [`Striping`], or a [`PlacementMap`] that assigns extents to servers with a striping for all other
//! bytes.
//!
//! A striped file is divided into stripes of `stripe` bytes. Stripe s is on server (first + s mod count) mod servers. On
//! that server the stripes of the file follow each other in its *local part*: stripe s begins at ⌊s/count⌋·stripe there.
//! So a contiguous range of the file is at most one contiguous range in the local part of each server. A [`StripedView`]
//! maps a view of the file to these local parts.
#![forbid(unsafe_code)]

mod layout;
mod order;
mod placement_map;
mod striped_view;
mod striping;

pub use layout::{ExtentLocation, Layout, LayoutExtent};
pub use order::units;
pub use placement_map::{PlacedExtent, PlacementMap, PlacementMapId};
pub use striped_view::{LocalExtent, StripeShare, StripeShares, StripedPieces, StripedView};
pub use striping::{LocalRange, StripePiece, StripePieces, Striping};
