//! A server's block cache: one shared-memory file that the clients of the same host map, too.
//!
//! A block is `block` consecutive bytes of a file's local part. The server ([`Pool`]) decides which block
//! lies in which slot; clients ([`PoolMapping`]) are told and then read and write there with one copy and no
//! message.
//!
//! **Pins are hazard pointers.** A client has a ledger, a row of words in the segment. To pin a slot it puts
//! the slot's number into a free word and then looks at the slot's state: same generation, valid, not closed?
//! Then the slot stays what it is until the word is zero again. The server, before it takes a slot away,
//! *closes* it and then looks through the ledgers; if the slot is held, it opens it again. One of the two
//! always sees the other. A killed client leaves nothing behind but its words.
//!
//! **Authority.** The server keeps its own table of what is where; from the shared memory it takes no
//! index, file or block, only flags, ends and ticks, each checked. A client that scribbles spoils bytes, not
//! the server. Only a successor that [adopts](Pool::adopt) the pool of a killed server has to read the shared
//! table.
//!
//! **Dirty blocks.** A writer copies, raises the block's end, then sets `DIRTY`. The flusher sets `FLUSHING`,
//! clears `DIRTY`, copies out, stores, and clears `FLUSHING`: a write meanwhile makes the block dirty again,
//! and a kill at any point leaves it dirty for the successor. Bytes of a block beyond its end are zeros.
//!
//! **A write counts only if the store has room for it** ([`Pool::set_plenty`]): a flag of the slot says so, and the writer
//! looks at it in the step in which it makes the block dirty.
//!
//! **Where a block is can be made unknown** ([`Pool::invalidate`]): its slot gets another generation and is otherwise what it
//! was. That is a close that lasts, so the same look through the ledgers finds the clients that pinned it before.
//!
//! **Giving up a pool** ([`Pool::retire`]) is a handshake in the state of each slot. The server sets `RETIRED` there before
//! its last look for dirty slots; a writer sets `DIRTY` after its copy and sees the state before. So the server stores the
//! write, or the writer learns that it does not count, whichever is first. The server waits for no client.
//!
//! **A write that its client did not live to finish** may be there in part; its block counts as dirty.
#![forbid(unsafe_code)]

mod adopt;
mod advance;
mod directory;
mod error;
mod flush;
mod geometry;
mod inspect;
mod invalidation;
mod ledger;
mod mapping;
mod memory;
mod pin;
mod pool;
mod room;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod truncation;

pub use adopt::{Adopted, LostBlocks};
pub use directory::hash;
pub use error::{Error, PinError, Result};
pub use flush::{BlockFlush, DirtySweep, SweepStep};
pub use geometry::{DEFAULT_BLOCK, DEFAULT_LEDGERS, Geometry, LEDGER_WORDS, PoolIdentity};
pub use inspect::{Inspection, Leftover, inspect};
pub use invalidation::SlotInvalidation;
pub use ledger::LedgerId;
pub use mapping::{BlockGuard, PendingFill, PoolMapping};
pub use pin::{Pin, SlotFill};
pub use pool::{FlushSignal, Lookup, PagePreparer, Pool, PoolCounters};
pub use truncation::PoolTruncation;

/// Where a block was when the server said so: good as long as the slot has this generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotRef {
    /// Which slot.
    pub slot: u32,
    /// How often the slot had got another block, or been made unknown, by then.
    pub generation: u32,
}
