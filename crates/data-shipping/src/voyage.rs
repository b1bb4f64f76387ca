//! One request on its way: rounds of messages to all agents it touches, and their answers.
//!
//! In a round each agent gets one message for its share of the same positions; the next round goes out before
//! the answers of the one before are in, so that agents work while this side packs. Answers are taken from
//! whichever agent has something: an agent's thread never waits for a shipper that waits for another agent.
//! A view that an agent does not know goes over while no answer with data is awaited, for the same reason.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use pario_buffer::UserBuffer;
use pario_posix::{Tuning, socket};
use pario_types::Pos;
use pario_view::{View, ViewHash};

use crate::connection::Connection;
use crate::error::Error;
use crate::frame::{Answer, HEADER, Request};
use crate::map::{Part, Round, Share};
use crate::shipper::Shipper;

/// Messages under way per agent.
const DEPTH: usize = 2;

/// Data is taken from a connection by at most so many bytes at once.
const CHUNK: usize = 256 << 10;

/// A request under way.
pub(crate) struct Voyage<'a> {
    shipper: &'a Shipper,
    write: bool,
    view: &'a View,
    hash: ViewHash,
    at: u64,
    buf: &'a UserBuffer,
    buf_at: u64,
    tune: &'a Tuning,
    flights: BTreeMap<u32, Flight>,
    scratch: Vec<u8>,
    /// The first position found to lie beyond the end of the file.
    missing: u64,
    failure: Option<Error>,
}

/// What is under way with one agent.
struct Flight {
    link: Connection,
    slot: u8,
    awaited: VecDeque<Awaited>,
    head: Vec<u8>,
    /// The answer whose body is coming, and how much of the body is missing.
    body: Option<(Answer, usize)>,
    text: Vec<u8>,
}

/// A message that has no answer yet.
struct Awaited {
    bytes: u64,
    /// For a read: where the data goes that has not come.
    parts: VecDeque<Part>,
}

impl<'a> Voyage<'a> {
    pub fn new(
        shipper: &'a Shipper,
        write: bool,
        view: &'a View,
        at: Pos,
        buf: &'a UserBuffer,
        buf_at: u64,
        tune: &'a Tuning,
    ) -> Voyage<'a> {
        Voyage {
            shipper,
            write,
            view,
            hash: view.hash(),
            at: at.0,
            buf,
            buf_at,
            tune,
            flights: BTreeMap::new(),
            scratch: shipper.take_scratch(),
            missing: u64::MAX,
            failure: None,
        }
    }

    /// Moves `len` bytes; returns how many there were.
    pub fn go(mut self, len: u64) -> Result<u64, Error> {
        let (shipper, end) = (self.shipper, self.at + len);
        let team = &shipper.team;
        for round in team.map.rounds(self.view, Pos(self.at), len, team.rank, shipper.frame()) {
            if self.failure.is_some() || self.missing <= round.at {
                break;
            }
            if let Err(error) = self.round(round) {
                self.failure.get_or_insert(error);
            }
        }
        self.drain(0);
        shipper.give_scratch(std::mem::take(&mut self.scratch));
        self.flights.into_values().for_each(|flight| shipper.give_back(flight.link));
        match self.failure {
            Some(error) => Err(error),
            None => Ok(self.missing.min(end) - self.at),
        }
    }

    fn round(&mut self, round: Round) -> Result<(), Error> {
        let Round { at, len, mut shares } = round;
        let home = shares.remove(&self.shipper.team.rank);
        self.board(&shares)?;
        for (&rank, share) in &shares {
            self.send(rank, at, len, share)?;
        }
        for part in home.into_iter().flat_map(|share| share.parts) {
            let place = self.place(part.at);
            let moved = self.shipper.at_home(self.write, self.view, part, self.buf, place, self.tune)?;
            if moved < part.len {
                self.missing = self.missing.min(part.at + moved);
                break;
            }
        }
        self.drain(DEPTH - 1);
        Ok(())
    }

    /// Where in the program's data a position of the view lies.
    fn place(&self, position: u64) -> u64 {
        self.buf_at + (position - self.at)
    }

    /// Connects to all agents of a round and shows them the view.
    fn board(&mut self, shares: &BTreeMap<u32, Share>) -> Result<(), Error> {
        let fresh: Vec<u32> =
            shares.keys().copied().filter(|rank| !self.flights.contains_key(rank)).collect();
        if !fresh.is_empty() && !self.write {
            self.drain(0);
        }
        for rank in fresh {
            let mut link = self.shipper.connection(rank)?;
            let deadline = self.shipper.team.limits.deadline;
            let (slot, sent) = link.introduce(self.view, self.hash, deadline)?;
            self.shipper.counts.views.add(u64::from(sent));
            self.shipper.counts.messages.add(u64::from(sent));
            let (awaited, head, text) = Default::default();
            self.flights.insert(rank, Flight { link, slot, awaited, head, body: None, text });
        }
        Ok(())
    }

    fn send(&mut self, rank: u32, at: u64, len: u64, share: &Share) -> Result<(), Error> {
        // An agent that failed meanwhile has left, and the failure is known.
        let Some(slot) = self.flights.get(&rank).map(|flight| flight.slot) else { return Ok(()) };
        let bytes = share.bytes;
        let header = Request::Move { write: self.write, slot, at, len, share: bytes as u32 }.to_bytes();
        let end = HEADER + if self.write { bytes as usize } else { 0 };
        if self.scratch.len() < end {
            self.scratch.resize(end, 0);
        }
        self.scratch[..HEADER].copy_from_slice(&header);
        let mut parts = VecDeque::new();
        if self.write {
            let mut to = HEADER;
            for part in &share.parts {
                let place = self.place(part.at);
                self.buf.pack(place, &mut self.scratch[to..to + part.len as usize]);
                to += part.len as usize;
            }
        } else {
            parts.extend(&share.parts);
        }
        self.shipper.counts.messages.add(1);
        self.shipper.counts.shipped.add(bytes);
        if let Some(flight) = self.flights.get_mut(&rank) {
            if let Err(cause) = flight.link.stream.send(&self.scratch[..end]) {
                return Err(self.lose(rank, cause));
            }
            flight.awaited.push_back(Awaited { bytes, parts });
        }
        Ok(())
    }

    /// Gives a connection up.
    fn lose(&mut self, rank: u32, cause: io::Error) -> Error {
        self.flights.remove(&rank);
        Error::connection(rank, cause, self.deadline())
    }

    fn deadline(&self) -> Duration {
        self.shipper.team.limits.deadline
    }

    /// Takes answers until no agent owes more than `most`.
    fn drain(&mut self, most: usize) {
        while self.flights.values().any(|flight| flight.awaited.len() > most) {
            for rank in self.ready() {
                let Some(mut flight) = self.flights.remove(&rank) else { continue };
                match self.take(&mut flight) {
                    Ok(()) => drop(self.flights.insert(rank, flight)),
                    Err(error) => drop(self.failure.get_or_insert(error)),
                }
            }
        }
    }

    /// Agents whose connection has something to take; one that all wait for in vain is given up.
    fn ready(&mut self) -> Vec<u32> {
        let owing: Vec<&Flight> = self.flights.values().filter(|flight| !flight.awaited.is_empty()).collect();
        let rank = |flight: &&Flight| flight.link.rank;
        if let [only] = owing[..] {
            return vec![only.link.rank]; // taking waits for it
        }
        let ahead: Vec<u32> =
            owing.iter().filter(|flight| !flight.link.input.buffer().is_empty()).map(rank).collect();
        if !ahead.is_empty() {
            return ahead;
        }
        let sockets: Vec<_> = owing.iter().map(|flight| flight.link.stream.as_fd()).collect();
        let waited = socket::wait_readable(&sockets, self.deadline());
        let ranks: Vec<u32> = owing.iter().map(rank).collect();
        let cause = match waited {
            Ok(ready) if !ready.is_empty() => return ready.into_iter().map(|index| ranks[index]).collect(),
            Ok(_) => io::ErrorKind::TimedOut.into(),
            Err(cause) => cause,
        };
        let error = self.lose(ranks[0], cause);
        self.failure.get_or_insert(error);
        ranks[1..].iter().for_each(|rank| drop(self.flights.remove(rank)));
        Vec::new()
    }

    /// Takes what has come from an agent: a part of a head or of a body.
    fn take(&mut self, flight: &mut Flight) -> Result<(), Error> {
        let rank = flight.link.rank;
        let deadline = self.deadline();
        let failed = |cause| Error::connection(rank, cause, deadline);
        let ended = || Err(Error::Lost { rank, cause: io::ErrorKind::UnexpectedEof.into() });
        match flight.body {
            None => {
                let come = flight.link.input.fill_buf().map_err(failed)?;
                let part = come.len().min(HEADER - flight.head.len());
                if part == 0 {
                    return ended();
                }
                flight.head.extend_from_slice(&come[..part]);
                flight.link.input.consume(part);
                if let Some(head) = flight.head.first_chunk() {
                    let answer = Answer::from_bytes(head);
                    let body = answer.and_then(|answer| flight.expects(answer, self.write));
                    let body = body.ok_or(Error::Garbled { rank, what: "an answer of another request" })?;
                    flight.head.clear();
                    flight.body = answer.map(|answer| (answer, body));
                }
            }
            Some((answer, left)) => {
                let part = left.min(CHUNK);
                if self.scratch.len() < part {
                    self.scratch.resize(part, 0);
                }
                let come = flight.link.input.read(&mut self.scratch[..part]).map_err(failed)?;
                if come == 0 {
                    return ended();
                }
                match answer {
                    Answer::Done { .. } => self.unpack(flight, come),
                    Answer::Failed { .. } => flight.text.extend_from_slice(&self.scratch[..come]),
                }
                flight.body = Some((answer, left - come));
            }
        }
        if let Some((answer, 0)) = flight.body {
            self.finish(flight, answer);
        }
        Ok(())
    }

    /// Puts data that has come where it belongs.
    fn unpack(&mut self, flight: &mut Flight, come: usize) {
        let Some(awaited) = flight.awaited.front_mut() else { return };
        let mut from = 0;
        while from < come
            && let Some(part) = awaited.parts.front_mut()
        {
            let len = part.len.min((come - from) as u64);
            self.buf.unpack(self.buf_at + (part.at - self.at), &self.scratch[from..from + len as usize]);
            from += len as usize;
            part.at += len;
            part.len -= len;
            if part.len == 0 {
                awaited.parts.pop_front();
            }
        }
    }

    /// One answer is complete.
    fn finish(&mut self, flight: &mut Flight, answer: Answer) {
        flight.body = None;
        let awaited = flight.awaited.pop_front();
        match answer {
            Answer::Done { .. } => {
                if let Some(part) = awaited.and_then(|awaited| awaited.parts.front().copied()) {
                    self.missing = self.missing.min(part.at);
                }
            }
            Answer::Failed { kind, errno, at, .. } => {
                let text = String::from_utf8_lossy(&std::mem::take(&mut flight.text)).into_owned();
                let rank = flight.link.rank;
                self.failure.get_or_insert(Error::Agent { rank, kind, errno, at, text });
            }
        }
    }
}

impl Flight {
    /// How many bytes of body follow; `None` if this cannot be the answer to the oldest message.
    fn expects(&self, answer: Answer, write: bool) -> Option<usize> {
        let asked = self.awaited.front()?.bytes;
        let (body, fits) = match answer {
            Answer::Done { moved, body } if write => (body, moved == asked && body == 0),
            Answer::Done { moved, body } => (body, moved <= asked && u64::from(body) == moved),
            Answer::Failed { body, .. } => (body, true),
        };
        fits.then_some(body as usize)
    }
}
