//! The client side of data shipping in a rank: reads and writes that the owners of the blocks perform.

use std::collections::HashMap;
use std::sync::Arc;

use pario_buffer::UserBuffer;
use pario_types::AccessTuning;
use pario_types::{Offset, Pos};
use pario_view::View;
use parking_lot::Mutex;

use crate::ShippingLimits;
use crate::address::AgentAddress;
use crate::block_map::{BlockMap, ViewPart};
use crate::connection::AgentConnection;
use crate::counts::{ShipperCounters, ShipperCounts};
use crate::error::Error;
use crate::frame::{MOST_DATA, MOST_VIEW, ShippingHello};
use crate::shipped_access::ShippedAccess;
use pario_file_backend::FileBackend;

/// The agents of an open file, as one rank knows them.
pub struct ShippingGroup {
    /// The assignment of blocks to agents.
    pub map: BlockMap,
    /// The agents' addresses, by rank; all that the map names.
    pub addresses: Vec<Option<AgentAddress>>,
    /// This rank.
    pub rank: u32,
    /// The key of the node that this rank is on.
    pub node: u64,
    /// The number that the agents were started with.
    pub secret: u128,
    /// Whether the agents have locked the file for good: file-partitioning mode.
    pub partitioned: bool,
    /// Bounds.
    pub limits: ShippingLimits,
}

/// A shipper keeps at most so many idle connections per agent: one for each thread that calls at once.
const IDLE: usize = 4;

/// Views of more memory than this are not sent to agents.
const LARGE_VIEW: usize = MOST_VIEW as usize / 16;

/// Reads and writes of one rank of a file whose blocks have owners. Any number of threads may use it at once.
pub struct Shipper {
    pub(crate) group: ShippingGroup,
    pub(crate) file: Arc<dyn FileBackend>,
    idle: Mutex<HashMap<u32, Vec<AgentConnection>>>,
    scratch: Mutex<Vec<Vec<u8>>>,
    pub(crate) counts: ShipperCounters,
}

/// The route of a request.
enum Route {
    /// Along the map.
    Ship,
    /// Along the map too, but its view cannot be shown to agents.
    Unsendable,
    /// Straight to this rank's own descriptor.
    Direct,
}

impl Shipper {
    /// A shipper for a file whose agents all have started. `file` is the one its own rank's agent has.
    pub fn new(group: ShippingGroup, file: Arc<dyn FileBackend>) -> Result<Shipper, Error> {
        let unknown =
            |rank: u32| rank != group.rank && group.addresses.get(rank as usize).copied().flatten().is_none();
        if let Some(&rank) = group.map.agents().iter().find(|&&rank| unknown(rank)) {
            return Err(Error::NoAddress { rank });
        }
        let (idle, scratch, counts) = Default::default();
        Ok(Shipper { group, file, idle, scratch, counts })
    }

    /// Writes `len` bytes of the memory's data from `buf_at` to the view from `at`: all of them, or an error.
    pub fn write(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        tune: &AccessTuning,
    ) -> Result<u64, Error> {
        let tune = &self.tuned(tune)?;
        match self.route(view, at, buf, buf_at, len, tune) {
            Route::Ship => {
                self.counts.requests.add(1);
                ShippedAccess::new(self, true, view, at, buf, buf_at, tune).run(len)
            }
            Route::Unsendable if self.group.partitioned => {
                self.counts.requests.add(1);
                self.write_pieces(view, at, buf, buf_at, len, tune)
            }
            Route::Unsendable | Route::Direct => {
                self.counts.direct.add(1);
                Ok(self.file.write(view, at, buf, buf_at, len, tune)?)
            }
        }
    }

    /// Reads `len` bytes of the view from `at` into the memory's data bytes from `buf_at`. Returns how many
    /// there were: fewer only at the end of the file.
    pub fn read(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        tune: &AccessTuning,
    ) -> Result<u64, Error> {
        let tune = &self.tuned(tune)?;
        match self.route(view, at, buf, buf_at, len, tune) {
            Route::Ship => {
                self.counts.requests.add(1);
                ShippedAccess::new(self, false, view, at, buf, buf_at, tune).run(len)
            }
            // Agents cache nothing, so any rank may read directly.
            Route::Unsendable | Route::Direct => {
                self.counts.direct.add(1);
                Ok(self.file.read(view, at, buf, buf_at, len, tune)?)
            }
        }
    }

    /// Ships each contiguous piece by itself, in their order.
    fn write_pieces(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        tune: &AccessTuning,
    ) -> Result<u64, Error> {
        let bytes = View::contiguous(Offset(0));
        let mut pieces = view.cursor(at, len);
        let mut done = 0;
        while let Some(piece) = pieces.next_piece(u64::MAX) {
            let at = Pos(piece.offset as u64); // the bounds were checked: not negative
            ShippedAccess::new(self, true, &bytes, at, buf, buf_at + done, tune).run(piece.len)?;
            done += piece.len;
        }
        Ok(done)
    }

    /// Its counters so far.
    pub fn counts(&self) -> ShipperCounts {
        self.counts.shown()
    }

    fn tuned(&self, tune: &AccessTuning) -> Result<AccessTuning, Error> {
        if tune.atomic && self.group.partitioned {
            return Err(Error::Atomic);
        }
        Ok(AccessTuning { sole: tune.sole || self.group.partitioned, ..*tune })
    }

    fn route(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        tune: &AccessTuning,
    ) -> Route {
        // The file itself reports what is wrong with an invalid request.
        let valid = len > 0
            && buf.len().saturating_sub(buf_at) >= len
            && at.checked_add(len).is_some()
            && view.bounds(at, len).is_some()
            && view.cursor(at, len).remaining() == len;
        let all_mine = || self.group.map.agents().iter().all(|&rank| rank == self.group.rank);
        if !valid || tune.atomic || all_mine() {
            Route::Direct
        } else if view.is_monotone() && view.tile().memory() <= LARGE_VIEW {
            Route::Ship
        } else {
            Route::Unsendable
        }
    }

    /// Accesses one part of the blocks that this rank owns.
    pub(crate) fn access_own_blocks(
        &self,
        write: bool,
        view: &View,
        part: ViewPart,
        buf: &UserBuffer,
        buf_at: u64,
        tune: &AccessTuning,
    ) -> Result<u64, Error> {
        let tune = AccessTuning { stagger: (0, 1), ..*tune };
        let (at, len) = (Pos(part.at), part.len);
        self.counts.home.add(len);
        Ok(match write {
            true => self.file.write(view, at, buf, buf_at, len, &tune),
            false => self.file.read(view, at, buf, buf_at, len, &tune),
        }?)
    }

    /// Most data of one message.
    pub(crate) fn frame(&self) -> u64 {
        self.group.limits.frame.clamp(1, MOST_DATA)
    }

    /// A connection to an agent for exclusive use.
    pub(crate) fn connection(&self, rank: u32) -> Result<AgentConnection, Error> {
        if let Some(idle) = self.idle.lock().get_mut(&rank).and_then(Vec::pop) {
            return Ok(idle);
        }
        let address = self.group.addresses.get(rank as usize).and_then(Option::as_ref);
        let address = address.ok_or(Error::NoAddress { rank })?;
        let hello = ShippingHello { rank: self.group.rank, secret: self.group.secret };
        AgentConnection::open(rank, address, self.group.node, hello, self.group.limits.deadline)
    }

    /// Returns an idle connection for reuse.
    pub(crate) fn return_connection(&self, connection: AgentConnection) {
        let mut idle = self.idle.lock();
        let idle = idle.entry(connection.rank).or_default();
        if idle.len() < IDLE {
            idle.push(connection);
        }
    }

    pub(crate) fn take_scratch(&self) -> Vec<u8> {
        self.scratch.lock().pop().unwrap_or_default()
    }

    pub(crate) fn return_scratch(&self, scratch: Vec<u8>) {
        let mut kept = self.scratch.lock();
        if kept.len() < IDLE {
            kept.push(scratch);
        }
    }
}
