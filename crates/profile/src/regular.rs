//! Regularity in the chunks of a file: a head, and then a round of chunks that comes again and again.
//!
//! Chunks are compared by who uses them, where they are placed, how long they are and how far it is to the next. The
//! shortest round is found as the shortest period of the sequence, by the failure function of Knuth, Morris and Pratt,
//! in linear time. The last chunk may be shorter: a file ends where it ends.

use pario_placement::{Chunk, GroupId, Placement};

/// Chunks before the first round: headers and the like.
pub const LONGEST_HEAD: usize = 8;

/// The repetition of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// Chunks before the first round.
    pub head: usize,
    /// Chunks of a round.
    pub period: usize,
    /// Bytes from the beginning of a round to that of the next.
    pub span: u64,
}

/// The properties by which chunks are compared; of the last one only the first two are used.
type Symbol = (GroupId, Placement, u64, u64);

/// The rounds of a file that has at least two of them, with the shortest head.
pub fn rounds(chunks: &[Chunk]) -> Option<Rounds> {
    let (last, before) = chunks.split_last()?;
    let next = before.iter().skip(1).chain([last]);
    let symbol = |(chunk, next): (&Chunk, &Chunk)| -> Symbol {
        (chunk.group, chunk.placement, chunk.length, next.offset - chunk.end())
    };
    let mut symbols: Vec<Symbol> = before.iter().zip(next).map(symbol).collect();
    // Suffixes of the file are prefixes of this.
    symbols.reverse();
    let borders = borders(&symbols);
    (0..=LONGEST_HEAD.min(symbols.len())).find_map(|head| {
        let body = symbols.len() - head;
        let period = body - if body == 0 { 0 } else { borders[body - 1] };
        if period == 0 || body + 1 < 2 * period {
            return None;
        }
        let model = &chunks[chunks.len() - 1 - period];
        let fits =
            (last.group, last.placement) == (model.group, model.placement) && last.length <= model.length;
        let span = chunks[head + period].offset - chunks[head].offset;
        fits.then_some(Rounds { head, period, span })
    })
}

/// For each prefix the length of its longest proper prefix that is also its suffix.
fn borders(symbols: &[Symbol]) -> Vec<usize> {
    let mut borders = vec![0; symbols.len()];
    for at in 1..symbols.len() {
        let mut length = borders[at - 1];
        while length > 0 && symbols[at] != symbols[length] {
            length = borders[length - 1];
        }
        borders[at] = length + usize::from(symbols[at] == symbols[length]);
    }
    borders
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_placement::ProcessId;
    use proptest::prelude::*;

    fn chunks(shapes: &[(u64, u64, u32)]) -> Vec<Chunk> {
        let mut at = 0;
        let chunk = |&(length, gap, group): &(u64, u64, u32)| {
            let offset = at;
            at += length + gap;
            let placement = Placement::Local(ProcessId(group));
            Chunk {
                offset,
                length,
                placement,
                group: GroupId(group),
                order: 0,
                read: 0,
                written: 0,
                moved: 0,
            }
        };
        shapes.iter().map(chunk).collect()
    }

    #[test]
    fn rounds_are_found_behind_a_head_and_before_a_cut() {
        let mut shapes = vec![(512, 0, 9)];
        for _ in 0..3 {
            shapes.extend([(100, 0, 0), (100, 4, 1)]);
        }
        shapes.push((40, 0, 0));
        assert_eq!(rounds(&chunks(&shapes)), Some(Rounds { head: 1, period: 2, span: 204 }));
        shapes.push((100, 0, 0));
        assert_eq!(rounds(&chunks(&shapes)), None, "a short chunk in the middle");
        assert_eq!(rounds(&chunks(&[(1, 0, 0), (1, 0, 1), (1, 0, 2)])), None);
        assert_eq!(rounds(&[]), None);
        assert_eq!(rounds(&chunks(&[(8, 0, 0)])), None);
    }

    fn naive(chunks: &[Chunk]) -> Option<(usize, usize)> {
        let n = chunks.len();
        let same = |i: usize, j: usize| {
            let (a, b) = (&chunks[i], &chunks[j]);
            let who = a.group == b.group && a.placement == b.placement;
            match j + 1 == n {
                true => who && b.length <= a.length,
                false => {
                    who && a.length == b.length
                        && chunks[i + 1].offset - a.end() == chunks[j + 1].offset - b.end()
                }
            }
        };
        let fits = |head: usize, period: usize| (head..n - period).all(|i| same(i, i + period));
        // The last chunk does not count when the period is looked for, only afterwards.
        let inner = |head: usize, period: usize| {
            (head..n - period).all(|i| i + period + 1 == n || same(i, i + period))
        };
        (0..=LONGEST_HEAD.min(n.saturating_sub(1))).find_map(|head| {
            let period = (1..n - head).find(|&period| inner(head, period))?;
            (2 * period <= n - head && fits(head, period)).then_some((head, period))
        })
    }

    proptest! {
        #[test]
        fn the_shortest_round_is_found(
            head in prop::collection::vec((1u64..3, 0u64..2, 0u32..2), 0..3),
            round in prop::collection::vec((1u64..3, 0u64..2, 0u32..2), 1..4),
            times in 0usize..4, cut in 0usize..4,
        ) {
            let mut shapes = head;
            (0..times).for_each(|_| shapes.extend(&round));
            shapes.extend(&round[..cut.min(round.len())]);
            let chunks = chunks(&shapes);
            prop_assert_eq!(rounds(&chunks).map(|found| (found.head, found.period)), naive(&chunks));
        }
    }
}
