//! A server's block cache: one shared-memory file that the clients of the same host map, too.
//!
//! A block is `block` consecutive bytes of a file's local part. The server ([`Pool`]) assigns blocks to slots. Clients
//! ([`PoolMapping`]) learn the slot and then read and write there with one copy and no message.
//!
//! **Pins are hazard pointers.** A client has a ledger, a row of words in the segment. To pin a slot it stores the slot's
//! number in a free word and then loads the slot's state: same generation, valid, not closed? Then the slot does not change
//! until the word is zero again. Before the server reuses a slot, it *closes* it and then searches the ledgers; if the slot
//! is pinned, it opens it again. One of the two always sees the other. A killed client leaves only its words behind.
//!
//! **Authority.** The server keeps its own table of slots and blocks; from the shared memory it takes no index, file or
//! block, only flags, ends and ticks, each checked. A client that overwrites the shared memory damages bytes, not the
//! server. Only a successor that [adopts](Pool::adopt) the pool of a killed server has to read the shared table.
//!
//! **Dirty blocks.** A writer copies, raises the block's end, then sets `DIRTY`. The flusher sets `FLUSHING`,
//! clears `DIRTY`, copies out, stores, and clears `FLUSHING`: a write meanwhile makes the block dirty again,
//! and a kill at any point leaves it dirty for the successor. Bytes of a block beyond its end are zeros.
//!
//! **A write is accepted only if the store has space for it** ([`Pool::set_plenty`]): a flag of the slot says so, and the
//! writer reads it in the step in which it makes the block dirty.
//!
//! **Blocks can be invalidated** ([`Pool::invalidate`]): the slot gets another generation and is otherwise unchanged. That
//! is a permanent close, so the same search of the ledgers finds the clients that pinned it before.
//!
//! **Giving up a pool** ([`Pool::retire`]) is a handshake in the state of each slot. The server sets `RETIRED` there before
//! its last search for dirty slots; a writer sets `DIRTY` after its copy and sees the state before. So the server stores
//! the write, or the writer learns that it is not accepted, whichever is first. The server waits for no client.
//!
//! **A write of a client that was killed in the middle** may be there in part; its block is dirty.
#![forbid(unsafe_code)]

mod adopt;
mod advance;
mod directory;
mod error;
mod flush;
mod geometry;
mod inspect;
mod invalidation;
mod invariants;
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
pub use pin::{BlockWrite, Pin, SlotFill};
pub use pool::{FlushSignal, Lookup, PagePreparer, Pool, PoolCounters};
pub use truncation::PoolTruncation;

/// The slot of a block at the time of the server's reply: valid as long as the slot has this generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotRef {
    /// The slot.
    pub slot: u32,
    /// The generation of the slot, which changes with each new block and each invalidation.
    pub generation: u32,
}
