//! Traffic between many sources and a partition's servers: links, processors, storage.
//!
//! Each source sends its messages one after the other, at the rate of its node's link. A server's link and processor take
//! them in order of arrival. Its cache answers at once as long as its storage is not too far behind.

use crate::event_queue::{EventQueue, SimTime};
use crate::link::{Link, transfer_ns};
use crate::machine::Machine;

/// Data of one source for one server: contiguous in the message, in pieces on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The server.
    pub server: u16,
    /// The number of bytes.
    pub bytes: u64,
    /// The number of pieces on the server.
    pub pieces: u64,
}

/// The links, processors and storage of nodes and servers.
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
    /// The number of messages so far.
    pub messages: u64,
}

#[derive(Debug)]
enum Event {
    /// A source sends its next message.
    Next(u32),
    /// A message has arrived at its server.
    Arrived(u32, Message),
}

/// The direction in which a link is used.
const OUT: usize = 0;
const IN: usize = 1;

impl<'a> Traffic<'a> {
    /// Creates the links of so many nodes and servers.
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

    /// Lets sources begin at their times; source i runs on node `node(i)` and has the messages `list(i)`. Returns for each
    /// source the time at which its last message was answered.
    pub fn deliver(
        &mut self,
        begin: &[SimTime],
        node: impl Fn(u32) -> usize,
        mut list: impl FnMut(u32) -> Vec<Message>,
    ) -> Vec<SimTime> {
        let mut queue = EventQueue::default();
        for (source, &at) in (0..).zip(begin) {
            queue.schedule(at, Event::Next(source));
        }
        let mut lists: Vec<Option<std::vec::IntoIter<Message>>> = begin.iter().map(|_| None).collect();
        let mut done = begin.to_vec();
        while let Some(event) = queue.pop() {
            let now = queue.now();
            match event {
                Event::Next(source) => {
                    let place = &mut lists[source as usize];
                    let Some(message) = place.get_or_insert_with(|| list(source).into_iter()).next() else {
                        *place = Some(Vec::new().into_iter());
                        continue;
                    };
                    self.messages += 1;
                    let sent = self.send(now, node(source), &message);
                    queue.schedule(sent, Event::Next(source));
                    queue.schedule(sent + self.machine.latency, Event::Arrived(source, message));
                }
                Event::Arrived(source, message) => {
                    let answered = self.serve(now, node(source), &message);
                    done[source as usize] = done[source as usize].max(answered);
                }
            }
        }
        done
    }

    /// Returns the time at which a source can send its next message.
    fn send(&mut self, now: SimTime, node: usize, message: &Message) -> SimTime {
        let machine = self.machine;
        let same = self.shared && node == usize::from(message.server);
        let ns = if !self.write {
            machine.message_time
        } else if same {
            transfer_ns(message.bytes, machine.copy_rate)
        } else {
            transfer_ns(message.bytes, machine.node_rate)
        };
        if same { now + ns } else { self.nodes[node][OUT].take(now, ns).1 }
    }

    /// Returns the time at which the source has the acknowledgement of its data, or the data that it reads.
    fn serve(&mut self, now: SimTime, node: usize, message: &Message) -> SimTime {
        let (machine, server) = (self.machine, usize::from(message.server));
        let same = self.shared && node == server;
        let carried = if same { 0 } else { transfer_ns(message.bytes, machine.server_rate) };
        let way = if self.write { IN } else { OUT };
        let link = if self.shared { &mut self.nodes[server][way] } else { &mut self.servers[server][way] };
        let handling = machine.request_time
            + message.pieces * machine.piece_time
            + transfer_ns(message.bytes, machine.copy_rate);
        let stored = transfer_ns(message.bytes, machine.storage_rate);
        if self.write {
            let arrived = link.take(now, carried).1;
            let handled = self.cores[server].take(arrived, handling).1;
            let (_, kept) = self.storage[server].take(handled, stored);
            // The cache is ahead of the storage by no more than its size.
            let ahead = transfer_ns(machine.server_buffer, machine.storage_rate);
            handled.max(SimTime(kept.0.saturating_sub(ahead))) + machine.latency
        } else {
            let read = self.storage[server].take(now, stored).1;
            let handled = self.cores[server].take(read, handling).1;
            let sent = link.take(handled, carried).1;
            let taken = if same {
                sent
            } else {
                self.nodes[node][IN].take(sent, transfer_ns(message.bytes, machine.node_rate)).1
            };
            taken + machine.latency
        }
    }

    /// Returns for each kind of resource the time for which the busiest was in use.
    pub fn used(&self) -> Vec<(&'static str, u64)> {
        let most = |links: &mut dyn Iterator<Item = &Link>| links.map(Link::used_ns).max().unwrap_or(0);
        vec![
            ("link of a node", most(&mut self.nodes.iter().flatten())),
            ("link of a server", most(&mut self.servers.iter().flatten())),
            ("processor of a server", most(&mut self.cores.iter())),
            ("storage of a server", most(&mut self.storage.iter())),
        ]
    }

    /// Returns the time at which storage has everything.
    pub fn stored(&self) -> SimTime {
        self.storage.iter().map(Link::free).max().unwrap_or(SimTime(0))
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
            let done = traffic.deliver(&[SimTime(7)], |_| 0, |_| vec![message]);
            let handling =
                machine.request_time + 3 * machine.piece_time + transfer_ns(1 << 20, machine.copy_rate);
            let links = transfer_ns(1 << 20, machine.node_rate) + transfer_ns(1 << 20, machine.server_rate);
            let asked =
                if write { 0 } else { machine.message_time + transfer_ns(1 << 20, machine.storage_rate) };
            assert_eq!(done, [SimTime(7 + asked + links + handling + 2 * machine.latency)], "{write}");
            assert_eq!(traffic.messages, 1);
        }
    }

    #[test]
    fn a_full_cache_waits_for_storage() {
        let machine = Machine { server_buffer: 1 << 20, storage_rate: 1_000_000, ..Machine::default() };
        let mut traffic = Traffic::new(&machine, 1, 1, false, true);
        let message = Message { server: 0, bytes: 1 << 20, pieces: 1 };
        let done = traffic.deliver(&[SimTime(0)], |_| 0, |_| vec![message; 4]);
        // Four MiB at 1 MB/s; the last MiB may still be in the cache.
        assert!(done[0].seconds() > 3.1 && done[0].seconds() < 3.2, "{done:?}");
        assert!(traffic.stored().seconds() > 4.1);
    }
}
