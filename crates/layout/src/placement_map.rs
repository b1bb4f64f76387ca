//! The placement map of a file: the servers that hold each of its extents. Placement plans are turned into such maps.
//!
//! A map divides a file, from its first byte on, into extents. Each extent is held by a *set* of servers, each of which
//! has a replica of it, or is *central*, that is, unplaced and striped. The bytes beyond the last extent are central. There
//! are few sets, so an extent is a length and the number of a set. A map may also give the order in which ranges of the
//! file are first used; a server stores its bytes in that order.
//!
//! As bytes, in which every number is a varint (seven bits at a time, the lowest first, the top bit set where more
//! follow) but the first:
//!
//! ```text
//! version, one byte: 2
//! number of sets, then of each: how many servers, the first, and of each other how much further it is
//! number of extents, then of each: its bytes, the number of its set from 1 on, 0 if it is central
//! number of ranges in the order of their first use, 0 if that is the order of the file, then of each: how much
//!   further it begins than the one before ends (d as 2d, -d as 2d - 1), its bytes
//! ```
//!
//! The servers of a set ascend, no two sets are equal, and each set has extents. No two adjacent extents have the same set,
//! and the last is not central. No two ranges overlap, and none begins where the previous one ends. So a map has one
//! encoding, and its hash identifies it.

use std::collections::HashMap;
use std::ops::Range;

use pario_types::{ErrorKind, ServerId};

use crate::order::{bytes, units};

/// The set number of central extents.
pub(crate) const CENTRAL: u16 = 0;

const VERSION: u8 = 2;

/// The smallest unit, in bytes, to which the ranges of an order that is too long are rounded.
const LEAST_UNIT: u64 = 4096;

/// The assignment of extents of a file to servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementMap {
    /// The servers of set 1, 2, …, each in order.
    sets: Vec<Box<[ServerId]>>,
    /// The end of each extent; an extent begins where the previous one ends.
    ends: Vec<u64>,
    /// The set number of each extent.
    numbers: Vec<u16>,
    /// The order of first use; empty if it is the order of the file on every server.
    order: Vec<Range<u64>>,
}

/// The identity of a placement map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlacementMapId {
    /// The first 16 bytes of the BLAKE3 of its bytes.
    pub hash: u128,
    /// The length of its encoding.
    pub len: u32,
}

/// Consecutive bytes of a file that the same servers hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedExtent<'a> {
    /// The bytes.
    pub range: Range<u64>,
    /// The servers in ascending order; empty if the extent is central.
    pub servers: &'a [ServerId],
}

impl PlacementMap {
    /// The most extents of a map.
    pub const MOST_EXTENTS: usize = 1 << 18;

    /// The most bytes of an encoding.
    pub const MOST_BYTES: usize = 4 << 20;

    /// The most servers in all sets together.
    const MOST_SERVERS: usize = 1 << 18;

    /// A map of ascending, disjoint ranges, each with its servers in any order; duplicates are allowed. A range without
    /// servers is central, as are the bytes between and beyond the ranges. If there are too many ranges, the file is divided
    /// into granules of the smallest sufficient power of two. A granule goes to the set that holds most of its bytes, or
    /// is central if several sets hold equally many. `None` if there are too many sets, or ranges that do not ascend.
    pub fn new(kept: impl IntoIterator<Item = (Range<u64>, Vec<ServerId>)>) -> Option<PlacementMap> {
        let mut table =
            PlacementMap { sets: Vec::new(), ends: Vec::new(), numbers: Vec::new(), order: Vec::new() };
        let mut known: HashMap<Box<[ServerId]>, u16> = HashMap::new();
        let mut servers_of_all = 0;
        for (range, mut servers) in kept {
            if range.start < table.end() || range.is_empty() || range.end > i64::MAX as u64 {
                return None;
            }
            servers.sort_unstable();
            servers.dedup();
            let number = match known.get(&servers[..]) {
                _ if servers.is_empty() => CENTRAL,
                Some(number) => *number,
                None => {
                    let number = u16::try_from(table.sets.len() + 1).ok()?;
                    servers_of_all += servers.len();
                    table.sets.push(servers.clone().into());
                    known.insert(servers.into(), number);
                    number
                }
            };
            table.push(range.start, CENTRAL);
            table.push(range.end, number);
        }
        if servers_of_all > PlacementMap::MOST_SERVERS {
            return None;
        }
        let mut granule = 2;
        let mut fitting = table.clone().normalized();
        while !fitting.fits() {
            fitting = table.coarsened(granule).normalized();
            granule *= 2;
        }
        Some(fitting)
    }

    fn fits(&self) -> bool {
        self.ends.len().max(self.order.len()) <= PlacementMap::MOST_EXTENTS
            && self.to_bytes().len() <= PlacementMap::MOST_BYTES
    }

    /// The same map with an order of first use. An order that is too long is rounded to units of the smallest sufficient
    /// power of two; a unit is ordered by its first used byte. `None` if two ranges overlap.
    pub fn in_order(self, ranges: &[Range<u64>]) -> Option<PlacementMap> {
        if !are_apart(ranges) {
            return None;
        }
        let mut table = PlacementMap { order: units(ranges.iter().cloned(), 1), ..self };
        if table.sets.is_empty() || table.is_in_order_anyway() {
            return Some(PlacementMap { order: Vec::new(), ..table });
        }
        let mut unit = LEAST_UNIT;
        while !table.fits() {
            let order: Vec<_> = bytes(&units(ranges.iter().cloned(), unit), unit).collect();
            // A single range defines no order.
            table.order = if order.len() > 1 { order } else { Vec::new() };
            unit *= 2;
        }
        Some(table)
    }

    /// Whether the bytes of every server are first used in the order of the file; central ones may be of any server.
    fn is_in_order_anyway(&self) -> bool {
        let mut ends: HashMap<ServerId, u64> = HashMap::new();
        let (mut central, mut all) = (0, 0);
        for range in &self.order {
            let mut at = range.start;
            while at < range.end {
                let (_, end, number) = self.at(at).unwrap_or((0, u64::MAX, CENTRAL));
                let upto = end.min(range.end);
                let servers = self.servers(number);
                let mut from = if servers.is_empty() { all } else { central };
                for server in servers {
                    from = from.max(ends.insert(*server, upto).unwrap_or(0));
                }
                if at < from {
                    return false;
                }
                all = all.max(upto);
                central = if servers.is_empty() { upto } else { central };
                at = upto;
            }
        }
        true
    }

    /// The order of first use, as ranges of the file; empty if it is the order of the file on every server.
    pub fn order(&self) -> &[Range<u64>] {
        &self.order
    }

    /// The end of its last extent.
    pub fn end(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The extents in order, central ones as well.
    pub fn extents(&self) -> impl Iterator<Item = PlacedExtent<'_>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .zip(&self.numbers)
            .map(|((start, end), number)| PlacedExtent { range: start..*end, servers: self.servers(*number) })
    }

    /// The set of each extent.
    pub(crate) fn numbers(&self) -> &[u16] {
        &self.numbers
    }

    /// The servers of a set.
    pub(crate) fn servers(&self, number: u16) -> &[ServerId] {
        number.checked_sub(1).map_or(&[], |index| &self.sets[usize::from(index)])
    }

    pub(crate) fn sets(&self) -> &[Box<[ServerId]>] {
        &self.sets
    }

    /// The index, end and set number of the extent that contains a byte; `None` beyond the last extent.
    pub(crate) fn at(&self, offset: u64) -> Option<(usize, u64, u16)> {
        let index = self.ends.partition_point(|end| *end <= offset);
        self.ends.get(index).map(|end| (index, *end, self.numbers[index]))
    }

    pub(crate) fn start(&self, index: usize) -> u64 {
        index.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    /// Appends an extent from the current end to `end`, unless that is reached already.
    fn push(&mut self, end: u64, number: u16) {
        if end <= self.end() {
            return;
        }
        match self.numbers.last() {
            Some(last) if *last == number => *self.ends.last_mut().expect("as many as sets") = end,
            _ => {
                self.ends.push(end);
                self.numbers.push(number);
            }
        }
    }

    /// The normal form: no central extent at the end, no unused sets, and sets in the order of their extents.
    fn normalized(mut self) -> PlacementMap {
        while self.numbers.last() == Some(&CENTRAL) {
            self.numbers.pop();
            self.ends.pop();
        }
        let mut renamed: Vec<Option<u16>> = vec![None; self.sets.len() + 1];
        let mut sets = Vec::new();
        for number in self.numbers.iter_mut().filter(|number| **number != CENTRAL) {
            let old = usize::from(*number);
            *number = *renamed[old].get_or_insert_with(|| {
                sets.push(self.sets[old - 1].clone());
                sets.len() as u16
            });
        }
        self.sets = sets;
        self
    }

    /// The same map in granules of this many bytes.
    fn coarsened(&self, granule: u64) -> PlacementMap {
        let mut coarse = PlacementMap {
            sets: self.sets.clone(),
            ends: Vec::new(),
            numbers: Vec::new(),
            order: Vec::new(),
        };
        let mut shares: Vec<(u16, u64)> = Vec::new();
        let (mut at, mut index) = (0, 0);
        while at < self.end() {
            let first = (self.ends[index], self.numbers[index]);
            let whole = first.0 / granule * granule;
            if whole > at {
                // All of these granules lie in one extent.
                coarse.push(whole, first.1);
                at = whole;
                index += usize::from(first.0 == whole);
                continue;
            }
            let end = at.saturating_add(granule).min(i64::MAX as u64);
            shares.clear();
            let mut from = at;
            while from < end {
                let (upto, number) = match self.ends.get(index) {
                    Some(upto) => (end.min(*upto), self.numbers[index]),
                    None => (end, CENTRAL),
                };
                match shares.iter_mut().find(|(known, _)| *known == number) {
                    Some((_, bytes)) => *bytes += upto - from,
                    None => shares.push((number, upto - from)),
                }
                from = upto;
                index += usize::from(self.ends.get(index) == Some(&upto));
            }
            let most = shares.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
            let mut best = shares.iter().filter(|(_, bytes)| *bytes == most).map(|(number, _)| *number);
            let number = best.next().filter(|_| best.next().is_none()).unwrap_or(CENTRAL);
            coarse.push(end, number);
            at = end;
        }
        coarse
    }

    /// The encoding.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        put(&mut bytes, self.sets.len() as u64);
        for servers in &self.sets {
            put(&mut bytes, servers.len() as u64);
            let mut before = 0;
            for server in servers {
                put(&mut bytes, u64::from(server.0 - before));
                before = server.0;
            }
        }
        put(&mut bytes, self.ends.len() as u64);
        let mut start = 0;
        for (end, number) in self.ends.iter().zip(&self.numbers) {
            put(&mut bytes, end - start);
            put(&mut bytes, u64::from(*number));
            start = *end;
        }
        put(&mut bytes, self.order.len() as u64);
        let mut end = 0;
        for range in &self.order {
            put(&mut bytes, zigzag(range.start as i64 - end as i64));
            put(&mut bytes, range.end - range.start);
            end = range.end;
        }
        bytes
    }

    /// Decodes untrusted bytes: everything is checked.
    pub fn from_bytes(bytes: &[u8]) -> Result<PlacementMap, ErrorKind> {
        if bytes.len() > PlacementMap::MOST_BYTES {
            return Err(ErrorKind::Arg);
        }
        decode(bytes).ok_or(ErrorKind::Arg)
    }

    /// Its identity.
    pub fn id(&self) -> PlacementMapId {
        PlacementMapId::of(&self.to_bytes())
    }
}

impl PlacementMapId {
    /// The identity of an encoding.
    pub fn of(bytes: &[u8]) -> PlacementMapId {
        let hash = blake3::hash(bytes);
        let hash = u128::from_le_bytes(std::array::from_fn(|i| hash.as_bytes()[i]));
        PlacementMapId { hash, len: bytes.len() as u32 }
    }
}

fn decode(bytes: &[u8]) -> Option<PlacementMap> {
    let (version, mut rest) = bytes.split_first()?;
    if *version != VERSION {
        return None;
    }
    let mut sets: Vec<Box<[ServerId]>> = Vec::new();
    let mut servers_of_all = 0;
    for _ in 0..take(&mut rest).filter(|count| *count <= u64::from(u16::MAX))? {
        let count = take(&mut rest).filter(|count| *count > 0)?;
        servers_of_all += usize::try_from(count).ok()?;
        if servers_of_all > PlacementMap::MOST_SERVERS {
            return None;
        }
        let mut servers = vec![ServerId(u16::try_from(take(&mut rest)?).ok()?)];
        for _ in 1..count {
            let further = u16::try_from(take(&mut rest)?).ok().filter(|further| *further > 0)?;
            servers.push(ServerId(servers.last()?.0.checked_add(further)?));
        }
        sets.push(servers.into());
    }
    let count = take(&mut rest).filter(|count| *count <= PlacementMap::MOST_EXTENTS as u64)?;
    let (mut ends, mut numbers) = (Vec::new(), Vec::new());
    let (mut end, mut used) = (0u64, 0);
    for _ in 0..count {
        let len = take(&mut rest).filter(|len| *len > 0)?;
        end = end.checked_add(len).filter(|end| *end <= i64::MAX as u64)?;
        let number = u16::try_from(take(&mut rest)?).ok()?;
        if numbers.last() == Some(&number) || number > used + 1 {
            return None;
        }
        used = used.max(number);
        ends.push(end);
        numbers.push(number);
    }
    let order = decode_order(&mut rest).filter(|order| order.is_empty() || !sets.is_empty())?;
    let distinct: std::collections::HashSet<_> = sets.iter().collect();
    let sound = numbers.last() != Some(&CENTRAL)
        && usize::from(used) == sets.len()
        && distinct.len() == sets.len()
        && rest.is_empty();
    sound.then_some(PlacementMap { sets, ends, numbers, order })
}

fn decode_order(rest: &mut &[u8]) -> Option<Vec<Range<u64>>> {
    let count = take(rest).filter(|count| *count <= PlacementMap::MOST_EXTENTS as u64)?;
    let mut order: Vec<Range<u64>> = Vec::new();
    for _ in 0..count {
        let further = unzigzag(take(rest)?);
        if further == 0 && !order.is_empty() {
            return None;
        }
        let start = order.last().map_or(0, |range| range.end).checked_add_signed(further)?;
        let len = take(rest).filter(|len| *len > 0)?;
        order.push(start..start.checked_add(len)?);
    }
    are_apart(&order).then_some(order)
}

/// Whether ranges lie within the largest file, and no two of them overlap.
fn are_apart(ranges: &[Range<u64>]) -> bool {
    let mut sorted: Vec<&Range<u64>> = ranges.iter().filter(|range| !range.is_empty()).collect();
    sorted.sort_unstable_by_key(|range| range.start);
    sorted.last().is_none_or(|last| last.end <= i64::MAX as u64)
        && sorted.windows(2).all(|two| two[0].end <= two[1].start)
}

/// Zigzag encoding: maps small numbers of either sign to small numbers.
fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The next number, in as few bytes as it can have.
fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let low = u64::from(byte & 0x7f);
        if low << shift >> shift != low || (shift > 0 && *byte == 0) {
            return None;
        }
        number |= low << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::order::tests::any_order;
    use proptest::prelude::*;

    pub(crate) type Ranges = Vec<(Range<u64>, Vec<ServerId>)>;

    /// Ranges with gaps, and the servers that hold them: of `servers` servers.
    pub(crate) fn any_ranges(servers: u16) -> impl Strategy<Value = Ranges> {
        let holders = prop::collection::vec(0..servers, 0..4);
        prop::collection::vec((0u64..20, 1u64..50, holders), 0..12).prop_map(|pieces| {
            let mut at = 0;
            let range = |(gap, len, holders): (u64, u64, Vec<u16>)| {
                let start = at + gap;
                at = start + len;
                (start..at, holders.into_iter().map(ServerId).collect())
            };
            pieces.into_iter().map(range).collect()
        })
    }

    pub(crate) fn naive(ranges: &Ranges, offset: u64) -> Vec<ServerId> {
        let found = ranges.iter().find(|(range, _)| range.contains(&offset));
        let mut servers = found.map(|(_, servers)| servers.clone()).unwrap_or_default();
        servers.sort_unstable();
        servers.dedup();
        servers
    }

    fn of(table: &PlacementMap, offset: u64) -> Vec<ServerId> {
        table.at(offset).map(|(_, _, number)| table.servers(number).to_vec()).unwrap_or_default()
    }

    proptest! {
        #[test]
        fn a_table_has_the_given_servers_of_each_byte(ranges in any_ranges(5)) {
            let table = PlacementMap::new(ranges.clone()).expect("in order");
            for offset in 0..table.end() + 10 {
                prop_assert_eq!(of(&table, offset), naive(&ranges, offset));
            }
            let mut at = 0;
            for kept in table.extents() {
                prop_assert_eq!(kept.range.start, at);
                prop_assert!(kept.range.clone().all(|offset| of(&table, offset) == kept.servers));
                at = kept.range.end;
            }
            prop_assert_eq!(at, table.end());
        }

        #[test]
        fn bytes_are_those_of_what_they_say(
            ranges in any_ranges(400), order in any_order(900), spoil in any::<(usize, u8)>(),
        ) {
            let table = PlacementMap::new(ranges).expect("in order").in_order(&order).expect("apart");
            let mut bytes = table.to_bytes();
            prop_assert_eq!(PlacementMap::from_bytes(&bytes), Ok(table.clone()));
            // Any other accepted bytes decode to another map, which has no other encoding.
            let index = spoil.0 % bytes.len();
            bytes[index] ^= spoil.1;
            if let Ok(found) = PlacementMap::from_bytes(&bytes) {
                prop_assert_eq!(found.id() == table.id(), spoil.1 == 0);
                prop_assert_eq!(found.to_bytes(), bytes);
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(0u8..6, 0..40)) {
            if let Ok(table) = PlacementMap::from_bytes(&bytes) {
                prop_assert_eq!(table.to_bytes(), bytes);
            }
        }

        /// An order is stored unless every server's bytes follow it anyway, wherever central ones are.
        #[test]
        fn an_order_is_told_where_it_matters(ranges in any_ranges(3), order in any_order(300)) {
            let table = PlacementMap::new(ranges.clone()).expect("in order").in_order(&order).expect("apart");
            let is_of = |offset: u64, server: u16| {
                let kept = naive(&ranges, offset);
                kept.is_empty() || kept.contains(&ServerId(server))
            };
            let used = |server| order.iter().cloned().flatten().filter(move |at| is_of(*at, server));
            let matters = table.end() > 0 && (0..3).any(|server| !used(server).is_sorted());
            let expected = if matters { units(order.clone(), 1) } else { Vec::new() };
            prop_assert_eq!(table.order(), &expected[..]);
        }

        /// Each granule goes to the set that holds most of its bytes.
        #[test]
        fn granules_go_to_the_servers_with_most_of_their_bytes(ranges in any_ranges(3), power in 1u32..7) {
            let granule = 1 << power;
            let table = PlacementMap::new(ranges).expect("in order");
            let coarse = table.coarsened(granule).normalized();
            for first in (0..table.end().next_multiple_of(granule)).step_by(granule as usize) {
                let mut counts: HashMap<Vec<ServerId>, u64> = HashMap::new();
                for offset in first..first + granule {
                    *counts.entry(of(&table, offset)).or_default() += 1;
                }
                let most = *counts.values().max().expect("there are bytes");
                let best: Vec<_> = counts.iter().filter(|(_, count)| **count == most).collect();
                let expected = if best.len() == 1 { best[0].0.clone() } else { Vec::new() };
                prop_assert!((first..first + granule).all(|offset| of(&coarse, offset) == expected));
            }
        }
    }

    #[test]
    fn too_many_extents_are_taken_together() {
        let pieces = (0..1u64 << 19).map(|i| (i * 10..i * 10 + 10, vec![ServerId((i % 2) as u16)]));
        let table = PlacementMap::new(pieces).expect("in order");
        assert!(table.ends.len() <= PlacementMap::MOST_EXTENTS && table.end() > 0, "{}", table.ends.len());
        let both = (0..1u64 << 18).flat_map(|i| {
            [(i * 128..i * 128 + 96, vec![ServerId(0)]), (i * 128 + 96..i * 128 + 128, vec![ServerId(1)])]
        });
        // An order that is too long is rounded to larger units, and the placement stays exact.
        let kept = [(0..1u64 << 40, vec![ServerId(0)])];
        let backwards: Vec<Range<u64>> =
            (0..1u64 << 19).rev().map(|i| i * 10_000..i * 10_000 + 5000).collect();
        let table = PlacementMap::new(kept.clone()).expect("in order").in_order(&backwards).expect("apart");
        assert!(table.fits() && table.order.len() > 1 << 17, "{}", table.order.len());
        assert!(table.order.iter().all(|range| range.start % 16384 == 0));
        assert!(table.order.is_sorted_by(|one, next| one.start > next.start));
        assert!(table.extents().eq(PlacementMap::new(kept).expect("in order").extents()));
        // The majority of the bytes decides.
        let table = PlacementMap::new(both).expect("in order");
        assert_eq!(table.extents().count(), 1);
        assert_eq!(PlacementMap::new([(5..9, vec![]), (8..10, vec![])]), None);
        assert_eq!(table.clone().in_order(&[5..9, 20..30, 8..10]), None);
        assert_eq!(table.in_order(&[5..9, 20..u64::MAX]), None);
    }
}
