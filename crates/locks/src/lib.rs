//! Extent locks on files: granting, caching and revocation. Pure computation: events in, actions out.
//!
//! Each storage server has one [`LockManager`] for its local parts of files; each client has one [`ClientLocks`] per
//! server. Neither knows time, threads or sockets: the caller delivers the messages. A server, a test and a simulation
//! run the same code.
//!
//! # Two kinds of locks
//!
//! *Exact* ([`Grant::Exact`]): exactly the requested range is locked for one operation, until it is unlocked.
//!
//! *Cached* ([`Grant::Largest`]): the manager grants the largest extent that no other holder has or waits for; the first
//! holder gets the whole file. The holder keeps the lock after its operation, and later operations within it need no
//! message. When another holder wants bytes of it, the manager revokes it. The holder then releases what lies beyond the
//! end of its own latest operation, or before its start, depending on the side of the other holder. All cached extents
//! begin and end at multiples of the manager's unit, so holders that share a cache block or a stripe conflict even if
//! their bytes do not.
//!
//! # Conflicts
//!
//! Two locks that overlap exclude each other if one is [`LockMode::Exclusive`] and
//! - their holders differ, or
//! - both are exact (each belongs to one operation, so two threads of a client exclude each other).
//!
//! Operations on a holder's own cached extents do not exclude each other; a client with threads must order them itself.
//!
//! # The protocol
//!
//! ```text
//!   holder                                  manager
//!     │ Request ──────────────────────────▶ │ free and not waited for: grant
//!     │ ◀────────────────────────── Granted │ otherwise it waits in order of arrival
//!     │                                     │
//!     │ ◀─────────────────────────── Revoke │ a request waits for part of a cached extent
//!     │ stops using it, flushes             │
//!     │ Release (answer) ─────────────────▶ │ the released bytes go to waiting requests
//!     │ ... operations end                  │
//!     │ Release ──────────────────────────▶ │ the bytes that were wanted but in use follow
//! ```
//!
//! - A request waits while it conflicts with a lock, or with a request that has waited longer. So a waiting writer holds
//!   back later readers, and there is no starvation.
//! - A holder that must release bytes may have to flush them through the manager's server first. Such a request does not
//!   wait for waiting requests ([`LockManager::request_own`]).
//! - At most one revocation of a lock is outstanding. Its answer names the bytes that the holder no longer has. Wanted
//!   bytes that are not released are in use: the holder owes them, starts no new operation there, and releases them
//!   without a further message from the manager.
//! - A release only removes bytes, and names its lock. So crossing messages do no harm: a release or a revocation of a
//!   lock that no longer exists is ignored.
//! - A cached grant replaces, within its extent, the holder's older cached locks of the same or a weaker mode, on both
//!   sides. So a holder's extents of one mode never overlap, and their number stays small.
//! - At every moment, what the manager has recorded for a holder includes everything that the holder uses. This requires
//!   that messages between one holder and the manager arrive in order; messages of different holders need no order.
//!
//! # No deadlock
//!
//! A request is for one range, and a waiting operation uses nothing of that file at that manager. So some operation can
//! always go on. An operation that needs several servers or files takes one range of each, in the order of their ids, and
//! it does not request a stronger mode while it holds a weaker one.
//!
//! # Counting
//!
//! [`LockCounters`] count the lock traffic per file and in total. Ways of dividing a file among writers are compared by
//! these numbers.
#![forbid(unsafe_code)]

mod client_locks;
mod conflict_index;
mod counters;
mod error;
mod extent;
mod intervals;
mod invariants;
mod manager;
mod message;

pub use client_locks::{BeginOutcome, ClientLocks};
pub use counters::LockCounters;
pub use error::Error;
pub use extent::LockExtent;
pub use manager::{LockLimits, LockManager};
pub use message::{Grant, LockAction, LockId, LockMode, LockRelease, LockRequest, LockTicket};
