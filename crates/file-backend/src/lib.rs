//! The one interface to an open file, for plain files and for files on a partition.
//!
//! [`FileBackend`] is everything that MPI-IO (`mpiio`), two-phase I/O (`two-phase`) and data shipping
//! (`data-shipping`) do with the bytes of a file. `posix` implements it for plain files and `partition-file` for
//! files on a partition. The three users hold an `Arc<dyn FileBackend>` and do not know which kind of file they
//! have, except when they open it.
//!
//! Design:
//!
//! - One backend is one open file of one rank. Any number of threads may use it at once, so all methods take
//!   `&self`.
//! - Data moves in two ways. Independent accesses move bytes between a view and the memory of the program
//!   ([`read`](FileBackend::read), [`write`](FileBackend::write)). Collective accesses move *windows*: contiguous
//!   parts of the file that aggregators have assembled ([`read_window`](FileBackend::read_window),
//!   [`write_window`](FileBackend::write_window)). There is one virtual call per access or window, and none per
//!   piece of data.
//! - An I/O agent knows the next accesses, so it prefetches. The loop of
//!   [`read_ranges`](FileBackend::read_ranges) is the same for all backends. A backend provides
//!   [`is_cached`](FileBackend::is_cached), [`prefetch`](FileBackend::prefetch) and
//!   [`release`](FileBackend::release).
//! - Locks are values ([`RangeLock`]). Locks for windows are never waited for, because a rank that waits for a
//!   lock while other ranks wait for that rank would be a deadlock.
//! - [`StorageFacts`] describes what the storage is good at: lock protocol, block, stripe, servers. Callers decide
//!   by facts and not by the kind of file.
//! - Errors are one type, [`BackendError`]: kind, error number, offset, bytes done and text.
//! - A method has a default if most backends would do the same or nothing.
//!
//! Opening, deleting and placing a file differ between the kinds of file and are not part of this interface.
#![forbid(unsafe_code)]

mod backend;
mod error;
mod facts;
mod guided;
mod read_ranges;

pub use backend::{CloseCounts, FileBackend, LockAttempt, RangeLock, ServerTraffic};
pub use error::BackendError;
pub use facts::StorageFacts;
pub use read_ranges::read_ranges;
