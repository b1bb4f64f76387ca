//! Reads and read-ahead.
//!
//! After each read a client requests the bytes that follow: a small amount after a read that is not sequential, twice as
//! much after each sequential one. Bytes that are read ahead and never used cost the servers as much as any others.

use std::ops::Range;

use super::server::ReadRequest;
use super::{Event, Run};
use crate::setup::Protocol;

/// The bytes that a client requested before it needed them.
#[derive(Debug, Default)]
pub struct ReadAhead {
    /// The end of the latest read.
    end: Option<u64>,
    /// The amount of the next read-ahead.
    amount: u64,
    /// Ranges that are not used yet, in order: with each its request, and whether it was answered.
    unused: Vec<(Range<u64>, u64, bool)>,
    asked: u64,
    used: u64,
}

impl ReadAhead {
    /// Bytes that were requested and never used.
    pub fn wasted(&self) -> u64 {
        self.asked - self.used
    }

    /// Looks up a read of this range. Returns the missing ranges, and the requests under way that bring the rest.
    pub fn lookup(&mut self, range: &Range<u64>) -> (Vec<Range<u64>>, Vec<u64>) {
        let (mut missing, mut coming) = (Vec::new(), Vec::new());
        let mut at = range.start;
        for (ahead, request, answered) in &mut self.unused {
            let part = ahead.start.max(range.start)..ahead.end.min(range.end);
            if part.is_empty() {
                continue;
            }
            if at < part.start {
                missing.push(at..part.start);
            }
            at = part.end;
            self.used += part.end - part.start;
            if !*answered {
                coming.push(*request);
            }
            ahead.start = part.end;
        }
        if at < range.end {
            missing.push(at..range.end);
        }
        let follows = self.end == Some(range.start);
        self.unused.retain(|(ahead, ..)| follows && !ahead.is_empty() && ahead.start >= range.end);
        (missing, coming)
    }

    /// Returns the range to request after a read of `range`, in a file of `size` bytes.
    fn next(&mut self, range: &Range<u64>, first: u64, most: u64, size: u64) -> Range<u64> {
        let follows = self.end == Some(range.start);
        self.amount = if follows { (self.amount * 2).clamp(first, most.max(first)) } else { first };
        self.end = Some(range.end);
        let from = self.unused.last().map_or(range.end, |(ahead, ..)| ahead.end.max(range.end));
        from..range.end.saturating_add(self.amount).min(size).max(from)
    }
}

impl Run<'_> {
    /// A reader has the lock of one manager: it requests the pieces that the lock covers.
    pub fn fetch(&mut self, number: u32, manager: u32) {
        let token = self.setup.protocol == Protocol::Token;
        let operation = self.clients[number as usize].operation.as_mut().expect("it is under way");
        let (here, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut operation.unread)
            .into_iter()
            .partition(|piece| token || u32::from(piece.server.0) == manager);
        operation.unread = rest;
        let file = operation.file;
        let mut requests = Vec::new();
        for piece in here {
            self.cache_block(number, manager, file, piece.local);
            requests.push(self.send_read(number, piece));
        }
        let operation = self.clients[number as usize].operation.as_mut().expect("it is under way");
        operation.waits.extend(requests);
    }

    /// A reader has all its locks: it reads ahead, and waits for the pieces that it needs.
    pub fn read_ahead(&mut self, number: u32) {
        let machine = &self.setup.machine;
        let (first, most, size) = (machine.ahead_first, machine.ahead_most, self.work.size(self.call));
        let client = &mut self.clients[number as usize];
        let range = client.operation.as_ref().expect("it is under way").range.clone();
        let more = match self.setup.protocol {
            // A client reads only what is leased.
            Protocol::Lease => 0..0,
            Protocol::Server | Protocol::Token => client.ahead.next(&range, first, most, size),
        };
        for piece in self.striping.pieces(more).collect::<Vec<_>>() {
            let part = piece.offset.0..piece.offset.0 + piece.len;
            let request = self.send_read(number, piece);
            let ahead = &mut self.clients[number as usize].ahead;
            ahead.asked += piece.len;
            ahead.unused.push((part, request, false));
        }
        let operation = self.clients[number as usize].operation.as_ref().expect("it is under way");
        if operation.waits.is_empty() {
            self.resume(number);
        }
    }

    /// Sends a server a request for a piece. Returns the number of the request.
    pub fn send_read(&mut self, number: u32, piece: pario_layout::StripePiece) -> u64 {
        let request = self.next_number();
        let file = self.work.file(self.call);
        let read = ReadRequest { client: number, request, file, local: piece.local, len: piece.len };
        self.messages.data += 1;
        let at = self.queue.now() + self.latency();
        self.queue.schedule(at, Event::ReadArrived { server: piece.server.0, read });
        request
    }

    /// A client has received the reply to a request.
    pub fn read_answered(&mut self, number: u32, request: u64) {
        let ahead = &mut self.clients[number as usize].ahead;
        ahead.unused.iter_mut().filter(|(_, r, _)| *r == request).for_each(|(.., answered)| *answered = true);
        self.complete_wait(number, request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_in_order_find_what_was_read_ahead() {
        let mut ahead = ReadAhead::default();
        let mut step = |range: Range<u64>, request| {
            let (missing, coming) = ahead.lookup(&range);
            let more = ahead.next(&range, 4, 16, 1000);
            ahead.asked += more.end - more.start;
            if !more.is_empty() {
                ahead.unused.push((more.clone(), request, false));
            }
            let missing: Vec<(u64, u64)> = missing.iter().map(|part| (part.start, part.end)).collect();
            (missing, coming, more)
        };
        assert_eq!(step(0..100, 1), (vec![(0, 100)], vec![], 100..104));
        assert_eq!(step(100..200, 2), (vec![(104, 200)], vec![1], 200..208));
        assert_eq!(step(200..300, 3), (vec![(208, 300)], vec![2], 300..316));
        assert_eq!(step(300..310, 4), (vec![], vec![3], 316..326));
        // A read elsewhere: the rest of the read-ahead is wasted, and it starts again with the first amount.
        assert_eq!(step(500..600, 5), (vec![(500, 600)], vec![], 600..604));
        assert_eq!(step(900..998, 6), (vec![(900, 998)], vec![], 998..1000));
        assert_eq!(ahead.wasted(), (326 - 310) + 4 + 2);
    }
}
