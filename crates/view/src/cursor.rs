//! Walking the pieces of a tiled pattern in order, as strided runs.
//!
//! A cursor holds the path from the root to its current leaf. A step takes amortised constant time; a start at any position
//! is one descent. Runs are returned whole: a run is cut only at the caller's limit, and pieces that touch across the
//! boundary of two tiles or parts are returned as one. For that the cursor always has one run more than it has returned.

use crate::datatype::Basic;
use crate::node::{Facts, Id, Kind, Unit};
use crate::pattern::Pattern;

/// Equal pieces at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The offset of the first piece.
    pub offset: i64,
    /// Bytes of each piece.
    pub len: u64,
    /// Distance of the pieces' beginnings.
    pub stride: i64,
    /// Number of pieces.
    pub count: u64,
    /// The basic type of the bytes; [`Basic::BYTE`] unless the pattern is typed.
    pub basic: Basic,
}

/// Contiguous bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The offset of the first byte.
    pub offset: i64,
    /// The number of bytes.
    pub len: u64,
}

const NO_RUN: Run = Run { offset: 0, len: 0, stride: 0, count: 0, basic: Basic::BYTE };

/// Copies of a pattern's root, in the simplest form.
#[derive(Clone, Copy, Debug)]
struct Tiling {
    base: i64,
    count: u64,
    stride: i64,
    child: Id,
}

/// A node on the path: the next of its children, and the displacement of its origin.
#[derive(Clone, Copy, Debug)]
struct Frame {
    node: Id,
    next: u64,
    /// Copies done of the current item of a list of copies.
    done: u64,
    base: i64,
}

/// Pieces of an irregular list, unpacked in groups.
#[derive(Clone, Debug, Default)]
struct Group {
    items: Vec<(i64, u64)>,
    next: usize,
    base: i64,
    basic: Basic,
}

/// A position in the data stream of a tiled pattern.
#[derive(Clone, Debug)]
pub struct Cursor {
    pattern: Pattern,
    tiling: Tiling,
    tile: u64,
    path: Vec<Frame>,
    group: Group,
    /// The run has the group's basic type.
    in_group: bool,
    /// The run being returned, of whose first piece `skip` bytes are done; and the one after it.
    run: Run,
    skip: u64,
    ahead: Run,
    left: u64,
}

impl Run {
    fn end(&self) -> i64 {
        along(self.offset, self.count - 1, self.stride).wrapping_add(self.len as i64)
    }
}

impl Cursor {
    /// The data stream of `count` instances of a pattern from its byte `at`; offsets are relative to the
    /// buffer origin. The stream ends early where offsets would leave 64 bits: see [`Cursor::remaining`].
    pub fn over(pattern: &Pattern, count: u64, at: u64) -> Cursor {
        Cursor::tiled(pattern, 0, count, at, u64::MAX)
    }

    /// At most `len` bytes of the stream of `count` tiles that begin at `origin`.
    pub(crate) fn tiled(pattern: &Pattern, origin: i64, count: u64, at: u64, len: u64) -> Cursor {
        let mut cursor = Cursor {
            pattern: pattern.clone(),
            tiling: Tiling { base: 0, count: 0, stride: 0, child: 0 },
            tile: 0,
            path: Vec::new(),
            group: Group::default(),
            in_group: false,
            run: NO_RUN,
            skip: 0,
            ahead: NO_RUN,
            left: 0,
        };
        if let Some(facts) = pattern.facts() {
            cursor.start(facts, origin, count, at, len);
        }
        cursor
    }

    /// The number of bytes that remain.
    #[inline]
    pub fn remaining(&self) -> u64 {
        self.left
    }

    /// The basic type of the next byte; `None` at the end.
    pub fn basic(&self) -> Option<Basic> {
        (self.left > 0).then_some(self.run.basic)
    }

    /// Returns the next pieces, with at most `limit` bytes of data in all. It splits a piece only at the limit.
    #[inline]
    pub fn next_run(&mut self, limit: u64) -> Option<Run> {
        let limit = limit.min(self.left);
        if limit == 0 {
            return None;
        }
        if self.run.count == 1 || self.skip > 0 {
            return Some(self.first_piece(limit));
        }
        let fits = limit / self.run.len;
        if fits == 0 {
            return Some(self.first_piece(limit));
        }
        // Keep back the last piece if the next run continues it.
        let whole = self.run.count - u64::from(self.touches());
        let count = fits.min(whole);
        let out = Run { count, ..self.run };
        self.left -= count * out.len;
        self.run.count -= count;
        if self.run.count == 0 {
            self.step();
        } else {
            self.run.offset = along(self.run.offset, count, self.run.stride);
            self.merge();
        }
        Some(out)
    }

    /// Returns the next piece, or as much of it as `limit` allows.
    #[inline]
    pub fn next_piece(&mut self, limit: u64) -> Option<Piece> {
        let limit = limit.min(self.left);
        if limit == 0 {
            return None;
        }
        let run = self.first_piece(limit);
        Some(Piece { offset: run.offset, len: run.len })
    }

    /// Up to `limit` bytes of the current piece.
    #[inline]
    fn first_piece(&mut self, limit: u64) -> Run {
        let (rest, basic) = (self.run.len - self.skip, self.run.basic);
        let offset = self.run.offset + self.skip as i64;
        let len = rest.min(limit);
        self.left -= len;
        if len < rest {
            self.skip += len;
        } else {
            self.skip = 0;
            self.run.count -= 1;
            if self.run.count == 0 {
                self.step();
            } else {
                self.run.offset += self.run.stride;
                self.merge();
            }
        }
        Run { offset, len, stride: 0, count: 1, basic }
    }

    #[inline]
    fn touches(&self) -> bool {
        self.ahead.count > 0 && self.ahead.offset == self.run.end() && self.ahead.basic == self.run.basic
    }

    /// Advances to the next run.
    #[inline]
    fn step(&mut self) {
        // Within a group no pieces touch and all have one type: only the numbers change.
        if self.in_group
            && let Some(&(disp, len)) = self.group.items.get(self.group.next)
        {
            self.group.next += 1;
            (self.run.offset, self.run.len, self.run.count) = (self.ahead.offset, self.ahead.len, 1);
            (self.ahead.offset, self.ahead.len) = (self.group.base + disp, len);
            return;
        }
        self.step_anywhere();
    }

    fn step_anywhere(&mut self) {
        self.run = self.ahead;
        self.in_group = false;
        if self.run.count > 0 {
            self.ahead = self.produce();
            self.merge();
        }
    }

    /// Joins the last piece of this run with those that continue it.
    #[inline]
    fn merge(&mut self) {
        while self.run.count == 1 && self.touches() {
            self.run.len += self.ahead.len;
            self.ahead.count -= 1;
            self.ahead.offset = along(self.ahead.offset, 1, self.ahead.stride);
            if self.ahead.count == 0 {
                self.ahead = self.produce();
            }
        }
        // While the group has items left, the run ahead comes from it.
        self.in_group = self.run.basic == self.ahead.basic;
    }

    fn start(&mut self, facts: &Facts, origin: i64, count: u64, at: u64, len: u64) {
        let extent = self.pattern.extent();
        let base = i128::from(origin) + i128::from(self.pattern.disp());
        let count = count.min(tiles_that_fit(facts, base, extent));
        let total = u128::from(count) * u128::from(facts.size);
        let total = total.min(i64::MAX as u128) as u64;
        if at >= total {
            return;
        }
        let nodes = self.pattern.nodes();
        let mut tiling = Tiling { base: base as i64, count, stride: extent, child: self.pattern.root() };
        while let Kind::Rep { count, stride, child } = nodes[tiling.child as usize].kind {
            let Some(all) = tiling.count.checked_mul(count) else {
                break;
            };
            if tiling.count > 1 && i128::from(stride) * i128::from(count) != i128::from(tiling.stride) {
                break;
            }
            tiling = Tiling { count: all, stride, child, ..tiling };
        }
        self.tiling = tiling;
        self.left = len.min(total - at);
        self.seek(at);
    }

    /// Moves to byte `at` of the stream.
    fn seek(&mut self, at: u64) {
        let size = self.pattern.nodes()[self.tiling.child as usize].facts.size;
        self.tile = at / size;
        let skip = match &self.pattern.nodes()[self.tiling.child as usize].kind {
            Kind::Block { .. } => at % size,
            _ => {
                let base = along(self.tiling.base, self.tile, self.tiling.stride);
                self.tile += 1;
                self.descend(base, at % size)
            }
        };
        self.run = self.produce();
        self.skip = skip;
        self.ahead = self.produce();
        self.merge();
    }

    /// Builds the path to byte `at` of the tiling's child and returns its distance from the start of a piece.
    fn descend(&mut self, mut base: i64, mut at: u64) -> u64 {
        let nodes = self.pattern.nodes();
        let mut node = self.tiling.child;
        loop {
            match &nodes[node as usize].kind {
                Kind::Block { .. } => return at,
                Kind::Rep { stride, child, .. } => {
                    let size = nodes[*child as usize].facts.size;
                    let i = at / size;
                    at %= size;
                    let leaf = matches!(nodes[*child as usize].kind, Kind::Block { .. });
                    self.path.push(Frame { node, next: i + u64::from(!leaf), done: 0, base });
                    base = along(base, i, *stride);
                    node = *child;
                }
                Kind::Seq { parts } => {
                    let i = parts.partition_point(|p| p.before <= at) - 1;
                    let part = &parts[i];
                    at -= part.before;
                    let leaf = matches!(nodes[part.child as usize].kind, Kind::Block { .. });
                    self.path.push(Frame { node, next: i as u64 + u64::from(!leaf), done: 0, base });
                    base += part.disp;
                    node = part.child;
                }
                Kind::Irregular { list, piece } => {
                    let unit = piece.size(nodes);
                    let i = list.at_unit(at / unit);
                    at -= list.before(i) * unit;
                    match *piece {
                        Unit::Bytes(_) => {
                            self.path.push(Frame { node, next: i, done: 0, base });
                            return at;
                        }
                        Unit::Copies { child, step } => {
                            let k = at / unit;
                            at %= unit;
                            let leaf = matches!(nodes[child as usize].kind, Kind::Block { .. });
                            self.path.push(Frame { node, next: i, done: k + u64::from(!leaf), base });
                            base = along(base + list.disp(i), k, step);
                            node = child;
                        }
                    }
                }
            }
        }
    }

    /// Returns the run at the end of the path and advances the path; an empty run at the end of all tiles.
    #[inline]
    fn produce(&mut self) -> Run {
        if let Some(&(disp, len)) = self.group.items.get(self.group.next) {
            self.group.next += 1;
            return Run { offset: self.group.base + disp, len, stride: 0, count: 1, basic: self.group.basic };
        }
        self.follow_path()
    }

    fn follow_path(&mut self) -> Run {
        let nodes = self.pattern.nodes();
        loop {
            let Some(frame) = self.path.last_mut() else {
                let Tiling { base, count, stride, child } = self.tiling;
                if self.tile >= count {
                    return NO_RUN;
                }
                let (i, base) = (self.tile, along(base, self.tile, stride));
                if let Kind::Block { len, basic } = nodes[child as usize].kind {
                    self.tile = count;
                    return strided(base, len, stride, count - i, basic);
                }
                self.tile += 1;
                self.path.push(Frame { node: child, next: 0, done: 0, base });
                continue;
            };
            let (next, base) = (frame.next, frame.base);
            let enter = match &nodes[frame.node as usize].kind {
                Kind::Block { len, basic } => {
                    let run = strided(base, *len, 0, 1, *basic);
                    self.path.pop();
                    return run;
                }
                Kind::Rep { count, stride, child } if next < *count => {
                    let at = along(base, next, *stride);
                    if let Kind::Block { len, basic } = nodes[*child as usize].kind {
                        frame.next = *count;
                        return strided(at, len, *stride, count - next, basic);
                    }
                    frame.next += 1;
                    Some((*child, at))
                }
                Kind::Seq { parts } => parts.get(next as usize).map(|part| {
                    frame.next += 1;
                    (part.child, base + part.disp)
                }),
                Kind::Irregular { list, piece: Unit::Bytes(basic) } if next < list.count() => {
                    let first = list.unpack(next, &mut self.group.items);
                    let i = (next - first) as usize;
                    frame.next = first + self.group.items.len() as u64;
                    (self.group.next, self.group.base, self.group.basic) = (i + 1, base, *basic);
                    let (disp, len) = self.group.items[i];
                    return strided(base + disp, len, 0, 1, *basic);
                }
                Kind::Irregular { list, piece: Unit::Copies { child, step } } if next < list.count() => {
                    let (child, step) = (*child, *step);
                    let (disp, len) = list.piece(next);
                    let at = base + disp;
                    if frame.done >= len {
                        frame.next += 1;
                        frame.done = 0;
                        continue;
                    }
                    let at = along(at, frame.done, step);
                    if let Kind::Block { len: bytes, basic } = nodes[child as usize].kind {
                        let count = len - frame.done;
                        frame.done = len;
                        return strided(at, bytes, step, count, basic);
                    }
                    frame.done += 1;
                    Some((child, at))
                }
                _ => None,
            };
            match enter {
                Some((child, base)) => match nodes[child as usize].kind {
                    Kind::Block { len, basic } => return strided(base, len, 0, 1, basic),
                    _ => self.path.push(Frame { node: child, next: 0, done: 0, base }),
                },
                None => {
                    self.path.pop();
                }
            }
        }
    }
}

/// The displacement of the `i`th of items `stride` apart. The result fits 64 bits wherever a byte lies; the product alone
/// may not (from far below 0 to far above), and the step past the last byte need not.
fn along(base: i64, i: u64, stride: i64) -> i64 {
    base.wrapping_add((i as i64).wrapping_mul(stride))
}

/// A run; pieces that touch are one piece.
fn strided(offset: i64, len: u64, stride: i64, count: u64, basic: Basic) -> Run {
    if count > 1 && stride == len as i64 {
        return Run { offset, len: len * count, stride: 0, count: 1, basic };
    }
    Run { offset, len, stride, count, basic }
}

/// The number of tiles that lie wholly within 64-bit offsets.
fn tiles_that_fit(facts: &Facts, base: i128, extent: i64) -> u64 {
    let (lo, hi) = (base + i128::from(facts.lo), base + i128::from(facts.hi));
    if lo < i128::from(i64::MIN) || hi > i128::from(i64::MAX) {
        return 0;
    }
    let more = match extent {
        0 => return u64::MAX,
        e if e > 0 => (i128::from(i64::MAX) - hi) / i128::from(e),
        e => (i128::from(i64::MIN) - lo) / i128::from(e),
    };
    u64::try_from(more + 1).unwrap_or(u64::MAX)
}
