//! Which server holds which bytes of a file, and where: striping; and what else there is to know of a file. Pure.
//!
//! A file is cut into stripes of `stripe` bytes. Stripe s lies on server (first + s mod count) mod servers. On that
//! server the file's stripes lie one after the other in its *local part*: stripe s begins at ⌊s/count⌋·stripe
//! there. So any contiguous range of the file is at most one contiguous range in each server's local part.
//! What a view of the file shows of that part is [`Seen`].
#![forbid(unsafe_code)]

mod inode;
mod seen;
mod striping;

pub use inode::{Access, Attributes, Create, Entry, Inode, Kind, Size, Wish, Written};
pub use seen::{Extent, Seen, SeenPieces, Share, Shares};
pub use striping::{Local, Piece, Pieces, Striping};
