//! Many who send to, or read from, a partition's servers: links, processors, storage.
//!
//! Everyone sends its messages one after the other, as fast as its node's link takes them. A server's link and processor
//! take them as they come; its cache answers at once as long as its storage is not too far behind.

use crate::agenda::{Agenda, Time};
use crate::link::{Link, span};
use crate::machine::Machine;

/// Data of one source for one server: contiguous in the message, in pieces on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Which server.
    pub server: u16,
    /// How many bytes.
    pub bytes: u64,
    /// In how many pieces they lie there.
    pub pieces: u64,
}

/// Nodes and servers.
#[derive(Debug)]
pub struct Traffic<'a> {
    machine: &'a Machine,
    /// Whether servers run on the nodes of the ranks, the first on the first, and share their links.
    shared: bool,
    write: bool,
    nodes: Vec<[Link; 2]>,
    servers: Vec<[Link; 2]>,
    cores: Vec<Link>,
    storage: Vec<Link>,
    /// Messages so far.
    pub messages: u64,
}

#[derive(Debug)]
enum Event {
    /// A source has its next message to send.
    Next(u32),
    /// A message is at its server.
    There(u32, Message),
}

/// Which way a link is used.
const OUT: usize = 0;
const IN: usize = 1;

impl<'a> Traffic<'a> {
    /// Between so many nodes and servers.
    pub fn new(machine: &'a Machine, nodes: usize, servers: u16, shared: bool, write: bool) -> Traffic<'a> {
        let servers = usize::from(servers);
        let both = [Link::default(); 2];
        Traffic {
            machine,
            shared,
            write,
            nodes: vec![both; nodes.max(if shared { servers } else { 0 })],
            servers: vec![both; servers],
            cores: vec![Link::default(); servers],
            storage: vec![Link::default(); servers],
            messages: 0,
        }
    }

    /// Lets sources begin at their times; source i runs on node `node(i)` and has the messages `list(i)`. When the last message
    /// of each was answered.
    pub fn deliver(
        &mut self,
        begin: &[Time],
        node: impl Fn(u32) -> usize,
        mut list: impl FnMut(u32) -> Vec<Message>,
    ) -> Vec<Time> {
        let mut agenda = Agenda::default();
        for (source, &at) in (0..).zip(begin) {
            agenda.put(at, Event::Next(source));
        }
        let mut lists: Vec<Option<std::vec::IntoIter<Message>>> = begin.iter().map(|_| None).collect();
        let mut done = begin.to_vec();
        while let Some(event) = agenda.next() {
            let now = agenda.now();
            match event {
                Event::Next(source) => {
                    let place = &mut lists[source as usize];
                    let Some(message) = place.get_or_insert_with(|| list(source).into_iter()).next() else {
                        *place = Some(Vec::new().into_iter());
                        continue;
                    };
                    self.messages += 1;
                    let left = self.leave(now, node(source), &message);
                    agenda.put(left, Event::Next(source));
                    agenda.put(left + self.machine.latency, Event::There(source, message));
                }
                Event::There(source, message) => {
                    let answered = self.serve(now, node(source), &message);
                    done[source as usize] = done[source as usize].max(answered);
                }
            }
        }
        done
    }

    /// When a source can send its next message.
    fn leave(&mut self, now: Time, node: usize, message: &Message) -> Time {
        let machine = self.machine;
        let same = self.shared && node == usize::from(message.server);
        let ns = if !self.write {
            machine.message_time
        } else if same {
            span(message.bytes, machine.copy_rate)
        } else {
            span(message.bytes, machine.node_rate)
        };
        if same { now + ns } else { self.nodes[node][OUT].take(now, ns).1 }
    }

    /// When the source knows that the server has its data, or has the server's.
    fn serve(&mut self, now: Time, node: usize, message: &Message) -> Time {
        let (machine, server) = (self.machine, usize::from(message.server));
        let same = self.shared && node == server;
        let carried = if same { 0 } else { span(message.bytes, machine.server_rate) };
        let way = if self.write { IN } else { OUT };
        let link = if self.shared { &mut self.nodes[server][way] } else { &mut self.servers[server][way] };
        let handling = machine.request_time
            + message.pieces * machine.piece_time
            + span(message.bytes, machine.copy_rate);
        let stored = span(message.bytes, machine.storage_rate);
        if self.write {
            let arrived = link.take(now, carried).1;
            let handled = self.cores[server].take(arrived, handling).1;
            let (_, kept) = self.storage[server].take(handled, stored);
            // The cache takes no more than its size beyond what storage has.
            let ahead = span(machine.server_buffer, machine.storage_rate);
            handled.max(Time(kept.0.saturating_sub(ahead))) + machine.latency
        } else {
            let read = self.storage[server].take(now, stored).1;
            let handled = self.cores[server].take(read, handling).1;
            let sent = link.take(handled, carried).1;
            let taken = if same {
                sent
            } else {
                self.nodes[node][IN].take(sent, span(message.bytes, machine.node_rate)).1
            };
            taken + machine.latency
        }
    }

    /// How long the busiest of each sort was in use, with its name.
    pub fn used(&self) -> Vec<(&'static str, u64)> {
        let most = |links: &mut dyn Iterator<Item = &Link>| links.map(Link::used_ns).max().unwrap_or(0);
        vec![
            ("link of a node", most(&mut self.nodes.iter().flatten())),
            ("link of a server", most(&mut self.servers.iter().flatten())),
            ("processor of a server", most(&mut self.cores.iter())),
            ("storage of a server", most(&mut self.storage.iter())),
        ]
    }

    /// When storage has everything.
    pub fn stored(&self) -> Time {
        self.storage.iter().map(Link::free).max().unwrap_or(Time(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_passes_every_station_once() {
        let machine = Machine::default();
        for write in [true, false] {
            let mut traffic = Traffic::new(&machine, 1, 1, false, write);
            let message = Message { server: 0, bytes: 1 << 20, pieces: 3 };
            let done = traffic.deliver(&[Time(7)], |_| 0, |_| vec![message]);
            let handling = machine.request_time + 3 * machine.piece_time + span(1 << 20, machine.copy_rate);
            let links = span(1 << 20, machine.node_rate) + span(1 << 20, machine.server_rate);
            let asked = if write { 0 } else { machine.message_time + span(1 << 20, machine.storage_rate) };
            assert_eq!(done, [Time(7 + asked + links + handling + 2 * machine.latency)], "{write}");
            assert_eq!(traffic.messages, 1);
        }
    }

    #[test]
    fn a_full_cache_waits_for_storage() {
        let machine = Machine { server_buffer: 1 << 20, storage_rate: 1_000_000, ..Machine::default() };
        let mut traffic = Traffic::new(&machine, 1, 1, false, true);
        let message = Message { server: 0, bytes: 1 << 20, pieces: 1 };
        let done = traffic.deliver(&[Time(0)], |_| 0, |_| vec![message; 4]);
        // Four MiB at 1 MB/s, of which one need not be there yet.
        assert!(done[0].seconds() > 3.1 && done[0].seconds() < 3.2, "{done:?}");
        assert!(traffic.stored().seconds() > 4.1);
    }
}
