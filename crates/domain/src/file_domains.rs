//! A region divided into file domains.
//!
//! With region lo..hi, n aggregators, lock unit L and S servers:
//!
//! - *even*: boundaries are at lo + i·⌈(hi − lo) / n⌉.
//! - *aligned*: each boundary inside the region is moved to the nearest multiple of L, upwards if two are
//!   equally near, and then back into the region. Some domains may become empty.
//! - *static-cyclic*: block ⌊offset / L⌋ belongs to aggregator block mod n.
//! - *group-cyclic*: equals static-cyclic if n ≤ S. Otherwise there are G = ⌊n / S⌋ groups. Aggregators
//!   from G·S on are idle, and the others form a ring. With b0 = ⌊lo / L⌋, the ring begins at b0 mod G·S,
//!   and every S aggregators along it are a group. Group 0 has the first blocks of the region, group 1 the
//!   next, and so on. All groups have the same number of blocks, except that the first few have one more if
//!   the number does not divide. Block b belongs to member (b − b0) mod S of its group. Aggregator a
//!   therefore only has blocks b with b mod S = a mod S.

use crate::{FileDomain, PartitioningMethod};
use std::ops::Range;

/// The file domains of all aggregators in a region.
#[derive(Clone, Copy, Debug)]
pub struct FileDomains {
    lo: u64,
    hi: u64,
    aggregators: u32,
    /// The lock unit.
    unit: u64,
    division: Division,
}

#[derive(Clone, Copy, Debug)]
enum Division {
    /// Part i is from `lo + i * part` to `lo + (i + 1) * part`, with each boundary moved to a multiple of
    /// `cut`.
    Parts { part: u64, cut: u64 },
    /// Block b belongs to aggregator b mod n.
    Cyclic,
    /// The group-cyclic method.
    Groups { groups: u64, size: u64, blocks: u64 },
}

impl FileDomains {
    /// Divides `region` among `n` aggregators, for a file with lock units of `unit` bytes on `servers`
    /// servers. A number that is 0 counts as 1.
    pub fn new(
        method: PartitioningMethod,
        region: Range<u64>,
        n: u32,
        unit: u64,
        servers: u32,
    ) -> FileDomains {
        let (n, unit, servers) = (n.max(1), unit.max(1), servers.max(1));
        let (lo, hi) = (region.start, region.end.max(region.start));
        let part = (hi - lo).div_ceil(u64::from(n)).max(1);
        let division = match method {
            PartitioningMethod::Even => Division::Parts { part, cut: 1 },
            PartitioningMethod::Aligned => Division::Parts { part, cut: unit },
            PartitioningMethod::GroupCyclic if n > servers => {
                let blocks = if lo < hi { (hi - 1) / unit - lo / unit + 1 } else { 0 };
                Division::Groups { groups: u64::from(n / servers), size: u64::from(servers), blocks }
            }
            PartitioningMethod::StaticCyclic | PartitioningMethod::GroupCyclic => Division::Cyclic,
        };
        FileDomains { lo, hi, aggregators: n, unit, division }
    }

    /// The region.
    pub fn region(&self) -> Range<u64> {
        self.lo..self.hi
    }

    /// The number of aggregators, including idle ones.
    pub fn aggregators(&self) -> u32 {
        self.aggregators
    }

    /// The file domain of an aggregator. It is empty if the aggregator does not exist.
    pub fn domain(&self, aggregator: u32) -> FileDomain {
        let (a, n) = (u64::from(aggregator), u64::from(self.aggregators));
        if a >= n {
            return FileDomain::range(self.lo..self.lo, self.unit);
        }
        let b0 = self.lo / self.unit;
        match self.division {
            Division::Parts { part, cut } => {
                FileDomain::range(self.boundary(a, part, cut)..self.boundary(a + 1, part, cut), self.unit)
            }
            Division::Cyclic => {
                let first = b0.saturating_add(ahead(b0, a, n));
                FileDomain::blocks(first, n, self.unit, self.lo..self.hi)
            }
            Division::Groups { groups, size, blocks } => {
                let ring = groups * size;
                let place = if a < ring { ahead(b0, a, ring) } else { ring };
                let (group, member) = (place / size, place % size);
                let cut = |group| self.group_start(group, groups, blocks);
                let from = group.min(groups);
                let begin = cut(from);
                // The first block of the group whose number, counted from b0, is `member` mod `size`.
                let skip = ahead(begin - b0, member, size);
                let end = cut((group + 1).min(groups));
                let range = self.in_region(begin)..self.in_region(end);
                FileDomain::blocks(begin.saturating_add(skip), size, self.unit, range)
            }
        }
    }

    /// The aggregator whose domain has the byte at `offset`. The offset is in the region.
    pub fn owner(&self, offset: u64) -> u32 {
        let n = u64::from(self.aggregators);
        let number = offset / self.unit;
        let owner = match self.division {
            Division::Parts { part, cut } => {
                // A boundary before `turn` moves to `offset` or lower. Any other boundary moves beyond
                // `offset`.
                let turn = (offset - offset % cut).saturating_add(cut.div_ceil(2)).min(self.hi);
                (turn.saturating_sub(self.lo).saturating_sub(1) / part).min(n - 1)
            }
            Division::Cyclic => number % n,
            Division::Groups { groups, size, blocks } => {
                let b0 = self.lo / self.unit;
                let index = number.saturating_sub(b0);
                let group = group_of(index, groups, blocks).min(groups - 1);
                let ring = groups * size;
                (b0 % ring + group * size + index % size) % ring
            }
        };
        owner as u32
    }

    /// The file offset at which part `i` of `part` bytes begins.
    fn boundary(&self, i: u64, part: u64, cut: u64) -> u64 {
        let even = self.lo.saturating_add(i.saturating_mul(part));
        if i == 0 {
            self.lo
        } else if i == u64::from(self.aggregators) || even >= self.hi {
            self.hi
        } else {
            let over = even % cut;
            let nearest =
                if over < cut.div_ceil(2) { even - over } else { (even - over).saturating_add(cut) };
            nearest.clamp(self.lo, self.hi)
        }
    }

    /// The first block of a group. For the group after the last, the block after the region.
    fn group_start(&self, group: u64, groups: u64, blocks: u64) -> u64 {
        self.lo / self.unit + group * (blocks / groups) + group.min(blocks % groups)
    }

    /// The file offset of a block, clamped to the region.
    fn in_region(&self, number: u64) -> u64 {
        number.saturating_mul(self.unit).clamp(self.lo, self.hi)
    }
}

/// The distance from `from` up to the next number that is `to` mod `n`.
fn ahead(from: u64, to: u64, n: u64) -> u64 {
    (to + n - from % n) % n
}

/// The group of a block, whose index counts from the first block of the region. The first `blocks % groups`
/// groups have one block more than the others.
fn group_of(index: u64, groups: u64, blocks: u64) -> u64 {
    let (short, longer) = (blocks / groups, blocks % groups);
    let in_longer = longer * (short + 1);
    if index < in_longer { index / (short + 1) } else { longer + (index - in_longer) / short.max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(partition: &FileDomains, aggregator: u32) -> Vec<(u64, u64)> {
        partition.domain(aggregator).window(0, u64::MAX).extents().map(|e| (e.start, e.end)).collect()
    }

    fn sizes(partition: &FileDomains) -> Vec<u64> {
        (0..partition.aggregators()).map(|a| partition.domain(a).bytes()).collect()
    }

    #[test]
    fn even_parts_of_150_bytes_from_10() {
        let partition = FileDomains::new(PartitioningMethod::Even, 10..160, 4, 1, 1);
        assert_eq!(sizes(&partition), [38, 38, 38, 36]);
        assert_eq!(extents(&partition, 3), [(124, 160)]);
    }

    /// A 10 x 15 array of bytes, block-block over six processes, is stored from offset 10 on; the first four
    /// aggregate with buffers of 16 bytes.
    #[test]
    fn a_10_by_15_array_over_six_processes_takes_three_rounds() {
        let rows = |process: u64| (0..5).map(move |row| 10 + (process / 3 * 5 + row) * 15 + process % 3 * 5);
        let lo = (0..6).flat_map(rows).min().expect("rows");
        let hi = (0..6).flat_map(rows).max().expect("rows") + 5;
        let partition = FileDomains::new(PartitioningMethod::Even, lo..hi, 4, 1, 1);
        assert_eq!(sizes(&partition), [38, 38, 38, 36]);
        for aggregator in 0..4 {
            let domain = partition.domain(aggregator);
            assert_eq!(domain.windows(16), 3);
            let last = if aggregator == 3 { 4 } else { 6 };
            assert_eq!([0, 1, 2].map(|round| domain.window(round, 16).bytes()), [16, 16, last]);
        }
        // The first aggregator has two rows and half of the third. They belong to the upper three
        // processes.
        let of_first =
            |process| rows(process).flat_map(|at| at..at + 5).filter(|&at| partition.owner(at) == 0).count();
        assert_eq!([0, 1, 2, 3, 4, 5].map(of_first), [15, 13, 10, 0, 0, 0]);
    }

    #[test]
    fn aligned_boundaries_move_to_the_nearest_multiple() {
        let partition = FileDomains::new(PartitioningMethod::Aligned, 10..160, 4, 16, 1);
        // The even boundaries are 48, 86 and 124.
        assert_eq!(sizes(&partition), [38, 32, 48, 32]);
        assert_eq!(extents(&partition, 1), [(48, 80)]);
        assert_eq!(extents(&partition, 2), [(80, 128)]);
        // A boundary halfway between two multiples moves up.
        let partition = FileDomains::new(PartitioningMethod::Aligned, 0..48, 2, 16, 1);
        assert_eq!(sizes(&partition), [32, 16]);
        // A unit is larger than the region, so one aggregator has all of it.
        let partition = FileDomains::new(PartitioningMethod::Aligned, 10..160, 4, 4096, 1);
        assert_eq!(sizes(&partition).iter().filter(|&&size| size > 0).count(), 1);
    }

    #[test]
    fn static_cyclic_blocks_go_round() {
        // Four aggregators, two servers: 0 and 2 access server 0 only, 1 and 3 access server 1.
        let partition = FileDomains::new(PartitioningMethod::StaticCyclic, 5..73, 4, 10, 2);
        assert_eq!(extents(&partition, 0), [(5, 10), (40, 50)]);
        assert_eq!(extents(&partition, 3), [(30, 40), (70, 73)]);
        assert_eq!((partition.owner(5), partition.owner(45), partition.owner(39)), (0, 0, 3));
    }

    #[test]
    fn group_cyclic_groups_of_the_figure() {
        // 16 blocks from block 7 on, eight aggregators, four servers.
        let partition = FileDomains::new(PartitioningMethod::GroupCyclic, 70..230, 8, 10, 4);
        let owners: Vec<_> = (7..23).map(|block| partition.owner(block * 10)).collect();
        assert_eq!(owners, [7, 0, 1, 2, 7, 0, 1, 2, 3, 4, 5, 6, 3, 4, 5, 6]);
        assert_eq!(extents(&partition, 7), [(70, 80), (110, 120)]);
        assert_eq!(extents(&partition, 4), [(160, 170), (200, 210)]);
    }

    #[test]
    fn group_cyclic_with_few_aggregators_is_static_cyclic() {
        let [group, fixed] = [PartitioningMethod::GroupCyclic, PartitioningMethod::StaticCyclic]
            .map(|method| FileDomains::new(method, 33..977, 4, 10, 4));
        for aggregator in 0..4 {
            assert_eq!(extents(&group, aggregator), extents(&fixed, aggregator));
        }
    }

    #[test]
    fn aggregators_beyond_a_multiple_of_the_servers_are_idle() {
        let partition = FileDomains::new(PartitioningMethod::GroupCyclic, 0..1000, 11, 10, 4);
        assert_eq!(sizes(&partition), [130, 130, 120, 120, 120, 120, 130, 130, 0, 0, 0]);
    }

    #[test]
    fn groups_of_one_are_contiguous() {
        let partition = FileDomains::new(PartitioningMethod::GroupCyclic, 15..95, 3, 10, 1);
        assert_eq!([1, 2, 0].map(|a| extents(&partition, a)), [[(15, 40)], [(40, 70)], [(70, 95)]]);
    }

    #[test]
    fn nothing_is_dealt_out_as_nothing() {
        for method in PartitioningMethod::ALL {
            let partition = FileDomains::new(method, 7..7, 3, 4, 2);
            assert_eq!(sizes(&partition), [0, 0, 0]);
            assert_eq!(partition.domain(0).windows(16), 0);
            assert_eq!(extents(&partition, 0), []);
            assert!(partition.owner(7) < 3);
            assert!(partition.domain(3).is_empty());
        }
    }
}
