//! One request of a client: it takes locks, moves data, and releases the locks.
//!
//! A write that needs one lock goes to the client's cache, and from there to the servers in the background. A write that
//! needs locks of several servers is sent at once and holds all of them until all its data has arrived, so that other
//! clients see all of it or nothing. A client that caches whole blocks (tokens) reads a block before it writes a part of
//! it, if another client wrote to that block before. Every client reads a range with holes before it writes it. A read asks
//! each server as soon as it has that server's lock.

use std::collections::BTreeSet;
use std::ops::Range;

use super::client::{NextStep, Operation};
use super::server::Piece;
use super::{Event, Run};
use crate::link::transfer_ns;
use crate::setup::Protocol;

impl Run<'_> {
    /// A client begins a request.
    pub fn begin(&mut self, number: u32, range: Range<u64>) {
        let locks = self.locks_for(&range);
        let (mut unread, mut waits) = (Vec::new(), BTreeSet::new());
        if !self.setup.write {
            let (missing, coming) = self.clients[number as usize].ahead.lookup(&range);
            unread.extend(missing.into_iter().flat_map(|part| self.striping.pieces(part)));
            waits.extend(coming);
        }
        let operation = Operation {
            file: self.work.file(self.call),
            range,
            mode: self.mode(),
            locks,
            begun: 0,
            taken: Vec::new(),
            unread,
            waits,
            then: NextStep::End,
        };
        self.clients[number as usize].operation = Some(operation);
        self.lock(number);
    }

    /// The operation has its locks.
    pub fn locked(&mut self, number: u32) {
        if !self.setup.write {
            return self.read_ahead(number);
        }
        let operation = self.clients[number as usize].operation.as_ref().expect("it is under way");
        let range = operation.range.clone();
        let before = match self.holes {
            true => vec![range],
            false => self.parts_of_others(number, range),
        };
        let operation = self.clients[number as usize].operation.as_mut().expect("it is under way");
        operation.then = NextStep::Copy;
        if before.is_empty() {
            return self.resume(number);
        }
        for part in before {
            let pieces: Vec<_> = self.striping.pieces(part).collect();
            let requests: Vec<u64> = pieces.into_iter().map(|piece| self.send_read(number, piece)).collect();
            let operation = self.clients[number as usize].operation.as_mut().expect("it is under way");
            operation.waits.extend(requests);
        }
    }

    /// Returns the blocks that this range covers in part, if another client wrote another part.
    fn parts_of_others(&mut self, number: u32, range: Range<u64>) -> Vec<Range<u64>> {
        if self.setup.protocol != Protocol::Token {
            return Vec::new();
        }
        let (unit, file) = (self.setup.stripe, self.work.file(self.call));
        let mut blocks = vec![range.start / unit, (range.end - 1) / unit];
        blocks.dedup();
        blocks.retain(|block| range.start > block * unit || range.end < (block + 1) * unit);
        blocks
            .retain(|block| self.partial.insert((file, *block), number).is_some_and(|other| other != number));
        blocks.into_iter().map(|block| block * unit..(block + 1) * unit).collect()
    }

    /// The operation waits for nothing any more.
    pub fn resume(&mut self, number: u32) {
        let client = &mut self.clients[number as usize];
        let operation = client.operation.as_ref().expect("it is under way");
        let len = operation.range.end - operation.range.start;
        if operation.then == NextStep::End {
            return self.end(number);
        }
        if operation.locks.len() > 1 && self.setup.protocol == Protocol::Server {
            return self.write_through(number);
        }
        if client.dirty_bytes > 0 && client.dirty_bytes + len > self.setup.machine.client_cache {
            client.wants_room = true;
            return;
        }
        client.wants_room = false;
        let rank = client.rank;
        let ns = self.jittered(transfer_ns(len, self.setup.machine.copy_rate));
        let done = self.shuffle.copying(rank).take(self.queue.now(), ns).1;
        self.queue.schedule(done, Event::Copied(number));
    }

    /// The bytes are in the cache: the operation ends, and they are sent in the background.
    pub fn copied(&mut self, number: u32) {
        for piece in self.pieces(number) {
            let client = &mut self.clients[number as usize];
            client.dirty.insert(piece.number, (piece.manager, piece.file, piece.extent()));
            client.dirty_bytes += piece.len;
            self.cache_block(number, piece.manager, piece.file, piece.place);
            self.clients[number as usize].sending.push_back(piece);
        }
        self.send(number);
        self.end(number);
    }

    /// Sends the bytes to their servers; the operation waits for that.
    fn write_through(&mut self, number: u32) {
        let pieces = self.pieces(number);
        let client = &mut self.clients[number as usize];
        let operation = client.operation.as_mut().expect("it is under way");
        operation.then = NextStep::End;
        operation.waits = pieces.iter().map(|piece| piece.number).collect();
        client.sending.extend(pieces);
        self.send(number);
    }

    /// Returns the operation's bytes, stripe by stripe.
    fn pieces(&mut self, number: u32) -> Vec<Piece> {
        let operation = self.clients[number as usize].operation.as_ref().expect("it is under way");
        let (file, range) = (operation.file, operation.range.clone());
        let token = self.setup.protocol == Protocol::Token;
        let found = self.striping.pieces(range).collect::<Vec<_>>();
        let piece = |found: pario_layout::StripePiece| Piece {
            number: self.next_number(),
            client: number,
            server: found.server.0,
            manager: if token { 0 } else { u32::from(found.server.0) },
            file,
            local: found.local,
            place: if token { found.offset.0 } else { found.local },
            len: found.len,
        };
        found.into_iter().map(piece).collect()
    }

    /// Sends the client's next piece, unless it sends one already.
    fn send(&mut self, number: u32) {
        let client = &mut self.clients[number as usize];
        if client.is_sending {
            return;
        }
        let Some(piece) = client.sending.pop_front() else { return };
        client.is_sending = true;
        let rank = client.rank;
        let machine = &self.setup.machine;
        let now = self.queue.now();
        let (begin, _) = self.shuffle.outward(rank).take(now, transfer_ns(piece.len, machine.node_rate));
        let ns = self.jittered(transfer_ns(piece.len, machine.client_rate));
        self.messages.data += 1;
        self.queue.schedule(begin + ns, Event::PieceSent(piece));
    }

    /// A piece has left its client; it may have to wait on its server's link.
    pub fn piece_sent(&mut self, piece: Piece) {
        let (server, number) = (usize::from(piece.server), piece.client);
        // The link may be slower or faster than the client: its last byte cannot arrive before the client's last.
        let carried = transfer_ns(piece.len, self.setup.machine.server_rate);
        let last = self.queue.now() + self.latency();
        let ready = crate::event_queue::SimTime(last.0.saturating_sub(carried));
        let arrives = self.servers[server].inward.take(ready, carried).1;
        self.queue.schedule(arrives.max(last), Event::PieceArrived(piece));
        self.clients[number as usize].is_sending = false;
        self.send(number);
    }

    /// The client receives the acknowledgement of a piece.
    pub fn piece_acknowledged(&mut self, piece: Piece) {
        let now = self.queue.now();
        self.done = self.done.max(now);
        let client = &mut self.clients[piece.client as usize];
        if client.dirty.remove(&piece.number).is_some() {
            client.dirty_bytes -= piece.len;
            self.piece_cleaned(piece.client, piece.number);
            if self.clients[piece.client as usize].wants_room {
                self.resume(piece.client);
            }
        } else {
            self.complete_wait(piece.client, piece.number);
        }
    }

    /// The operation waits for one thing less.
    pub fn complete_wait(&mut self, number: u32, what: u64) {
        let Some(operation) = &mut self.clients[number as usize].operation else { return };
        let locked = operation.taken.len() == operation.locks.len();
        if operation.waits.remove(&what) && operation.waits.is_empty() && locked {
            self.resume(number);
        }
    }

    fn end(&mut self, number: u32) {
        let operation = self.clients[number as usize].operation.take().expect("it is under way");
        self.unlock(number, &operation.taken);
        self.next_request(number);
    }
}
