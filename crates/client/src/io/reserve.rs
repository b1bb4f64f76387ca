//! Reservation of space for a file.
//!
//! A write that returns has its space on the servers' storage, so space is reserved by writing zeros beyond the end of the
//! file. The client first asks the servers whether they have enough space, so that a failing reservation usually writes
//! nothing. Holes within the file get no space: written zeros look like unwritten bytes, and writing them again could
//! destroy concurrent writes.

use pario_types::ErrorKind;
use pario_wire::message::Failure;
use pario_wire::{Reply, Request};

use crate::client_core::unexpected;
use crate::error::{Error, Result};
use crate::file::File;

/// The number of bytes written at once.
const PIECE: u64 = 4 << 20;

impl File {
    /// Makes the file at least that long, with space for every byte beyond its present end. If there is not enough space,
    /// the file may have become longer.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`] if a server has not enough space.
    pub fn reserve(&self, size: u64) -> Result<()> {
        let old = self.len()?;
        if size <= old {
            return Ok(());
        }
        self.check_room(old, size)?;
        let zeros = vec![0; PIECE.min(size - old) as usize];
        let mut at = old;
        while at < size {
            let len = (size - at).min(PIECE);
            self.write_at(&zeros[..len as usize], at)?;
            at += len;
        }
        Ok(())
    }

    /// Checks that each server has the space that the file needs there to grow.
    fn check_room(&self, old: u64, size: u64) -> Result<()> {
        let open = self.open();
        let requests: Vec<_> = open.layout.holders().map(|server| (server, Request::StorageSpace)).collect();
        let replies = open.core.call_all(&requests)?;
        for ((server, request), reply) in requests.iter().zip(replies) {
            let Reply::StorageSpace(room) = reply else { return Err(unexpected(*server, request, &reply)) };
            let more = open.layout.local_end(*server, size) - open.layout.local_end(*server, old);
            if more > room.free {
                let text = format!(
                    "No space left: the file needs {} KiB more there, and {} KiB are free",
                    more >> 10,
                    room.free >> 10
                );
                let failure = Failure { kind: ErrorKind::NoSpace, errno: NO_SPACE, text };
                return Err(Error::Server { server: *server, failure });
            }
        }
        Ok(())
    }
}

/// `ENOSPC`.
const NO_SPACE: i32 = 28;
