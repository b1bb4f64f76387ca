//! The layout of a file: striped, or placed by a placement map with a striping for the unplaced bytes.
//!
//! The *holders* of a file are all servers that may have bytes of it. Each has an index among them, its *place*, from 0:
//! first the servers of the striping, in stripe order, then the others. The bytes of a holder follow each other in its
//! local part in file order, without gaps. So local offsets grow with file offsets for every layout, and a contiguous
//! range of the file is at most one contiguous range of each local part.
//!
//! The unplaced (*central*) bytes are striped as if they formed a file of their own: the placed bytes between them do
//! not count.

use std::ops::Range;
use std::sync::Arc;

use pario_types::{ErrorKind, Offset, ServerId};

use crate::order::{bytes, units};
use crate::placement_map::{CENTRAL, PlacementMap};
use crate::striping::{LocalRange, Striping};

/// The layout of a file; it never changes.
#[derive(Clone, Debug)]
pub struct Layout {
    striping: Striping,
    placed: Option<Arc<Placed>>,
}

/// A placement map with the indexes that are computed from it once.
#[derive(Debug)]
struct Placed {
    table: PlacementMap,
    /// The number of central bytes before each extent, and after the last.
    central: Vec<u64>,
    /// By place.
    holders: Vec<Holder>,
    /// The places of the servers of each set.
    sets: Vec<Box<[u16]>>,
}

/// A server that holds placed extents.
#[derive(Debug)]
struct Holder {
    server: ServerId,
    /// The starts of its extents.
    starts: Vec<u64>,
    /// The number of its placed bytes before each extent, and in total.
    before: Vec<u64>,
}

/// Consecutive bytes of a file that are consecutive on each server that holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutExtent<'a> {
    /// The number of bytes.
    pub len: u64,
    /// Their location.
    pub at: ExtentLocation<'a>,
}

/// The servers that hold an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentLocation<'a> {
    /// One server.
    One {
        /// Its place.
        place: u16,
        /// The offset in its local part.
        local: u64,
    },
    /// Several servers hold a replica each; [`Layout::local`] gives the offset in each local part.
    Replicas {
        /// The index of their set: less than [`Layout::sets`].
        set: u16,
        /// Their places.
        places: &'a [u16],
    },
}

impl Holder {
    fn new(server: ServerId) -> Holder {
        Holder { server, starts: Vec::new(), before: vec![0] }
    }

    /// The number of its placed bytes before an offset.
    fn below(&self, offset: u64) -> u64 {
        match self.starts.partition_point(|start| *start < offset) {
            0 => 0,
            next => (self.before[next - 1] + (offset - self.starts[next - 1])).min(self.before[next]),
        }
    }
}

impl From<Striping> for Layout {
    fn from(striping: Striping) -> Layout {
        Layout { striping, placed: None }
    }
}

impl Layout {
    /// The unit of first-use orders; the block size of every server is a multiple of it.
    pub const ORDER_UNIT: u64 = 4096;

    /// The most ranges in the first-use order of one holder.
    pub const MOST_ORDERED: usize = 1 << 15;

    /// A placed layout; unplaced bytes are striped. Fails if the map names servers that do not exist.
    pub fn placed(striping: Striping, table: PlacementMap) -> Result<Layout, ErrorKind> {
        let named = || table.sets().iter().flatten();
        if named().any(|server| server.0 >= striping.servers()) {
            return Err(ErrorKind::Arg);
        }
        let mut others: Vec<ServerId> = named().filter(|s| striping.place(**s).is_none()).copied().collect();
        others.sort_unstable();
        others.dedup();
        let mut holders: Vec<Holder> = striping.holders().chain(others).map(Holder::new).collect();
        let place = |server: &ServerId| holders.iter().position(|holder| holder.server == *server);
        let places = |servers: &[ServerId]| {
            servers.iter().map(|server| place(server).expect("all are holders") as u16).collect()
        };
        let sets: Vec<Box<[u16]>> = table.sets().iter().map(|servers| places(servers)).collect();
        let mut central = vec![0];
        let mut sum = 0;
        for (kept, number) in table.extents().zip(table.numbers()) {
            let len = kept.range.end - kept.range.start;
            sum += if *number == CENTRAL { len } else { 0 };
            central.push(sum);
            for place in number.checked_sub(1).map_or(&[][..], |set| &sets[usize::from(set)]) {
                let holder = &mut holders[usize::from(*place)];
                holder.starts.push(kept.range.start);
                holder.before.push(holder.before.last().expect("begins with 0") + len);
            }
        }
        let placed = Placed { table, central, holders, sets };
        Ok(Layout { striping, placed: Some(Arc::new(placed)) })
    }

    /// The striping of the file, or of its unplaced bytes.
    pub fn striping(&self) -> &Striping {
        &self.striping
    }

    /// The placement map, if the file is placed.
    pub fn table(&self) -> Option<&PlacementMap> {
        self.placed.as_deref().map(|placed| &placed.table)
    }

    /// The first-use order of each holder for which it differs from the order of its local part: ranges of that part in
    /// whole units of [`Layout::ORDER_UNIT`] bytes, or in larger units if there would be too many ranges.
    pub fn orders(&self) -> impl Iterator<Item = (ServerId, Vec<Range<u64>>)> + '_ {
        self.orders_in(Layout::ORDER_UNIT, Layout::MOST_ORDERED)
    }

    fn orders_in(&self, least: u64, most: usize) -> impl Iterator<Item = (ServerId, Vec<Range<u64>>)> + '_ {
        let order = self.table().map_or(&[][..], PlacementMap::order);
        let places = if order.is_empty() { 0..0 } else { 0..self.count() };
        places.filter_map(move |place| {
            let local = |range: &Range<u64>| self.local(place, range.start)..self.local(place, range.end);
            let mut unit = least;
            let mut runs = units(order.iter().map(local), unit);
            while runs.len() > most {
                unit *= 2;
                runs = units(order.iter().map(local), unit);
            }
            let differs = !runs.is_sorted_by_key(|run| run.start);
            differs.then(|| (self.server(place), bytes(&runs, unit).collect()))
        })
    }

    /// The number of holders.
    pub fn count(&self) -> u16 {
        match &self.placed {
            Some(placed) => placed.holders.len() as u16,
            None => self.striping.count(),
        }
    }

    /// The holders, in order of their places.
    pub fn holders(&self) -> impl Iterator<Item = ServerId> + '_ {
        (0..self.count()).map(|place| self.server(place))
    }

    /// The server at a place.
    #[inline]
    pub fn server(&self, place: u16) -> ServerId {
        match &self.placed {
            Some(placed) => placed.holders[usize::from(place)].server,
            None => self.striping.server(place),
        }
    }

    /// A server's place, if it is a holder.
    pub fn place(&self, server: ServerId) -> Option<u16> {
        let striped = self.striping.place(server);
        match &self.placed {
            Some(placed) if striped.is_none() => {
                let others = &placed.holders[usize::from(self.striping.count())..];
                let index = others.binary_search_by_key(&server, |holder| holder.server).ok()?;
                Some(self.striping.count() + index as u16)
            }
            _ => striped,
        }
    }

    /// The number of server sets in the placement map.
    pub fn sets(&self) -> u16 {
        self.placed.as_ref().map_or(0, |placed| placed.sets.len() as u16)
    }

    /// The places of a set's servers.
    pub fn places(&self, set: u16) -> &[u16] {
        self.placed.as_ref().map_or(&[], |placed| &placed.sets[usize::from(set)])
    }

    /// Whether some bytes are replicated on several servers.
    pub fn has_replicas(&self) -> bool {
        self.placed.as_ref().is_some_and(|placed| placed.sets.iter().any(|places| places.len() > 1))
    }

    /// The longest extent from `offset` on that has one location, at most `most` bytes.
    #[inline]
    pub fn extent_at(&self, offset: u64, most: u64) -> LayoutExtent<'_> {
        match &self.placed {
            None => self.striped(offset, offset, most),
            Some(placed) => self.placed_extent(placed, offset, most),
        }
    }

    fn placed_extent<'a>(&self, placed: &'a Placed, offset: u64, most: u64) -> LayoutExtent<'a> {
        let (index, end, number) = match placed.table.at(offset) {
            Some(found) => found,
            None => (placed.central.len() - 1, u64::MAX, CENTRAL),
        };
        let most = most.min(end - offset);
        let Some(set) = number.checked_sub(1) else {
            let position = placed.central[index] + (offset - placed.table.start(index));
            return self.striped(offset, position, most);
        };
        let at = match &*placed.sets[usize::from(set)] {
            [place] => {
                let (place, local) = (*place, self.local(*place, offset));
                ExtentLocation::One { place, local }
            }
            places => ExtentLocation::Replicas { set, places },
        };
        LayoutExtent { len: most, at }
    }

    /// The extent at a position among the striped bytes.
    #[inline]
    fn striped<'a>(&self, offset: u64, position: u64, most: u64) -> LayoutExtent<'a> {
        let piece = self.striping.piece(Offset(position));
        let len = if self.striping.count() == 1 { most } else { piece.len.min(most) };
        let place = self.striping.place(piece.server).expect("a holder");
        let extents = |placed: &Arc<Placed>| placed.holders[usize::from(place)].below(offset);
        let kept = self.placed.as_ref().map_or(0, extents);
        LayoutExtent { len, at: ExtentLocation::One { place, local: piece.local + kept } }
    }

    /// The number of bytes before a file offset that a holder has. If it has the byte at that offset, this is the byte's
    /// offset in its local part.
    pub fn local(&self, place: u16, offset: u64) -> u64 {
        let Some(placed) = &self.placed else { return self.striping.below(place, offset) };
        let kept = placed.holders[usize::from(place)].below(offset);
        match place < self.striping.count() {
            true => kept + self.striping.below(place, placed.central_below(offset)),
            false => kept,
        }
    }

    /// Each holder's share of a contiguous range, by place; empty shares are left out.
    pub fn shares(&self, range: Range<u64>) -> impl Iterator<Item = LocalRange> + '_ {
        (0..self.count()).filter_map(move |place| {
            let (at, end) = (self.local(place, range.start), self.local(place, range.end));
            (end > at).then(|| LocalRange { server: self.server(place), at, len: end - at })
        })
    }

    /// The local end at a server of a file of `size` bytes: how many of its bytes the server has.
    pub fn local_end(&self, server: ServerId, size: u64) -> u64 {
        self.place(server).map_or(0, |place| self.local(place, size))
    }

    /// The smallest size of a file for which a server's local part has this end.
    pub fn size_from(&self, server: ServerId, end: u64) -> u64 {
        let Some(place) = self.place(server) else { return 0 };
        if self.placed.is_none() {
            return self.striping.size_from(server, end);
        }
        let (mut low, mut high) = (0, i64::MAX as u64);
        // A server cannot have more bytes than the file.
        let end = end.min(self.local(place, high));
        while low < high {
            let middle = low + (high - low) / 2;
            match self.local(place, middle) >= end {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        low
    }
}

impl Placed {
    fn central_below(&self, offset: u64) -> u64 {
        let (index, number) = match self.table.at(offset) {
            Some((index, _, number)) => (index, number),
            None => (self.central.len() - 1, CENTRAL),
        };
        let within = if number == CENTRAL { offset - self.table.start(index) } else { 0 };
        self.central[index] + within
    }
}

impl PartialEq for Layout {
    fn eq(&self, other: &Layout) -> bool {
        self.striping == other.striping && self.table() == other.table()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::tests::any_order;
    use crate::placement_map::tests::{Ranges, any_ranges, naive};
    use proptest::prelude::*;

    fn any_layout() -> impl Strategy<Value = (Layout, Ranges)> {
        (1u64..40, 1u16..6).prop_flat_map(|(stripe, servers)| {
            let striping = (1..=servers, 0..servers)
                .prop_map(move |(count, first)| Striping::new(stripe, count, first, servers).expect("sound"));
            (striping, any_ranges(servers), any::<bool>()).prop_map(|(striping, ranges, placed)| match placed
            {
                true => {
                    let table = PlacementMap::new(ranges.clone()).expect("in order");
                    (Layout::placed(striping, table).expect("servers that are there"), ranges)
                }
                false => (striping.into(), Vec::new()),
            })
        })
    }

    /// The servers and local offsets of each byte.
    fn model(layout: &Layout, ranges: &Ranges, upto: u64) -> Vec<Vec<(ServerId, u64)>> {
        let mut ends = std::collections::HashMap::<ServerId, u64>::new();
        let mut central = 0;
        let mut keep = |server| {
            let end = ends.entry(server).or_default();
            *end += 1;
            (server, *end - 1)
        };
        let byte = |offset| {
            let servers = naive(ranges, offset);
            match servers.is_empty() {
                true => {
                    central += 1;
                    vec![keep(layout.striping().piece(Offset(central - 1)).server)]
                }
                false => servers.into_iter().map(&mut keep).collect(),
            }
        };
        (0..upto).map(byte).collect()
    }

    proptest! {
        #[test]
        fn extents_are_the_bytes_one_by_one((layout, ranges) in any_layout(), from in 0u64..900, len in 0u64..300) {
            let model = model(&layout, &ranges, from + len);
            let mut at = from;
            while at < from + len {
                let extent = layout.extent_at(at, from + len - at);
                prop_assert!(extent.len > 0);
                for more in 0..extent.len {
                    let found = match extent.at {
                        ExtentLocation::One { place, local } => vec![(layout.server(place), local + more)],
                        ExtentLocation::Replicas { set, places } => {
                            prop_assert!(places.len() > 1 && places == layout.places(set));
                            places.iter().map(|p| (layout.server(*p), layout.local(*p, at) + more)).collect()
                        }
                    };
                    let mut found = found;
                    found.sort_unstable();
                    prop_assert_eq!(&found, &model[(at + more) as usize]);
                }
                at += extent.len;
            }
        }

        #[test]
        fn shares_and_ends_are_counted_byte_by_byte(
            (layout, ranges) in any_layout(), from in 0u64..700, len in 0u64..300,
        ) {
            let model = model(&layout, &ranges, from + len);
            let mut shares = std::collections::BTreeMap::new();
            for (server, local) in model[from as usize..].iter().flatten() {
                let (at, end) = shares.entry(*server).or_insert((*local, *local));
                prop_assert_eq!(*end, *local, "without gaps");
                prop_assert!(at <= end);
                *end += 1;
            }
            let found: std::collections::BTreeMap<_, _> =
                layout.shares(from..from + len).map(|l| (l.server, (l.at, l.at + l.len))).collect();
            prop_assert_eq!(found, shares);
            for server in (0..layout.striping().servers()).map(ServerId) {
                let held = model.iter().flatten().filter(|(holder, _)| *holder == server).count() as u64;
                prop_assert_eq!(layout.local_end(server, from + len), held);
                let last = model.iter().rposition(|byte| byte.iter().any(|(holder, _)| *holder == server));
                prop_assert_eq!(layout.size_from(server, held), last.map_or(0, |last| last as u64 + 1));
                let place = layout.holders().position(|holder| holder == server).map(|place| place as u16);
                prop_assert_eq!(layout.place(server), place);
            }
        }

        /// Each holder's bytes, one by one as they are first used, in whole units.
        #[test]
        fn orders_are_those_of_the_bytes_one_by_one(
            (layout, ranges) in any_layout(), order in any_order(900), unit in 1u64..60, most in 1usize..20,
        ) {
            let table = PlacementMap::new(ranges.clone()).expect("in order").in_order(&order).expect("apart");
            let ordered = table.end() > 0;
            let layout = Layout::placed(*layout.striping(), table).expect("servers that are there");
            let model = model(&layout, &ranges, 900);
            let orders: std::collections::HashMap<_, _> = layout.orders_in(unit, most).collect();
            for server in layout.holders() {
                let naive = |unit: u64| {
                    let mut naive: Vec<u64> = Vec::new();
                    for bytes in order.iter().cloned().flatten().map(|at| &model[at as usize]) {
                        let local = bytes.iter().find(|(holder, _)| *holder == server);
                        naive.extend(local.map(|(_, at)| at / unit).filter(|unit| !naive.contains(unit)));
                    }
                    naive
                };
                let mut unit = unit;
                while units(naive(unit).into_iter().map(|unit| unit..unit + 1), 1).len() > most {
                    unit *= 2;
                }
                let told = orders.get(&server).map(|told| units(told.iter().cloned(), unit));
                match told {
                    Some(told) => prop_assert_eq!(told.into_iter().flatten().collect::<Vec<_>>(), naive(unit)),
                    None => prop_assert!(!ordered || naive(unit).is_sorted()),
                }
                let sorted = naive(unit).is_sorted();
                prop_assert!(!orders.contains_key(&server) || !sorted, "it goes without saying");
            }
        }

        #[test]
        fn the_size_is_the_largest_that_a_server_knows_of((layout, _) in any_layout(), size in 0u64..1200) {
            let sizes = layout.holders().map(|server| layout.size_from(server, layout.local_end(server, size)));
            prop_assert_eq!(sizes.max(), Some(size));
        }
    }

    #[test]
    fn a_table_of_other_servers_is_refused() {
        let striping = Striping::new(10, 1, 0, 2).expect("sound");
        let table = PlacementMap::new([(0..10, vec![ServerId(2)])]).expect("in order");
        assert_eq!(Layout::placed(striping, table), Err(ErrorKind::Arg));
    }

    #[test]
    fn the_largest_offsets_have_places() {
        let striping = Striping::new(10, 2, 0, 3).expect("sound");
        let table = PlacementMap::new([(0..1 << 62, vec![ServerId(2), ServerId(0)])]).expect("in order");
        let layout = Layout::placed(striping, table).expect("sound");
        assert_eq!(layout.size_from(ServerId(2), u64::MAX), 1 << 62);
        let last = i64::MAX as u64 - 1;
        assert_eq!(layout.extent_at(last, 1).len, 1);
        assert_eq!(
            layout.size_from(layout.server(0), layout.local(0, last)),
            layout.size_from(ServerId(0), layout.local(0, last))
        );
    }
}
