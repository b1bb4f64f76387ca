//! Extent locks: who may use which bytes of a file, and who has to give way. Pure: events in, actions out.
//!
//! Each storage server has one [`Manager`] for its local parts of files; each client has one [`Held`] per
//! server. Neither knows time, threads or sockets: the caller carries the messages, and whoever does so (a
//! server, a test, a simulation) runs the same code.
//!
//! # The two ways to lock
//!
//! *Exact* ([`Grant::Exact`]): a range is locked for one operation, exactly as asked for, until it is
//! unlocked.
//!
//! *Cached* ([`Grant::Largest`]): the manager grants the largest extent that nobody else has or waits for;
//! the first holder gets the whole file. The holder keeps it after its operation, and later operations within
//! it need no message. When somebody else wants bytes of it, the manager revokes it, and the holder gives up
//! what lies beyond the end of its own latest operation, or before its start, whichever side the other one is
//! on. All cached extents begin and end at multiples of the manager's unit, so holders that share a block of
//! a cache or a stripe conflict even if their bytes do not.
//!
//! # What excludes what
//!
//! Two locks that overlap exclude each other if one is [`Mode::Exclusive`] and
//! - their holders differ, or
//! - both are exact (each stands for an operation of its own, so two threads of a client exclude each other).
//!
//! Operations on a holder's cached extents do not exclude each other; who has threads puts them in order.
//!
//! # The protocol
//!
//! ```text
//!   holder                                  manager
//!     │ Request ──────────────────────────▶ │ free, and nobody waits for it: grant
//!     │ ◀────────────────────────── Granted │ else it waits, first come, first served
//!     │                                     │
//!     │ ◀─────────────────────────── Revoke │ somebody waits for part of a cached extent
//!     │ stops using it, flushes             │
//!     │ Release (answer) ─────────────────▶ │ what is gone goes to those who wait
//!     │ ... operations end                  │
//!     │ Release ──────────────────────────▶ │ what was wanted but in use follows
//! ```
//!
//! - A request waits while it conflicts with a lock, or with a request that has waited longer. So a
//!   waiting writer holds back later readers, and nobody starves.
//! - Who is to give up bytes may have to flush them through the manager's server first. Such a request goes past those
//!   who wait ([`Manager::request_own`]).
//! - At most one revocation of a lock is under way. Its answer names what the holder no longer has. What was
//!   wanted and is not gone is in use; the holder owes it and releases it unasked, and begins nothing new
//!   there.
//! - A release only takes away, and names the lock that it takes from. So messages that cross do no harm: a
//!   release of a lock that is no more is ignored, and so is a revocation of one.
//! - A cached grant replaces, within its extent, the holder's older cached locks of the same or a weaker
//!   mode, at both ends. So a holder's extents of one mode never overlap, and their number stays small.
//! - At every moment the manager's idea of what a holder has includes all that the holder uses. For this,
//!   messages between one holder and the manager have to arrive in order; between different holders they may
//!   not.
//!
//! # No deadlock
//!
//! A request is for one range, and an operation that waits uses nothing of that file at that manager. So
//! somebody can always go on. An operation that needs several servers or files takes one range of each, in
//! the order of their ids, and it does not ask for a stronger mode while it holds a weaker one.
//!
//! # Counting
//!
//! [`Counters`] tell per file and in all how much lock traffic a pattern of accesses causes; this is what
//! ways of dividing a file among writers are compared by.
#![forbid(unsafe_code)]

mod counters;
mod error;
mod extent;
mod granting;
mod held;
mod intervals;
mod message;
mod table;

#[cfg(test)]
mod accounts;
#[cfg(test)]
mod naive;
#[cfg(test)]
mod together;

pub use counters::Counters;
pub use error::Error;
pub use extent::Extent;
pub use granting::{Limits, Manager};
pub use held::{Begin, Held};
pub use message::{Action, Grant, LockId, Mode, Release, Request, Ticket};
