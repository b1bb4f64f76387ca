//! Explicit index lists: the regular parts become repetitions, the rest is compressed.
//!
//! A list is a sequence of items (displacement, length), where an item stands for `length` copies of a node, or bytes.
//! Adjacent items are merged first. Short lists are simplified like any sequence. Long ones are searched for two kinds of
//! regularity, both in linear time: a period that covers the whole list (with an incomplete last turn), and stretches of
//! equal items at equal distances that are long enough for a `Rep` node to be smaller than the packed items. The rest
//! becomes an `Irregular` node.

use crate::build::{Builder, Placed, SMALL};
use crate::datatype::Basic;
use crate::error::Error;
use crate::node::{Id, Kind, Node, Unit, fit};

/// Fewer items than this are never worth a packed list.
const LIST_MIN: usize = 16;
/// Equal items at equal distances in a long list: from here a `Rep` is smaller than the items.
const STRETCH_MIN: usize = 64;

type Item = (i64, u64);

impl Builder {
    /// Copies of a node in blocks: `items` are (displacement of the block's first byte, copies in it).
    pub fn blocks(&mut self, mut items: Vec<Item>, child: Id, step: i64) -> Result<Option<Placed>, Error> {
        match *self.kind(child) {
            Kind::Block { len, basic } if i64::try_from(len) == Ok(step) => {
                for item in &mut items {
                    item.1 = item.1.checked_mul(len).ok_or(Error::TooLarge)?;
                }
                self.pieces(items, basic)
            }
            _ => self.fold(items, Unit::Copies { child, step }),
        }
    }

    /// Contiguous pieces of one basic type: `items` are (displacement, bytes).
    pub fn pieces(&mut self, items: Vec<Item>, basic: Basic) -> Result<Option<Placed>, Error> {
        self.fold(items, Unit::Bytes(basic))
    }

    fn fold(&mut self, mut items: Vec<Item>, unit: Unit) -> Result<Option<Placed>, Error> {
        merge_touching(&mut items, unit)?;
        self.fold_merged(&items, unit)
    }

    fn fold_merged(&mut self, items: &[Item], unit: Unit) -> Result<Option<Placed>, Error> {
        if items.len() <= SMALL {
            return self.fold_short(items, unit);
        }
        if let Some(period) = whole_period(items) {
            let turns = items.len() / period;
            let stride = fit(i128::from(items[period].0) - i128::from(items[0].0))?;
            let turn = self.fold_merged(&items[..period], unit)?;
            let rest = self.fold_merged(&items[turns * period..], unit)?;
            let mut parts = Vec::new();
            if let Some((disp, id)) = turn {
                parts.push((disp, self.rep(turns as u64, stride, id)?));
            }
            parts.extend(rest);
            return self.seq_small(parts);
        }
        self.fold_long(items, unit)
    }

    fn fold_short(&mut self, items: &[Item], unit: Unit) -> Result<Option<Placed>, Error> {
        // An estimate of the folded length decides before nodes are made for it.
        if items.len() > LIST_MIN && folded_len(items) > LIST_MIN {
            return self.list(items, unit).map(Some);
        }
        let mut parts = Vec::with_capacity(items.len());
        for &(disp, len) in items {
            parts.push((disp, self.item(len, unit)?));
        }
        self.seq_small(parts)
    }

    /// Packs a long list, but for the stretches that are regular.
    fn fold_long(&mut self, items: &[Item], unit: Unit) -> Result<Option<Placed>, Error> {
        let mut parts = Vec::new();
        let (mut done, mut i) = (0, 0);
        while i + 1 < items.len() {
            let last = stretch(items, i);
            let n = last - i + 1;
            if n >= STRETCH_MIN {
                if done < i {
                    parts.push(self.list(&items[done..i], unit)?);
                }
                let stride = fit(i128::from(items[i + 1].0) - i128::from(items[i].0))?;
                let one = self.item(items[i].1, unit)?;
                parts.push((items[i].0, self.rep(n as u64, stride, one)?));
                done = last + 1;
                i = last + 1;
            } else {
                i = last;
            }
        }
        if done < items.len() {
            parts.push(self.list(&items[done..], unit)?);
        }
        if parts.len() <= SMALL { self.seq_small(parts) } else { self.seq_as_is(parts) }
    }

    fn list(&mut self, items: &[Item], unit: Unit) -> Result<Placed, Error> {
        let (origin, len) = items[0];
        if items.len() == 1 {
            return Ok((origin, self.item(len, unit)?));
        }
        let mut moved = Vec::with_capacity(items.len());
        for item in items {
            moved.push((fit(i128::from(item.0) - i128::from(origin))?, item.1));
        }
        let node = Node::irregular(self.nodes(), &moved, unit)?;
        Ok((origin, self.add(node)?))
    }

    fn item(&mut self, len: u64, unit: Unit) -> Result<Id, Error> {
        match unit {
            Unit::Bytes(basic) => self.block(len, basic),
            Unit::Copies { child, step } => self.rep(len, step, child),
        }
    }
}

/// Drops empty items and merges those that continue the one before.
fn merge_touching(items: &mut Vec<Item>, unit: Unit) -> Result<(), Error> {
    let step = match unit {
        Unit::Bytes(_) => 1,
        Unit::Copies { step, .. } => step,
    };
    let mut kept = 0;
    for i in 0..items.len() {
        let (disp, len) = items[i];
        if len == 0 {
            continue;
        }
        if kept > 0 {
            let last = &mut items[kept - 1];
            if i128::from(last.0) + i128::from(last.1) * i128::from(step) == i128::from(disp) {
                last.1 = last.1.checked_add(len).ok_or(Error::TooLarge)?;
                continue;
            }
        }
        items[kept] = (disp, len);
        kept += 1;
    }
    items.truncate(kept);
    Ok(())
}

/// The last item of the regular stretch that begins at item `i`, which is not the last of all.
fn stretch(items: &[Item], i: usize) -> usize {
    let gap = items[i + 1].0.wrapping_sub(items[i].0);
    let mut last = i;
    while last + 1 < items.len()
        && items[last + 1].1 == items[i].1
        && items[last + 1].0.wrapping_sub(items[last].0) == gap
    {
        last += 1;
    }
    last.max(i + 1)
}

/// The approximate number of parts of a short list after folding.
fn folded_len(items: &[Item]) -> usize {
    let (mut parts, mut i) = (0, 0);
    while i + 1 < items.len() {
        let last = stretch(items, i);
        let regular = last - i >= 2;
        parts += 1;
        i = if regular { last + 1 } else { i + 1 };
    }
    parts + usize::from(i < items.len())
}

/// The shortest period of a list, if at least two whole turns fit: equal lengths and equal distances to the
/// next item, turn by turn. (The failure function of Knuth, Morris and Pratt on those pairs.)
fn whole_period(items: &[Item]) -> Option<usize> {
    let n = items.len();
    let token = |i: usize| (items[i + 1].0.wrapping_sub(items[i].0), items[i].1);
    let tokens = n.checked_sub(1)?;
    let mut fail = vec![0u32; tokens + 1];
    let mut k = 0usize;
    for i in 1..tokens {
        while k > 0 && token(i) != token(k) {
            k = fail[k] as usize;
        }
        if token(i) == token(k) {
            k += 1;
        }
        fail[i + 1] = u32::try_from(k).ok()?;
    }
    let period = tokens - fail[tokens] as usize;
    (2 * period <= n && items[n - 1].1 == items[n - 1 - period].1).then_some(period)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(items: Vec<Item>) -> (Builder, Placed) {
        let mut b = Builder::default();
        let placed = b.pieces(items, Basic::BYTE).unwrap().unwrap();
        (b, placed)
    }

    #[test]
    fn regular_lists_become_reps() {
        let (b, (disp, id)) = build((0..1000).map(|i| (i * 24 + 5, 8)).collect());
        assert_eq!(disp, 5);
        assert!(matches!(b.kind(id), Kind::Rep { count: 1000, stride: 24, .. }));
        let (b, (_, id)) = build((0..1000).map(|i| (i * 24 + i % 3, 8 + (i % 3) as u64)).collect());
        let Kind::Seq { parts } = b.kind(id) else { panic!("333 turns of three and one more") };
        assert!(matches!(b.kind(parts[0].child), Kind::Rep { count: 333, stride: 72, .. }));
        let (b, (_, id)) = build((0..999).map(|i| (i * 8, 8)).collect());
        assert!(matches!(b.kind(id), Kind::Block { len: 7992, .. }));
    }

    #[test]
    fn irregular_lists_are_packed_around_regular_stretches() {
        let mut items: Vec<Item> = (0..500i64).map(|i| (i * 100 + i * i % 41, 8)).collect();
        items.extend((0..200).map(|i| (60_000 + i * 50, 10)));
        items.extend((0..500i64).map(|i| (80_000 + i * 100 + i * i % 43, 8)));
        let (b, (_, id)) = build(items);
        let Kind::Seq { parts } = b.kind(id) else { panic!("list, rep, list") };
        assert_eq!(parts.len(), 3);
    }
}
