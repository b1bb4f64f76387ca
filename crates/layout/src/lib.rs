//! Which servers have which bytes of a file, and where; and what else there is to know of a file. Pure.
//!
//! A [`Layout`] is a [`Striping`], or a [`Table`] of who keeps which extents and a striping for what that leaves out.
//!
//! A striped file is cut into stripes of `stripe` bytes. Stripe s lies on server (first + s mod count) mod servers. On that
//! server the file's stripes lie one after the other in its *local part*: stripe s begins at ⌊s/count⌋·stripe
//! there. So any contiguous range of the file is at most one contiguous range in each server's local part.
//! What a view of the file shows of that part is [`Seen`].
#![forbid(unsafe_code)]

mod inode;
mod layout;
mod order;
mod seen;
mod striping;
mod table;

pub use inode::{Access, Attributes, Create, Entry, Inode, Kind, Size, Wish, Written};
pub use layout::{At, Layout, Stretch};
pub use order::units;
pub use seen::{Extent, Seen, SeenPieces, Share, Shares};
pub use striping::{Local, Piece, Pieces, Striping};
pub use table::{Kept, Table, TableId};
