//! Reading, and reading ahead.
//!
//! After each read a client asks for what follows, in the hope that it will be wanted: a little after a read that does
//! not follow the one before, twice as much each time one does. What it hoped for in vain has cost the servers the
//! same as anything else.

use std::ops::Range;

use super::server::Wish;
use super::{Event, Run};
use crate::setup::Protocol;

/// What a client has asked for ahead of its use.
#[derive(Debug, Default)]
pub struct Ahead {
    /// The end of the latest read.
    end: Option<u64>,
    /// How much ahead the next time.
    amount: u64,
    /// Ranges that nobody has used, in order: with each its request, and whether it was answered.
    unused: Vec<(Range<u64>, u64, bool)>,
    asked: u64,
    used: u64,
}

impl Ahead {
    /// Bytes that were asked for and never used.
    pub fn wasted(&self) -> u64 {
        self.asked - self.used
    }

    /// A read of this range: what is missing, and the requests under way that bring the rest.
    pub fn claim(&mut self, range: &Range<u64>) -> (Vec<Range<u64>>, Vec<u64>) {
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

    /// After a read of this range: what to ask for now, in a file of `size` bytes.
    fn next(&mut self, range: &Range<u64>, first: u64, most: u64, size: u64) -> Range<u64> {
        let follows = self.end == Some(range.start);
        self.amount = if follows { (self.amount * 2).clamp(first, most.max(first)) } else { first };
        self.end = Some(range.end);
        let from = self.unused.last().map_or(range.end, |(ahead, ..)| ahead.end.max(range.end));
        from..range.end.saturating_add(self.amount).min(size).max(from)
    }
}

impl Run<'_> {
    /// A reader has the lock of one manager: it asks for what that covers.
    pub fn fetch(&mut self, number: u32, keeper: u32) {
        let token = self.setup.protocol == Protocol::Token;
        let operation = self.clients[number as usize].operation.as_mut().expect("it is under way");
        let (here, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut operation.unread)
            .into_iter()
            .partition(|piece| token || u32::from(piece.server.0) == keeper);
        operation.unread = rest;
        let file = operation.file;
        let mut requests = Vec::new();
        for piece in here {
            self.keep(number, keeper, file, piece.local);
            requests.push(self.ask(number, piece));
        }
        let operation = self.clients[number as usize].operation.as_mut().expect("it is under way");
        operation.waits.extend(requests);
    }

    /// A reader has all its locks: it asks for some more than it needs, and waits for what it needs.
    pub fn read_ahead(&mut self, number: u32) {
        let machine = &self.setup.machine;
        let (first, most, size) = (machine.ahead_first, machine.ahead_most, self.work.size(self.call));
        let client = &mut self.clients[number as usize];
        let range = client.operation.as_ref().expect("it is under way").range.clone();
        let more = match self.setup.protocol {
            // What is not leased is not read.
            Protocol::Lease => 0..0,
            Protocol::Server | Protocol::Token => client.ahead.next(&range, first, most, size),
        };
        for piece in self.striping.pieces(more).collect::<Vec<_>>() {
            let part = piece.offset.0..piece.offset.0 + piece.len;
            let request = self.ask(number, piece);
            let ahead = &mut self.clients[number as usize].ahead;
            ahead.asked += piece.len;
            ahead.unused.push((part, request, false));
        }
        let operation = self.clients[number as usize].operation.as_ref().expect("it is under way");
        if operation.waits.is_empty() {
            self.go_on(number);
        }
    }

    /// Asks a server for a piece; the request's number.
    pub fn ask(&mut self, number: u32, piece: pario_layout::StripePiece) -> u64 {
        let request = self.number();
        let file = self.work.file(self.call);
        let wish = Wish { client: number, request, file, local: piece.local, len: piece.len };
        self.messages.data += 1;
        let at = self.agenda.now() + self.latency();
        self.agenda.put(at, Event::Asked { server: piece.server.0, wish });
        request
    }

    /// A client has what it asked for.
    pub fn received(&mut self, number: u32, request: u64) {
        let ahead = &mut self.clients[number as usize].ahead;
        ahead.unused.iter_mut().filter(|(_, r, _)| *r == request).for_each(|(.., answered)| *answered = true);
        self.answered(number, request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_in_order_find_what_was_read_ahead() {
        let mut ahead = Ahead::default();
        let mut step = |range: Range<u64>, request| {
            let (missing, coming) = ahead.claim(&range);
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
        // Elsewhere: the rest was in vain, and it begins anew.
        assert_eq!(step(500..600, 5), (vec![(500, 600)], vec![], 600..604));
        assert_eq!(step(900..998, 6), (vec![(900, 998)], vec![], 998..1000));
        assert_eq!(ahead.wasted(), (326 - 310) + 4 + 2);
    }
}
