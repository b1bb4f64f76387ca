//! A rank in a lane of its own node: it copies into and out of the shared window itself.
//!
//! *Writing* where the ranks cover everything: copy, arrive; who arrives last writes the window. Where holes
//! may be: first all announce what they will bring to a window. The last to announce knows whether it will
//! have holes; if so, somebody reads the file into it, under a lock that is held until it is written, before
//! anybody copies. Where aggregators own their lanes nothing is read: ranks mark what they bring, and only that is
//! written.
//!
//! Where the file system lets only one process write, who arrives last leaves the window to whoever is writing,
//! and becomes the writer only if nobody is.
//!
//! *Reading*: who comes first and needs bytes reads the window; the others meanwhile go to other lanes. The
//! last to arrive gives the window free.
//!
//! Where some ranks of the node may not access the file, they leave that to those who may; where aggregators own
//! their lanes, all leave it to the lane's own.

use pario_domain::Window;
use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use super::{Lane, Plan, Visit};
use crate::coverage::{halves, plus, whole};
use crate::node::{DEPTH, Slot, state};
use crate::part::Want;
use crate::world::World;

/// This rank's part in a lane of its node.
pub(crate) struct Local<W: World> {
    /// The aggregator's place among the local ranks.
    pub place: u32,
    /// The lane's turn of round 0.
    base: u64,
    owner: bool,
    announced: u64,
    done: u64,
    guards: Vec<(u64, W::Guard)>,
}

impl<W: World> Local<W> {
    pub fn new(place: u32, base: u64, owner: bool) -> Local<W> {
        Local { place, base, owner, announced: 0, done: 0, guards: Vec::new() }
    }

    pub fn turn(&self, round: u64) -> u64 {
        self.base + round
    }

    pub fn slot<'a>(&self, round: u64, visit: &Visit<'a, W>) -> Slot<'a> {
        visit.seat.node.slot(self.place, self.turn(round))
    }

    /// Whether this rank may access the file for this lane.
    pub fn may_access(&self, plan: &Plan) -> bool {
        plan.accesses && (self.owner || !plan.owned)
    }

    pub fn is_over(&self, lane: &Lane, visit: &Visit<'_, W>) -> bool {
        self.done == lane.rounds()
            && self.guards.is_empty()
            && (!self.stays(visit) || self.is_past(lane, visit))
    }

    /// Whether this rank has to be there for others until the lane's last window is done.
    fn stays(&self, visit: &Visit<'_, W>) -> bool {
        self.owner && !visit.plan.all_access
    }

    /// Whether all windows are done. The last one may be before the one before it, which others have filled
    /// and left to this rank.
    fn is_past(&self, lane: &Lane, visit: &Visit<'_, W>) -> bool {
        let last = lane.rounds().saturating_sub(DEPTH)..lane.rounds();
        last.into_iter().all(|round| self.slot(round, visit).is_past(self.turn(round)))
    }

    pub fn visit(&mut self, lane: &Lane, visit: &mut Visit<'_, W>) -> bool {
        let mut progress = self.release(visit);
        if visit.accesses && (!visit.plan.all_access || visit.plan.announced) {
            progress |= self.serve(lane, visit);
        }
        if self.done == lane.rounds() {
            return progress;
        }
        progress
            | match visit.plan.write {
                true if visit.plan.announced => self.write_announced(lane, visit),
                true => self.write_at_once(lane, visit),
                false => self.read(lane, visit),
            }
    }

    /// The rounds that slots can be serving: nobody is further from this rank than there are slots.
    fn open_rounds(&self, lane: &Lane) -> Range<u64> {
        self.done.saturating_sub(DEPTH)..lane.rounds().min(self.done + DEPTH)
    }

    /// Lets go of locks whose window has been written.
    fn release(&mut self, visit: &Visit<'_, W>) -> bool {
        let before = self.guards.len();
        let (place, node) = (self.place, &visit.seat.node);
        self.guards.retain(|(turn, _)| !node.slot(place, *turn).is_past(*turn));
        self.guards.len() < before
    }

    /// Does the file accesses that wait in this lane's slots.
    fn serve(&mut self, lane: &Lane, visit: &mut Visit<'_, W>) -> bool {
        let mut progress = false;
        for round in self.open_rounds(lane) {
            let slot = self.slot(round, visit);
            if !slot.serves(self.turn(round)) {
                continue;
            }
            match slot.state().load(Acquire) {
                state::WANTED if visit.plan.write => {
                    progress |= self.read_before_write(round, &slot, &lane.window(round), visit);
                }
                state::WANTED => progress |= self.fetch_for_others(round, &slot, &lane.window(round), visit),
                state::FULL if !visit.plan.one_writer => {
                    let mine = slot.state().compare_exchange(state::FULL, state::WRITING, AcqRel, Relaxed);
                    if mine.is_ok() {
                        write_out(&slot, &lane.window(round), visit);
                        progress = true;
                    }
                }
                _ => {}
            }
        }
        progress
    }

    /// Reads a window that others want. This rank may have arrived in its turn, which can then be over at any
    /// moment and the slot be wanted for a later turn; that one cannot end while this rank holds its state.
    fn fetch_for_others(
        &mut self,
        round: u64,
        slot: &Slot<'_>,
        window: &Window,
        visit: &mut Visit<'_, W>,
    ) -> bool {
        if slot.state().compare_exchange(state::WANTED, state::READING, AcqRel, Relaxed).is_err() {
            return false;
        }
        if !slot.serves(self.turn(round)) {
            slot.state().store(state::WANTED, Release);
            visit.seat.node.notify();
            return false;
        }
        read_in(slot, window, visit);
        true
    }

    /// Writes the full windows of this lane. Nobody else does so at the same time.
    pub fn write_full(&mut self, lane: &Lane, visit: &mut Visit<'_, W>) -> bool {
        let mut progress = false;
        for round in self.open_rounds(lane) {
            let slot = self.slot(round, visit);
            if slot.serves(self.turn(round)) && slot.state().load(Acquire) == state::FULL {
                visit.seat.node.full().fetch_sub(1, AcqRel);
                write_out(&slot, &lane.window(round), visit);
                progress = true;
            }
        }
        progress
    }

    fn write_at_once(&mut self, lane: &Lane, visit: &mut Visit<'_, W>) -> bool {
        let round = self.done;
        let slot = self.slot(round, visit);
        if !slot.serves(self.turn(round)) {
            return false;
        }
        self.bring(&slot, &lane.window(round), visit);
        true
    }

    fn write_announced(&mut self, lane: &Lane, visit: &mut Visit<'_, W>) -> bool {
        let mut progress = false;
        while self.announced < lane.rounds() {
            let slot = self.slot(self.announced, visit);
            if !slot.serves(self.turn(self.announced)) {
                break;
            }
            announce(&slot, &lane.window(self.announced), visit.want().as_slice(), visit);
            self.announced += 1;
            progress = true;
        }
        let round = self.done;
        if round == self.announced {
            return progress;
        }
        let slot = self.slot(round, visit);
        if slot.is_past(self.turn(round)) {
            // Nobody had anything for this window.
            self.done += 1;
            return true;
        }
        if slot.state().load(Acquire) == state::READY {
            self.bring(&slot, &lane.window(round), visit);
            return true;
        }
        progress
    }

    /// Copies this rank's bytes into a window and arrives.
    fn bring(&mut self, slot: &Slot<'_>, window: &Window, visit: &mut Visit<'_, W>) {
        if let (Some(want), Some(job)) = (visit.want(), visit.job) {
            for portion in want.portions(window, u64::MAX) {
                let len = portion.extent.end - portion.extent.start;
                slot.window(portion.place, len, |to| want.copy_in(&portion, &job.buffer, to));
                if visit.plan.marked {
                    portion.marks(want.view).for_each(|brought| slot.mark(brought));
                }
                visit.tally.copied += portion.len();
                *visit.moved += portion.len();
            }
        }
        self.done += 1;
        arrive_written(slot, window, visit);
    }

    /// Reads a window that will have holes, under a lock that is kept until it is written.
    fn read_before_write(
        &mut self,
        round: u64,
        slot: &Slot<'_>,
        window: &Window,
        visit: &mut Visit<'_, W>,
    ) -> bool {
        if slot.state().compare_exchange(state::WANTED, state::READING, AcqRel, Relaxed).is_err() {
            return false;
        }
        let range = !slot.not_low().load(Relaxed)..slot.high().load(Relaxed);
        match lock(window, &range, visit) {
            Ok(None) => {
                // Somebody else's, for now. Meanwhile others can go on, so that nobody waits in a circle.
                slot.state().store(state::WANTED, Release);
                return false;
            }
            Ok(Some(guards)) => {
                slot.locked().store(1, Relaxed);
                let turn = self.turn(round);
                self.guards.extend(guards.into_iter().map(|guard| (turn, guard)));
            }
            Err(e) => {
                slot.spoiled().store(1, Relaxed);
                visit.failed(e);
            }
        }
        visit.tally.rmw += 1;
        if slot.spoiled().load(Relaxed) == 0
            && let Err(e) = fill(slot, window, &range, visit)
        {
            slot.spoiled().store(1, Relaxed);
            visit.failed(e);
        }
        slot.state().store(state::READY, Release);
        visit.seat.node.notify();
        true
    }

    fn read(&mut self, lane: &Lane, visit: &mut Visit<'_, W>) -> bool {
        let round = self.done;
        let slot = self.slot(round, visit);
        if !slot.serves(self.turn(round)) {
            return false;
        }
        let window = lane.window(round);
        let wanted = visit.want().is_some_and(|want| want.portions(&window, u64::MAX).next().is_some());
        if wanted {
            if !obtain(&slot, &window, visit) {
                return false;
            }
            self.take(&slot, &window, visit);
        }
        self.done += 1;
        arrive_read(&slot, visit);
        true
    }

    /// Copies this rank's bytes out of a window, up to the end of the file.
    fn take(&mut self, slot: &Slot<'_>, window: &Window, visit: &mut Visit<'_, W>) {
        let (Some(want), Some(job)) = (visit.want(), visit.job) else { return };
        if slot.spoiled().load(Relaxed) != 0 {
            return;
        }
        for portion in want.portions(window, slot.high().load(Relaxed)) {
            let len = portion.extent.end - portion.extent.start;
            slot.window(portion.place, len, |from| want.copy_out(&portion, &job.buffer, from));
            visit.tally.copied += portion.len();
            *visit.moved += portion.len();
        }
    }
}

/// Announces what will be brought to a window; the last to do so decides how to go on.
pub(crate) fn announce<W: World>(
    slot: &Slot<'_>,
    window: &Window,
    wants: &[Want<'_>],
    visit: &mut Visit<'_, W>,
) {
    let (mut bytes, mut print) = (0, 0);
    for want in wants {
        for portion in want.portions(window, u64::MAX) {
            bytes += portion.len();
            print = plus(print, visit.plan.coverage.pieces(portion.cursor(want.view)));
            let mut cursor = portion.cursor(want.view);
            let low = cursor.next_piece(1).map_or(portion.extent.start, |piece| piece.offset as u64);
            let last = want.view.select(pario_types::Pos(portion.positions.end - 1));
            let high = last.map_or(portion.extent.end, |offset| offset.0 + 1);
            slot.not_low().fetch_max(!low, Relaxed);
            slot.high().fetch_max(high, Relaxed);
        }
    }
    let (low, high) = halves(print);
    slot.bytes().fetch_add(bytes, Relaxed);
    slot.print_low().fetch_add(low, Relaxed);
    slot.print_high().fetch_add(high, Relaxed);
    if slot.announced().fetch_add(1, AcqRel) + 1 < visit.plan.expected {
        return;
    }
    let bytes = slot.bytes().load(Relaxed);
    if bytes == 0 {
        slot.complete();
        return;
    }
    let sum = whole(slot.print_low().load(Relaxed), slot.print_high().load(Relaxed));
    let all = || window.extents().map(|e| visit.plan.coverage.range(e)).fold(0, plus);
    let covered = bytes == window.bytes() && sum == all();
    slot.state().store(if covered { state::READY } else { state::WANTED }, Release);
    visit.seat.node.notify();
}

/// Says that one more has brought its bytes; the last one writes, or has it written.
pub(crate) fn arrive_written<W: World>(slot: &Slot<'_>, window: &Window, visit: &mut Visit<'_, W>) {
    if slot.arrived().fetch_add(1, AcqRel) + 1 < visit.plan.expected {
        return;
    }
    if visit.plan.one_writer {
        slot.state().store(state::FULL, Release);
        visit.seat.node.full().fetch_add(1, SeqCst);
    } else if visit.accesses {
        write_out(slot, window, visit);
    } else {
        slot.state().store(state::FULL, Release);
        visit.seat.node.notify();
    }
}

/// Writes a window and gives it free. After a failure this rank writes no more.
fn write_out<W: World>(slot: &Slot<'_>, window: &Window, visit: &mut Visit<'_, W>) {
    let parts = match visit.plan {
        Plan { marked: true, .. } => brought(window, &slot.take_marks(window.bytes())),
        Plan { announced: true, .. } => {
            clipped(window, &(!slot.not_low().load(Relaxed)..slot.high().load(Relaxed))).collect()
        }
        _ => clipped(window, &(window.lo()..window.hi())).collect(),
    };
    if slot.spoiled().load(Relaxed) == 0 && visit.error.is_none() && !parts.is_empty() {
        let locked = slot.locked().load(Relaxed) != 0;
        let (world, tally) = (&mut *visit.world, &mut *visit.tally);
        tally.windows += 1;
        let written = slot.window(0, window.bytes(), |bytes| {
            let memory = |(place, part): &(u64, Range<u64>)| {
                (part.start, &bytes[*place as usize..(place + part.end - part.start) as usize])
            };
            let parts: Vec<(u64, &[u8])> = parts.iter().map(memory).collect();
            tally.timed(|| world.write(&parts, locked))
        });
        if let Err(e) = written {
            visit.failed(e);
        }
    }
    slot.complete();
}

/// The parts of the file that lie in these runs of a window's memory, each with its place there.
fn brought(window: &Window, runs: &[Range<u64>]) -> Vec<(u64, Range<u64>)> {
    let (mut parts, mut runs) = (Vec::new(), runs.iter().cloned().peekable());
    let mut place = 0;
    for extent in window.extents() {
        let end = place + extent.end - extent.start;
        while let Some(run) = runs.peek_mut().filter(|run| run.start < end) {
            let here = run.start..run.end.min(end);
            parts.push((here.start, extent.start + here.start - place..extent.start + here.end - place));
            run.start = here.end;
            if run.is_empty() {
                runs.next();
            }
        }
        place = end;
    }
    parts
}

/// The parts of a window's extents in a range, each with its place in the window.
fn clipped(window: &Window, range: &Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> {
    let (mut place, range) = (0, range.clone());
    window.extents().filter_map(move |extent| {
        let here = place;
        place += extent.end - extent.start;
        let part = extent.start.max(range.start)..extent.end.min(range.end);
        (!part.is_empty()).then(|| (here + part.start - extent.start, part))
    })
}

/// Locks the parts of a window's extents in a range, all or none. (Not what lies between: that belongs to
/// other aggregators.)
fn lock<W: World>(
    window: &Window,
    range: &Range<u64>,
    visit: &mut Visit<'_, W>,
) -> Result<Option<Vec<W::Guard>>, W::Error> {
    let mut guards = Vec::new();
    for (_, part) in clipped(window, range) {
        visit.tally.locks += 1;
        match visit.world.try_lock(part)? {
            Some(guard) => guards.push(guard),
            None => return Ok(None),
        }
    }
    Ok(Some(guards))
}

/// Reads what the file has in a range into a window; zeros where it has nothing.
fn fill<W: World>(
    slot: &Slot<'_>,
    window: &Window,
    range: &Range<u64>,
    visit: &mut Visit<'_, W>,
) -> Result<(), W::Error> {
    let (world, tally) = (&mut *visit.world, &mut *visit.tally);
    tally.timed(|| {
        clipped(window, range).try_for_each(|(place, part)| {
            let hole = world.is_hole(part.clone())?;
            slot.window(place, part.end - part.start, |bytes| {
                let got = if hole { 0 } else { world.read(&mut [(part.start, &mut *bytes)])? };
                bytes[got..].fill(0);
                Ok(())
            })
        })
    })
}

/// Makes sure that a window has been read, by this rank if nobody else does; false if that has to wait.
pub(crate) fn obtain<W: World>(slot: &Slot<'_>, window: &Window, visit: &mut Visit<'_, W>) -> bool {
    match slot.state().load(Acquire) {
        state::READY => true,
        state::FRESH if !visit.accesses => {
            let asked = slot.state().compare_exchange(state::FRESH, state::WANTED, AcqRel, Relaxed);
            if asked.is_ok() {
                visit.seat.node.notify();
            }
            false
        }
        seen @ (state::FRESH | state::WANTED) if visit.accesses => fetch(slot, seen, window, visit),
        _ => false,
    }
}

/// Reads a window for all; false if somebody else has begun to.
fn fetch<W: World>(slot: &Slot<'_>, seen: u64, window: &Window, visit: &mut Visit<'_, W>) -> bool {
    if slot.state().compare_exchange(seen, state::READING, AcqRel, Relaxed).is_err() {
        return false;
    }
    read_in(slot, window, visit);
    true
}

/// Reads a window whose state this rank holds.
fn read_in<W: World>(slot: &Slot<'_>, window: &Window, visit: &mut Visit<'_, W>) {
    let mut end = u64::MAX;
    let (world, tally) = (&mut *visit.world, &mut *visit.tally);
    tally.windows += 1;
    let read = slot.window(0, window.bytes(), |bytes| {
        let mut rest = bytes;
        let mut parts: Vec<(u64, &mut [u8])> = Vec::new();
        for extent in window.extents() {
            let (here, after) = std::mem::take(&mut rest).split_at_mut((extent.end - extent.start) as usize);
            parts.push((extent.start, here));
            rest = after;
        }
        tally.timed(|| world.read(&mut parts))
    });
    match read {
        Ok(got) => {
            let mut left = got as u64;
            for extent in window.extents() {
                let len = extent.end - extent.start;
                if left < len {
                    end = extent.start + left;
                    break;
                }
                left -= len;
            }
        }
        Err(e) => {
            slot.spoiled().store(1, Relaxed);
            visit.failed(e);
        }
    }
    slot.high().store(end, Relaxed);
    slot.state().store(state::READY, Release);
    visit.seat.node.notify();
}

/// Says that one more needs the window no longer; the last gives it free.
pub(crate) fn arrive_read<W: World>(slot: &Slot<'_>, visit: &mut Visit<'_, W>) {
    if slot.arrived().fetch_add(1, AcqRel) + 1 == visit.plan.expected {
        slot.complete();
    }
}
