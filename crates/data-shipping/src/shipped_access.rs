//! One shipped access: rounds of messages to all agents that it involves, and their replies.
//!
//! In a round, each agent gets one message for its share of the same positions. The next round is sent before the replies
//! of the previous one have arrived, so that agents work while this side packs. Replies are received from all agents at
//! once: an agent's thread never waits for a shipper that waits for another agent. For the same reason, a view that an
//! agent does not have is sent only while no reply with data is outstanding.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use crate::socket;
use pario_buffer::UserBuffer;
use pario_types::AccessTuning;
use pario_types::Pos;
use pario_view::{View, ViewHash};

use crate::block_map::{AgentShare, ShippingRound, ViewPart};
use crate::connection::AgentConnection;
use crate::error::Error;
use crate::frame::{HEADER, ShippingReply, ShippingRequest};
use crate::shipper::Shipper;

/// Outstanding messages per agent.
const DEPTH: usize = 2;

/// The most bytes that are received from a connection at once.
const CHUNK: usize = 256 << 10;

/// A shipped access in progress.
pub(crate) struct ShippedAccess<'a> {
    shipper: &'a Shipper,
    write: bool,
    view: &'a View,
    hash: ViewHash,
    at: u64,
    buf: &'a UserBuffer,
    buf_at: u64,
    tune: &'a AccessTuning,
    pipelines: BTreeMap<u32, AgentPipeline>,
    scratch: Vec<u8>,
    /// The first position found to lie beyond the end of the file.
    missing: u64,
    failure: Option<Error>,
}

/// The connection to one agent and its outstanding messages.
struct AgentPipeline {
    connection: AgentConnection,
    slot: u8,
    pending: VecDeque<PendingReply>,
    head: Vec<u8>,
    /// The reply whose body is being received, and the number of missing bytes.
    body: Option<(ShippingReply, usize)>,
    text: Vec<u8>,
}

/// A message without a reply yet.
struct PendingReply {
    bytes: u64,
    /// For a read: the positions of the data that has not arrived.
    parts: VecDeque<ViewPart>,
}

impl<'a> ShippedAccess<'a> {
    pub fn new(
        shipper: &'a Shipper,
        write: bool,
        view: &'a View,
        at: Pos,
        buf: &'a UserBuffer,
        buf_at: u64,
        tune: &'a AccessTuning,
    ) -> ShippedAccess<'a> {
        ShippedAccess {
            shipper,
            write,
            view,
            hash: view.hash(),
            at: at.0,
            buf,
            buf_at,
            tune,
            pipelines: BTreeMap::new(),
            scratch: shipper.take_scratch(),
            missing: u64::MAX,
            failure: None,
        }
    }

    /// Moves `len` bytes; returns how many were moved.
    pub fn run(mut self, len: u64) -> Result<u64, Error> {
        let (shipper, end) = (self.shipper, self.at + len);
        let group = &shipper.group;
        for round in group.map.rounds(self.view, Pos(self.at), len, group.rank, shipper.frame()) {
            if self.failure.is_some() || self.missing <= round.at {
                break;
            }
            if let Err(error) = self.round(round) {
                self.failure.get_or_insert(error);
            }
        }
        self.drain(0);
        shipper.return_scratch(std::mem::take(&mut self.scratch));
        self.pipelines.into_values().for_each(|pipeline| shipper.return_connection(pipeline.connection));
        match self.failure {
            Some(error) => Err(error),
            None => Ok(self.missing.min(end) - self.at),
        }
    }

    fn round(&mut self, round: ShippingRound) -> Result<(), Error> {
        let ShippingRound { at, len, mut shares } = round;
        let home = shares.remove(&self.shipper.group.rank);
        self.connect_agents(&shares)?;
        for (&rank, share) in &shares {
            self.send(rank, at, len, share)?;
        }
        for part in home.into_iter().flat_map(|share| share.parts) {
            let place = self.place(part.at);
            let moved =
                self.shipper.access_own_blocks(self.write, self.view, part, self.buf, place, self.tune)?;
            if moved < part.len {
                self.missing = self.missing.min(part.at + moved);
                break;
            }
        }
        self.drain(DEPTH - 1);
        Ok(())
    }

    /// Returns the position in the program's data of a position of the view.
    fn place(&self, position: u64) -> u64 {
        self.buf_at + (position - self.at)
    }

    /// Connects to all agents of a round and sends them the view.
    fn connect_agents(&mut self, shares: &BTreeMap<u32, AgentShare>) -> Result<(), Error> {
        let fresh: Vec<u32> =
            shares.keys().copied().filter(|rank| !self.pipelines.contains_key(rank)).collect();
        if !fresh.is_empty() && !self.write {
            self.drain(0);
        }
        for rank in fresh {
            let mut connection = self.shipper.connection(rank)?;
            let deadline = self.shipper.group.limits.deadline;
            let (slot, sent) = connection.send_view(self.view, self.hash, deadline)?;
            self.shipper.counts.views.add(u64::from(sent));
            self.shipper.counts.messages.add(u64::from(sent));
            let (pending, head, text) = Default::default();
            self.pipelines.insert(rank, AgentPipeline { connection, slot, pending, head, body: None, text });
        }
        Ok(())
    }

    fn send(&mut self, rank: u32, at: u64, len: u64, share: &AgentShare) -> Result<(), Error> {
        // The pipeline of an agent that failed in the meantime is gone, and the failure is recorded.
        let Some(slot) = self.pipelines.get(&rank).map(|pipeline| pipeline.slot) else { return Ok(()) };
        let bytes = share.bytes;
        let header =
            ShippingRequest::Move { write: self.write, slot, at, len, share: bytes as u32 }.to_bytes();
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
        if let Some(pipeline) = self.pipelines.get_mut(&rank) {
            if let Err(cause) = pipeline.connection.stream.send(&self.scratch[..end]) {
                return Err(self.drop_agent(rank, cause));
            }
            pipeline.pending.push_back(PendingReply { bytes, parts });
        }
        Ok(())
    }

    /// Drops the connection to an agent after a failure.
    fn drop_agent(&mut self, rank: u32, cause: io::Error) -> Error {
        self.pipelines.remove(&rank);
        Error::connection(rank, cause, self.deadline())
    }

    fn deadline(&self) -> Duration {
        self.shipper.group.limits.deadline
    }

    /// Receives replies until no agent has more than `most` outstanding.
    fn drain(&mut self, most: usize) {
        while self.pipelines.values().any(|pipeline| pipeline.pending.len() > most) {
            for rank in self.ready() {
                let Some(mut pipeline) = self.pipelines.remove(&rank) else { continue };
                match self.take(&mut pipeline) {
                    Ok(()) => drop(self.pipelines.insert(rank, pipeline)),
                    Err(error) => drop(self.failure.get_or_insert(error)),
                }
            }
        }
    }

    /// The agents whose connection can be read. After a timeout, all outstanding connections are dropped.
    fn ready(&mut self) -> Vec<u32> {
        let pending_agents: Vec<&AgentPipeline> =
            self.pipelines.values().filter(|pipeline| !pipeline.pending.is_empty()).collect();
        let rank = |pipeline: &&AgentPipeline| pipeline.connection.rank;
        if let [only] = pending_agents[..] {
            return vec![only.connection.rank]; // taking waits for it
        }
        let ahead: Vec<u32> = pending_agents
            .iter()
            .filter(|pipeline| !pipeline.connection.input.buffer().is_empty())
            .map(rank)
            .collect();
        if !ahead.is_empty() {
            return ahead;
        }
        let sockets: Vec<_> =
            pending_agents.iter().map(|pipeline| pipeline.connection.stream.as_fd()).collect();
        let waited = socket::wait_readable(&sockets, self.deadline());
        let ranks: Vec<u32> = pending_agents.iter().map(rank).collect();
        let cause = match waited {
            Ok(ready) if !ready.is_empty() => return ready.into_iter().map(|index| ranks[index]).collect(),
            Ok(_) => io::ErrorKind::TimedOut.into(),
            Err(cause) => cause,
        };
        let error = self.drop_agent(ranks[0], cause);
        self.failure.get_or_insert(error);
        ranks[1..].iter().for_each(|rank| drop(self.pipelines.remove(rank)));
        Vec::new()
    }

    /// Receives the available bytes of an agent: a part of a header or of a body.
    fn take(&mut self, pipeline: &mut AgentPipeline) -> Result<(), Error> {
        let rank = pipeline.connection.rank;
        let deadline = self.deadline();
        let failed = |cause| Error::connection(rank, cause, deadline);
        let ended = || Err(Error::Lost { rank, cause: io::ErrorKind::UnexpectedEof.into() });
        match pipeline.body {
            None => {
                let come = pipeline.connection.input.fill_buf().map_err(failed)?;
                let part = come.len().min(HEADER - pipeline.head.len());
                if part == 0 {
                    return ended();
                }
                pipeline.head.extend_from_slice(&come[..part]);
                pipeline.connection.input.consume(part);
                if let Some(head) = pipeline.head.first_chunk() {
                    let answer = ShippingReply::from_bytes(head);
                    let body = answer.and_then(|answer| pipeline.expects(answer, self.write));
                    let body = body.ok_or(Error::Garbled { rank, what: "an answer of another request" })?;
                    pipeline.head.clear();
                    pipeline.body = answer.map(|answer| (answer, body));
                }
            }
            Some((answer, left)) => {
                let part = left.min(CHUNK);
                if self.scratch.len() < part {
                    self.scratch.resize(part, 0);
                }
                let come = pipeline.connection.input.read(&mut self.scratch[..part]).map_err(failed)?;
                if come == 0 {
                    return ended();
                }
                match answer {
                    ShippingReply::Done { .. } => self.unpack(pipeline, come),
                    ShippingReply::Failed { .. } => pipeline.text.extend_from_slice(&self.scratch[..come]),
                }
                pipeline.body = Some((answer, left - come));
            }
        }
        if let Some((answer, 0)) = pipeline.body {
            self.finish(pipeline, answer);
        }
        Ok(())
    }

    /// Unpacks received data into the program's memory.
    fn unpack(&mut self, pipeline: &mut AgentPipeline, come: usize) {
        let Some(pending) = pipeline.pending.front_mut() else { return };
        let mut from = 0;
        while from < come
            && let Some(part) = pending.parts.front_mut()
        {
            let len = part.len.min((come - from) as u64);
            self.buf.unpack(self.buf_at + (part.at - self.at), &self.scratch[from..from + len as usize]);
            from += len as usize;
            part.at += len;
            part.len -= len;
            if part.len == 0 {
                pending.parts.pop_front();
            }
        }
    }

    /// Handles a complete reply.
    fn finish(&mut self, pipeline: &mut AgentPipeline, answer: ShippingReply) {
        pipeline.body = None;
        let pending = pipeline.pending.pop_front();
        match answer {
            ShippingReply::Done { .. } => {
                if let Some(part) = pending.and_then(|pending| pending.parts.front().copied()) {
                    self.missing = self.missing.min(part.at);
                }
            }
            ShippingReply::Failed { kind, errno, at, .. } => {
                let text = String::from_utf8_lossy(&std::mem::take(&mut pipeline.text)).into_owned();
                let rank = pipeline.connection.rank;
                self.failure.get_or_insert(Error::Agent { rank, kind, errno, at, text });
            }
        }
    }
}

impl AgentPipeline {
    /// The length of the body that follows; `None` if this cannot be the reply to the oldest message.
    fn expects(&self, answer: ShippingReply, write: bool) -> Option<usize> {
        let asked = self.pending.front()?.bytes;
        let (body, fits) = match answer {
            ShippingReply::Done { moved, body } if write => (body, moved == asked && body == 0),
            ShippingReply::Done { moved, body } => (body, moved <= asked && u64::from(body) == moved),
            ShippingReply::Failed { body, .. } => (body, true),
        };
        fits.then_some(body as usize)
    }
}
