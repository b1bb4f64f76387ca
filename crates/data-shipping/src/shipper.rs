//! A rank's side of data shipping: reads and writes as a file has them, at whoever owns the bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use pario_buffer::UserBuffer;
use pario_posix::Tuning;
use pario_types::{Offset, Pos};
use pario_view::View;

use crate::Limits;
use crate::address::Address;
use crate::agent::held;
use crate::backing::Backing;
use crate::connection::Connection;
use crate::counts::{ShipperCounters, ShipperCounts};
use crate::error::Error;
use crate::frame::{Hello, MOST_DATA, MOST_VIEW};
use crate::map::{Map, Part};
use crate::voyage::Voyage;

/// What a rank knows of the agents of its open file.
pub struct Team {
    /// Whose blocks are whose.
    pub map: Map,
    /// The agents' addresses, by rank; all that the map names.
    pub addresses: Vec<Option<Address>>,
    /// This rank.
    pub rank: u32,
    /// The node that this rank is on, as `pario_posix::node::node_key` tells it.
    pub node: u64,
    /// The number that the agents were started with.
    pub secret: u128,
    /// Whether the agents have locked the file for good: file-partitioning mode.
    pub partitioned: bool,
    /// Bounds.
    pub limits: Limits,
}

/// A shipper keeps at most so many idle connections per agent: one for each thread that calls at once.
const IDLE: usize = 4;

/// Views of more memory than this are not sent to agents.
const LARGE_VIEW: usize = MOST_VIEW as usize / 16;

/// Reads and writes of one rank of a file whose blocks have owners. Any number of threads may use it at once.
pub struct Shipper {
    pub(crate) team: Team,
    pub(crate) file: Arc<dyn Backing>,
    idle: Mutex<HashMap<u32, Vec<Connection>>>,
    scratch: Mutex<Vec<Vec<u8>>>,
    pub(crate) counts: ShipperCounters,
}

/// How a request can travel.
enum Way {
    /// Along the map.
    Ship,
    /// Along the map too, but its view cannot be shown to agents.
    Unsendable,
    /// Straight to this rank's own descriptor.
    Direct,
}

impl Shipper {
    /// A shipper for a file whose agents all have started. `file` is the one its own rank's agent has.
    pub fn new(team: Team, file: Arc<dyn Backing>) -> Result<Shipper, Error> {
        let unknown =
            |rank: u32| rank != team.rank && team.addresses.get(rank as usize).copied().flatten().is_none();
        if let Some(&rank) = team.map.agents().iter().find(|&&rank| unknown(rank)) {
            return Err(Error::NoAddress { rank });
        }
        let (idle, scratch, counts) = Default::default();
        Ok(Shipper { team, file, idle, scratch, counts })
    }

    /// Writes `len` bytes of the memory's data from `buf_at` to the view from `at`: all of them, or an error.
    pub fn write(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        tune: &Tuning,
    ) -> Result<u64, Error> {
        let tune = &self.tuned(tune)?;
        match self.way(view, at, buf, buf_at, len, tune) {
            Way::Ship => {
                self.counts.requests.add(1);
                Voyage::new(self, true, view, at, buf, buf_at, tune).go(len)
            }
            Way::Unsendable if self.team.partitioned => {
                self.counts.requests.add(1);
                self.write_pieces(view, at, buf, buf_at, len, tune)
            }
            Way::Unsendable | Way::Direct => {
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
        tune: &Tuning,
    ) -> Result<u64, Error> {
        let tune = &self.tuned(tune)?;
        match self.way(view, at, buf, buf_at, len, tune) {
            Way::Ship => {
                self.counts.requests.add(1);
                Voyage::new(self, false, view, at, buf, buf_at, tune).go(len)
            }
            // Reading is nobody's privilege: agents keep nothing back.
            Way::Unsendable | Way::Direct => {
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
        tune: &Tuning,
    ) -> Result<u64, Error> {
        let bytes = View::contiguous(Offset(0));
        let mut pieces = view.cursor(at, len);
        let mut done = 0;
        while let Some(piece) = pieces.next_piece(u64::MAX) {
            let at = Pos(piece.offset as u64); // the bounds were checked: not negative
            Voyage::new(self, true, &bytes, at, buf, buf_at + done, tune).go(piece.len)?;
            done += piece.len;
        }
        Ok(done)
    }

    /// What it has done so far.
    pub fn counts(&self) -> ShipperCounts {
        self.counts.shown()
    }

    fn tuned(&self, tune: &Tuning) -> Result<Tuning, Error> {
        if tune.atomic && self.team.partitioned {
            return Err(Error::Atomic);
        }
        Ok(Tuning { sole: tune.sole || self.team.partitioned, ..*tune })
    }

    fn way(&self, view: &View, at: Pos, buf: &UserBuffer, buf_at: u64, len: u64, tune: &Tuning) -> Way {
        // What the file would refuse, it shall refuse in its own words.
        let valid = len > 0
            && buf.len().saturating_sub(buf_at) >= len
            && at.checked_add(len).is_some()
            && view.bounds(at, len).is_some()
            && view.cursor(at, len).remaining() == len;
        let all_mine = || self.team.map.agents().iter().all(|&rank| rank == self.team.rank);
        if !valid || tune.atomic || all_mine() {
            Way::Direct
        } else if view.is_monotone() && view.tile().memory() <= LARGE_VIEW {
            Way::Ship
        } else {
            Way::Unsendable
        }
    }

    /// Moves one part of what this rank owns.
    pub(crate) fn at_home(
        &self,
        write: bool,
        view: &View,
        part: Part,
        buf: &UserBuffer,
        buf_at: u64,
        tune: &Tuning,
    ) -> Result<u64, Error> {
        let tune = Tuning { stagger: (0, 1), ..*tune };
        let (at, len) = (Pos(part.at), part.len);
        self.counts.home.add(len);
        Ok(match write {
            true => self.file.write(view, at, buf, buf_at, len, &tune),
            false => self.file.read(view, at, buf, buf_at, len, &tune),
        }?)
    }

    /// Most data of one message.
    pub(crate) fn frame(&self) -> u64 {
        self.team.limits.frame.clamp(1, MOST_DATA)
    }

    /// A connection to an agent that nobody else uses now.
    pub(crate) fn connection(&self, rank: u32) -> Result<Connection, Error> {
        if let Some(idle) = held(&self.idle).get_mut(&rank).and_then(Vec::pop) {
            return Ok(idle);
        }
        let address = self.team.addresses.get(rank as usize).and_then(Option::as_ref);
        let address = address.ok_or(Error::NoAddress { rank })?;
        let hello = Hello { rank: self.team.rank, secret: self.team.secret };
        Connection::open(rank, address, self.team.node, hello, self.team.limits.deadline)
    }

    /// Gives back a connection on which nothing is under way.
    pub(crate) fn give_back(&self, connection: Connection) {
        let mut idle = held(&self.idle);
        let idle = idle.entry(connection.rank).or_default();
        if idle.len() < IDLE {
            idle.push(connection);
        }
    }

    pub(crate) fn take_scratch(&self) -> Vec<u8> {
        held(&self.scratch).pop().unwrap_or_default()
    }

    pub(crate) fn give_scratch(&self, scratch: Vec<u8>) {
        let mut kept = held(&self.scratch);
        if kept.len() < IDLE {
            kept.push(scratch);
        }
    }
}
