//! The assignment of file blocks to agents, and the division of a request along it. Pure computation.
//!
//! Block `b` of `unit` bytes belongs to `agents[b % agents.len()]`. A rank may be named repeatedly, and owns
//! contiguous blocks where it is named in a row. For a view whose offsets ascend, the bytes of a run of
//! blocks are a range of positions, found by two descents (`rank`, `select`), so a request costs its touched
//! blocks, not its pieces.

use std::collections::BTreeMap;
use std::sync::Arc;

use pario_types::{Offset, Pos};
use pario_view::View;

use crate::error::Error;

/// The assignment of a file's blocks to agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockMap {
    unit: u64,
    agents: Arc<[u32]>,
    /// The number of blocks from this one on with the same owner; 0 if all have.
    runs: Arc<[u64]>,
}

/// Positions of a view, all in one run of blocks or all of one agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ViewPart {
    pub at: u64,
    pub len: u64,
}

impl BlockMap {
    /// Assigns block `b` of `unit` bytes to rank `agents[b % agents.len()]`.
    pub fn new(unit: u64, agents: Vec<u32>) -> Result<BlockMap, Error> {
        if unit == 0 || agents.is_empty() {
            return Err(Error::Map);
        }
        let n = agents.len();
        let mut runs = vec![1; n];
        for i in (0..2 * n).rev() {
            let (here, next) = (i % n, (i + 1) % n);
            if agents[here] == agents[next] {
                runs[here] = runs[next] + 1;
            }
        }
        if agents.iter().all(|&agent| agent == agents[0]) {
            runs.fill(0);
        }
        Ok(BlockMap { unit, agents: agents.into(), runs: runs.into() })
    }

    /// Bytes of a block.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// The agents of the first blocks, which all later blocks repeat.
    pub fn agents(&self) -> &[u32] {
        &self.agents
    }

    /// The rank that owns the byte at an offset.
    pub fn owner(&self, at: Offset) -> u32 {
        self.agents[self.index(at.0 / self.unit)]
    }

    fn index(&self, block: u64) -> usize {
        (block % self.agents.len() as u64) as usize
    }

    /// The offset after `at` at which the owner changes; the largest number if it never does.
    fn run_end(&self, at: u64) -> Offset {
        let block = at / self.unit;
        match self.runs[self.index(block)] {
            0 => Offset(u64::MAX),
            run => Offset((block + run).saturating_mul(self.unit)),
        }
    }

    /// The rounds in which rank `home` ships `len` bytes of the view from `at`.
    pub(crate) fn rounds<'a>(
        &'a self,
        view: &'a View,
        at: Pos,
        len: u64,
        home: u32,
        limit: u64,
    ) -> ShippingRounds<'a> {
        ShippingRounds { map: self, view, at: at.0, end: at.0 + len, home, limit }
    }

    /// The blocks of one rank.
    pub(crate) fn owned_by(&self, rank: u32) -> OwnedBlocks {
        let mine = (0..self.agents.len()).filter(|&i| self.agents[i] == rank).collect();
        OwnedBlocks { map: self.clone(), mine }
    }
}

/// A range of positions of which no agent owns more than a frame holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShippingRound {
    pub at: u64,
    pub len: u64,
    /// By rank.
    pub shares: BTreeMap<u32, AgentShare>,
}

/// The part of a round that one rank owns.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AgentShare {
    pub bytes: u64,
    pub parts: Vec<ViewPart>,
}

impl AgentShare {
    /// Adds positions, merged with those before if `join` and there is no gap.
    fn push(&mut self, part: ViewPart, join: bool) {
        self.bytes += part.len;
        match self.parts.last_mut() {
            Some(last) if join && last.at + last.len == part.at => last.len += part.len,
            _ => self.parts.push(part),
        }
    }
}

/// A round has at most about this many parts, so that its memory does not depend on the request.
const MOST_PARTS: usize = 4096;

/// See [`BlockMap::rounds`].
pub(crate) struct ShippingRounds<'a> {
    map: &'a BlockMap,
    view: &'a View,
    at: u64,
    end: u64,
    home: u32,
    limit: u64,
}

impl Iterator for ShippingRounds<'_> {
    type Item = ShippingRound;

    fn next(&mut self) -> Option<ShippingRound> {
        let start = self.at;
        let mut shares: BTreeMap<u32, AgentShare> = BTreeMap::new();
        for _ in 0..MOST_PARTS {
            if self.at >= self.end {
                break;
            }
            let offset = self.view.select(Pos(self.at))?;
            let owner = self.map.owner(offset);
            let share = shares.entry(owner).or_default();
            // The rank's own share needs no frame. Its parts stay separate, because a sieving window over several of
            // them would include blocks of other ranks.
            let home = owner == self.home;
            let room = if home { u64::MAX } else { self.limit - share.bytes };
            if room == 0 {
                break;
            }
            let run = self.view.rank(self.map.run_end(offset.0)).0.min(self.end) - self.at;
            share.push(ViewPart { at: self.at, len: run.min(room) }, !home);
            self.at += run.min(room);
        }
        (self.at > start).then(|| ShippingRound { at: start, len: self.at - start, shares })
    }
}

/// The blocks of one rank.
#[derive(Clone, Debug)]
pub(crate) struct OwnedBlocks {
    map: BlockMap,
    /// Indexes of its blocks among those that repeat, ascending.
    mine: Vec<usize>,
}

impl OwnedBlocks {
    /// The positions among `len` from `at` whose bytes the rank owns, one part per run of blocks.
    pub fn parts<'a>(&'a self, view: &'a View, at: u64, len: u64) -> impl Iterator<Item = ViewPart> + 'a {
        let (mut at, end) = (at, at + len);
        std::iter::from_fn(move || {
            while at < end {
                let offset = view.select(Pos(at))?.0;
                let own = self.next_own(offset)?;
                if own > offset {
                    at = view.rank(Offset(own)).0;
                    continue;
                }
                let part = ViewPart { at, len: view.rank(self.map.run_end(offset)).0.min(end) - at };
                at += part.len;
                return Some(part);
            }
            None
        })
    }

    /// The first offset from `at` on that the rank owns.
    fn next_own(&self, at: u64) -> Option<u64> {
        let block = at / self.map.unit;
        let (here, n) = (self.map.index(block), self.map.agents.len());
        let next = match self.mine.get(self.mine.partition_point(|&index| index < here)) {
            Some(&index) if index == here => return Some(at),
            Some(&index) => index - here,
            None => n - here + self.mine.first()?,
        };
        block.checked_add(next as u64)?.checked_mul(self.map.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_reference_model::arb_file_type;
    use pario_view::Pattern;
    use proptest::prelude::*;

    #[test]
    fn blocks_are_assigned_round_robin_in_contiguous_rows() {
        let map = BlockMap::new(10, vec![3, 3, 5, 3]).unwrap();
        let owners: Vec<u32> = (0..8).map(|b| map.owner(Offset(b * 10 + 9))).collect();
        assert_eq!(owners, [3, 3, 5, 3, 3, 3, 5, 3]);
        assert_eq!(map.run_end(0), Offset(20));
        assert_eq!(map.run_end(25), Offset(30));
        assert_eq!(map.run_end(35), Offset(60));
        assert_eq!(BlockMap::new(10, vec![7, 7]).unwrap().run_end(35), Offset(u64::MAX));
        assert!(BlockMap::new(0, vec![1]).is_err() && BlockMap::new(1, vec![]).is_err());
    }

    #[test]
    fn a_local_share_ends_with_its_blocks_even_if_the_view_continues() {
        // 4 bytes every 20: the blocks between belong to another and are not touched.
        let map = BlockMap::new(10, vec![0, 1]).unwrap();
        let tile = pario_view::Datatype {
            lb: 0,
            extent: 20,
            shape: pario_view::Shape::Resized {
                lb: 0,
                extent: 20,
                child: Arc::new(pario_view::Datatype {
                    lb: 0,
                    extent: 4,
                    shape: pario_view::Shape::Contiguous {
                        count: 4,
                        child: Arc::new(pario_view::Datatype::byte()),
                    },
                }),
            },
        };
        let view = View::new(Offset(0), Pattern::native(&tile).unwrap());
        let round = map.rounds(&view, Pos(0), 8, 0, 100).next().unwrap();
        assert_eq!(round.shares[&0].parts, [ViewPart { at: 0, len: 4 }, ViewPart { at: 4, len: 4 }]);
        let round = map.rounds(&view, Pos(0), 8, 1, 100).next().unwrap();
        assert_eq!(round.shares[&0].parts, [ViewPart { at: 0, len: 8 }]);
        let parts: Vec<ViewPart> = map.owned_by(0).parts(&view, 1, 6).collect();
        assert_eq!(parts, [ViewPart { at: 1, len: 3 }, ViewPart { at: 4, len: 3 }]);
        assert_eq!(map.owned_by(1).parts(&view, 0, 8).count(), 0);
        assert_eq!(map.owned_by(9).parts(&view, 0, 8).count(), 0);
    }

    fn bytes_of(parts: impl IntoIterator<Item = ViewPart>) -> Vec<u64> {
        parts.into_iter().flat_map(|part| part.at..part.at + part.len).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn every_byte_is_in_one_share_and_agents_find_their_own(
            filetype in arb_file_type(), disp in 0u64..200, at in 0u64..500, len in 1u64..4000,
            unit in prop_oneof![16u64..200, Just(4096)], agents in prop::collection::vec(0u32..4, 1..6),
            home in 0u32..5, limit in prop_oneof![1u64..50, Just(1000u64), Just(1 << 20)],
        ) {
            let view = View::new(Offset(disp), Pattern::native(&filetype).unwrap());
            prop_assume!(view.tile().size() > 0 && view.is_monotone());
            let map = BlockMap::new(unit, agents).unwrap();
            let mut next = at;
            for round in map.rounds(&view, Pos(at), len, home, limit) {
                prop_assert_eq!(round.at, next);
                let mut all = Vec::new();
                for (&rank, share) in &round.shares {
                    let bytes = bytes_of(share.parts.iter().copied());
                    prop_assert_eq!(bytes.len() as u64, share.bytes);
                    prop_assert!(rank == home || share.bytes <= limit);
                    for &byte in &bytes {
                        prop_assert_eq!(map.owner(view.select(Pos(byte)).unwrap()), rank);
                    }
                    let owned = map.owned_by(rank);
                    let parts: Vec<ViewPart> = owned.parts(&view, round.at, round.len).collect();
                    for part in &parts {
                        let first = view.select(Pos(part.at)).unwrap().0;
                        let last = view.select(Pos(part.at + part.len - 1)).unwrap().0;
                        prop_assert!(Offset(last) < map.run_end(first));
                    }
                    prop_assert_eq!(&bytes_of(parts), &bytes);
                    all.extend(bytes);
                }
                all.sort_unstable();
                prop_assert_eq!(all, (round.at..round.at + round.len).collect::<Vec<_>>());
                next = round.at + round.len;
            }
            prop_assert_eq!(next, at + len);
        }
    }
}
