//! Random accesses by two teams and another program, one after the other, against a vector of bytes: every client reads what
//! was written last, wherever it is cached.

use std::sync::Arc;
use std::time::Duration;

use pario_types::ServerId;
use proptest::prelude::*;

use super::super::state::{MailboxState, State};
use super::super::{Shared, TierFile, TierOptions};
use super::world::{FILE, SimulatedServers};

const REACH: u64 = 400;

/// Team 1 has two processes, whose blocks alternate; team 2 has one.
const MEMBERS: [u128; 3] = [1, 1, 2];

#[derive(Clone, Debug)]
enum Act {
    Read {
        team: u128,
        at: u64,
        len: u64,
    },
    Write {
        team: u128,
        at: u64,
        len: u64,
    },
    /// The process of team 2 writes, or reads, bytes in separate pieces.
    Scatter {
        at: u64,
        count: u64,
        gap: u64,
    },
    Gather {
        at: u64,
        count: u64,
        gap: u64,
    },
    /// Reads, changes and writes while the range is held.
    Modify {
        at: u64,
        len: u64,
    },
    OutsiderReads {
        at: u64,
        len: u64,
    },
    OutsiderWrites {
        at: u64,
        len: u64,
    },
    Flush {
        member: usize,
    },
    Cut {
        size: u64,
    },
    OutsiderTruncates {
        size: u64,
    },
    Reopen {
        member: usize,
        retain: bool,
    },
    /// Connections break.
    Break {
        team: u128,
        server: u16,
    },
    /// A server lets other clients continue without a team's processes, which have stored everything.
    CutOff {
        team: u128,
        server: u16,
    },
    Stingy(bool),
}

fn act() -> impl Strategy<Value = Act> {
    let place = || (0..REACH, prop_oneof![1u64..12, 1u64..150]);
    let team = || 1u128..3;
    prop_oneof![
        8 => (team(), place()).prop_map(|(team, (at, len))| Act::Read { team, at, len }),
        12 => (team(), place()).prop_map(|(team, (at, len))| Act::Write { team, at, len }),
        3 => (0..REACH, 1u64..80, 1u64..6).prop_map(|(at, count, gap)| Act::Scatter { at, count, gap }),
        2 => (0..REACH, 1u64..80, 1u64..6).prop_map(|(at, count, gap)| Act::Gather { at, count, gap }),
        2 => place().prop_map(|(at, len)| Act::Modify { at, len }),
        2 => place().prop_map(|(at, len)| Act::OutsiderReads { at, len }),
        2 => place().prop_map(|(at, len)| Act::OutsiderWrites { at, len }),
        1 => (0usize..3).prop_map(|member| Act::Flush { member }),
        1 => (0..REACH).prop_map(|size| Act::Cut { size }),
        1 => (0..REACH).prop_map(|size| Act::OutsiderTruncates { size }),
        1 => (0usize..3, any::<bool>()).prop_map(|(member, retain)| Act::Reopen { member, retain }),
        1 => (team(), 0u16..2).prop_map(|(team, server)| Act::Break { team, server }),
        1 => (team(), 0u16..2).prop_map(|(team, server)| Act::CutOff { team, server }),
        1 => any::<bool>().prop_map(Act::Stingy),
    ]
}

struct Trial {
    world: Arc<SimulatedServers>,
    processes: Vec<Arc<Shared>>,
    files: Vec<Option<TierFile>>,
    options: TierOptions,
    model: Vec<u8>,
    mark: u8,
}

impl Trial {
    fn new(stripe: u64, options: TierOptions) -> Trial {
        let world = SimulatedServers::new(stripe, 2);
        let processes: Vec<_> = MEMBERS.iter().map(|_| Shared::new()).collect();
        let each = |(process, team): (&Arc<Shared>, &u128)| Some(world.open(process, *team, &options));
        let files = processes.iter().zip(&MEMBERS).map(each).collect();
        Trial { world, processes, files, options, model: Vec::new(), mark: 0 }
    }

    fn fresh(&mut self, len: u64) -> Vec<u8> {
        self.mark = self.mark.wrapping_add(1).max(1);
        (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(self.mark)).collect()
    }

    /// An access of a team, divided where another of its processes continues.
    fn parts(&self, team: u128, at: u64, len: u64) -> Vec<(usize, u64, u64)> {
        let (mut parts, mut from) = (Vec::new(), at);
        while from < at + len {
            let to = match team {
                1 => ((from / self.options.block + 1) * self.options.block).min(at + len),
                _ => at + len,
            };
            let member = if team == 1 { (from / self.options.block % 2) as usize } else { 2 };
            parts.push((member, from, to - from));
            from = to;
        }
        parts
    }

    fn file(&self, member: usize) -> &TierFile {
        self.files[member].as_ref().expect("open")
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        let end = at as usize + bytes.len();
        self.model.resize(self.model.len().max(end), 0);
        self.model[at as usize..end].copy_from_slice(bytes);
    }

    fn read(&self, member: usize, at: u64, len: u64) {
        let mut bytes = vec![0xee; len as usize];
        let key = (MEMBERS[member], FILE);
        // The process knows at least this much of the file's size; others of its team may know more.
        let known = self.processes[member].lock().file(key).dirty_end().max(self.world.bytes().len() as u64);
        let count = self.file(member).read_at(&mut bytes, at).expect("read");
        let there = self.model.len().saturating_sub(at as usize).min(len as usize);
        assert!(count <= there, "read {count} bytes where there are {there}");
        assert!(
            count as u64 >= known.saturating_sub(at).min(len),
            "read {count} bytes, the file has {known}"
        );
        assert_eq!(bytes[..count], self.model[(at as usize).min(self.model.len())..][..count]);
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Read { team, at, len } => {
                self.parts(team, at, len)
                    .into_iter()
                    .for_each(|(member, at, len)| self.read(member, at, len));
            }
            Act::Write { team, at, len } => {
                for (member, at, len) in self.parts(team, at, len) {
                    let bytes = self.fresh(len);
                    self.file(member).write_at(&bytes, at).expect("written");
                    self.put(at, &bytes);
                    assert!(self.file(member).end() >= at + len);
                }
            }
            Act::Scatter { at, count, gap } => {
                let bytes = self.fresh(count);
                let places = (0..count).map(|i| at + i * gap);
                let segments: Vec<_> = places.clone().zip(bytes.chunks(1)).collect();
                self.file(2).write_vectored_at(&segments).expect("written");
                places.zip(&bytes).for_each(|(place, byte)| self.put(place, &[*byte]));
            }
            Act::Gather { at, count, gap } => {
                let mut bytes = vec![0xee; count as usize];
                let places: Vec<u64> = (0..count).map(|i| at + i * gap).collect();
                let mut segments: Vec<_> = places.iter().copied().zip(bytes.chunks_mut(1)).collect();
                // Before the read: another team may stage bytes beyond the end at any time.
                let here = self.processes[2].lock().file((2, FILE)).dirty_end();
                let known = here.max(self.world.bytes().len() as u64);
                let read = self.file(2).read_vectored_at(&mut segments).expect("read");
                assert!(read >= places.iter().filter(|place| **place < known).count());
                let expected = places.iter().take(read).map(|place| self.model[*place as usize]);
                assert!(bytes[..read].iter().copied().eq(expected));
            }
            Act::Modify { at, len } => {
                let hold = self.file(2).hold(at..at + len).expect("held");
                self.read(2, at, len);
                let bytes = self.fresh(len);
                self.file(2).write_at(&bytes, at).expect("written");
                self.put(at, &bytes);
                drop(hold);
            }
            Act::OutsiderReads { at, len } => {
                let found = self.world.read(at, len);
                let from = (at as usize).min(self.model.len());
                assert_eq!(found, self.model[from..][..found.len()]);
            }
            Act::OutsiderWrites { at, len } => {
                let bytes = self.fresh(len);
                self.world.write(at, &bytes);
                self.put(at, &bytes);
            }
            Act::Flush { member } => self.file(member).flush().expect("flushed"),
            Act::Cut { size } => {
                (0..3).for_each(|member| self.file(member).cut(size));
                self.world.cut(size);
                self.model.resize(size as usize, 0);
            }
            Act::OutsiderTruncates { size } => {
                // Dirty bytes beyond the size are staged first, so that none of them arrives later.
                self.world.cut(size);
                self.model.resize(size as usize, 0);
            }
            Act::Reopen { member, retain } => {
                let team = MEMBERS[member];
                self.files[member].take().expect("open").close(retain).expect("closed");
                let kept = self.processes[member].lock().files.contains_key(&(team, FILE));
                assert!(retain || !kept, "nothing stays unless it is asked for");
                self.files[member] = Some(self.world.open(&self.processes[member], team, &self.options));
            }
            Act::Break { team, server } => {
                self.world.kill(team, ServerId(server));
                // Otherwise the next request would not wait for them.
                self.world.wait_while(|state| state.is_away(team, ServerId(server)));
            }
            Act::CutOff { team, server } => self.cut_off(team, ServerId(server)),
            Act::Stingy(stingy) => self.world.set(|state| state.stingy = stingy),
        }
        for process in &self.processes {
            let state = process.lock();
            assert_eq!(state.check_invariants(), Ok(()));
            assert!(state.used <= self.options.bytes && state.counters.peak_bytes <= self.options.bytes);
        }
    }

    /// Everything is stored, and the leases are gone; waits until the processes know.
    fn cut_off(&self, team: u128, server: ServerId) {
        let members: Vec<usize> = (0..3).filter(|member| MEMBERS[*member] == team).collect();
        for member in &members {
            self.file(*member).flush().expect("flushed");
        }
        let number = |state: &State| match state.mailboxes.get(&(team, server)) {
            Some(MailboxState::Up { number, .. }) => Some(*number),
            _ => None,
        };
        let before: Vec<_> = members.iter().map(|member| number(&self.processes[*member].lock())).collect();
        self.world.cut_off(team, server);
        for (member, before) in members.into_iter().zip(before) {
            let process = &self.processes[member];
            let mut state = process.lock();
            while number(&state).is_some_and(|now| Some(now) == before) {
                state = process.wait(state, Duration::from_secs(10));
            }
            assert_eq!(state.file((team, FILE)).lost, None, "all of it was stored");
        }
    }

    fn end(mut self) {
        for member in 0..3 {
            self.files[member].take().expect("open").close(false).expect("closed");
            let state = self.processes[member].lock();
            assert_eq!((state.used, state.dirty_bytes), (0, 0), "no memory is left");
            assert_eq!(state.files.len(), 0);
        }
        assert_eq!(self.world.bytes(), self.model);
    }
}

fn options() -> impl Strategy<Value = (u64, TierOptions)> {
    let sizes = prop_oneof![Just((16u64, 16u64)), Just((8, 16)), Just((32, 8))];
    (sizes, 2u64..10, 0u64..2).prop_map(|((stripe, block), blocks, settle)| {
        let settle = Duration::from_millis(settle * 1000);
        (stripe, TierOptions { bytes: block * blocks, block, high: 50, low: 25, settle })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn every_client_reads_the_last_write(
        (stripe, options) in options(), near in any::<bool>(), acts in prop::collection::vec(act(), 1..60),
    ) {
        let mut trial = Trial::new(stripe, options);
        trial.world.set(|state| state.near = near);
        acts.iter().for_each(|act| trial.act(act));
        trial.end();
    }
}
