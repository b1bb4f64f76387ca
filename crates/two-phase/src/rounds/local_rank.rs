//! A rank in a file domain of its own node. It copies its bytes into and out of the shared windows.
//!
//! *Writes without holes*: each rank copies its bytes and arrives. The last rank to arrive writes the
//! window.
//!
//! *Writes that may have holes*: all ranks first announce what they will write to a window. The last rank
//! to announce knows whether the window will have holes. If it will, a rank reads the file into the window
//! before any rank copies, under a lock that is held until the window is written. If aggregators access
//! their domains exclusively, nothing is read: ranks mark their bytes, and only marked bytes are written.
//!
//! *Single writer*: if the file system lets only one process write, the last rank to arrive leaves the
//! window to the rank that is writing. It becomes the writer only if there is none.
//!
//! *Reads*: the first rank that needs bytes reads the window, while the others continue in other domains.
//! The last rank to arrive frees the window.
//!
//! Ranks that may not access the file leave file access to ranks that may. If aggregators access their
//! domains exclusively, all ranks leave it to the aggregator of the domain.

use pario_domain::DomainWindow;
use pario_file_backend::{LockAttempt, RangeLock};
use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use super::{DomainRounds, RoundPlan, StepContext};
use crate::coverage::{add_mod, join_halves, split_halves};
use crate::io::CollectiveIo;
use crate::node_segment::{DEPTH, WindowSlot, state};
use crate::portion::ViewRange;

/// The role of this rank in a file domain of its node.
pub(crate) struct LocalRank {
    /// The index of the aggregator among the local ranks.
    pub aggregator_index: u32,
    /// The sequence number of round 0.
    base: u64,
    is_aggregator: bool,
    announced: u64,
    done: u64,
    /// The locks of windows that are read before they are written, each with the sequence number of the window. `None`
    /// if no lock is needed.
    guards: Vec<(u64, RangeGuard)>,
}

impl LocalRank {
    pub fn new(aggregator_index: u32, base: u64, is_aggregator: bool) -> LocalRank {
        LocalRank { aggregator_index, base, is_aggregator, announced: 0, done: 0, guards: Vec::new() }
    }

    pub fn sequence(&self, round: u64) -> u64 {
        self.base + round
    }

    pub fn slot<'a, C: CollectiveIo>(&self, round: u64, context: &StepContext<'a, C>) -> WindowSlot<'a> {
        context.rank_state.node.slot(self.aggregator_index, self.sequence(round))
    }

    /// Whether this rank may access the file for this domain.
    pub fn may_access(&self, plan: &RoundPlan) -> bool {
        plan.may_access && (self.is_aggregator || !plan.exclusive_domains)
    }

    pub fn is_finished<C: CollectiveIo>(&self, rounds: &DomainRounds, context: &StepContext<'_, C>) -> bool {
        self.done == rounds.count()
            && self.guards.is_empty()
            && (!self.must_stay(context) || self.is_completed(rounds, context))
    }

    /// Whether this rank has to stay until the last window of the domain is completed.
    fn must_stay<C: CollectiveIo>(&self, context: &StepContext<'_, C>) -> bool {
        self.is_aggregator && !context.plan.all_access
    }

    /// Whether all windows are completed. The last window may complete before the one before it, which
    /// other ranks have filled and left to this rank.
    fn is_completed<C: CollectiveIo>(&self, rounds: &DomainRounds, context: &StepContext<'_, C>) -> bool {
        let last = rounds.count().saturating_sub(DEPTH)..rounds.count();
        last.into_iter().all(|round| self.slot(round, context).is_completed(self.sequence(round)))
    }

    pub fn step<C: CollectiveIo>(&mut self, rounds: &DomainRounds, context: &mut StepContext<'_, C>) -> bool {
        let mut progress = self.release(context);
        if context.may_access && (!context.plan.all_access || context.plan.announce) {
            progress |= self.serve_file_accesses(rounds, context);
        }
        if self.done == rounds.count() {
            return progress;
        }
        progress
            | if !context.plan.write {
                self.read(rounds, context)
            } else if context.plan.announce {
                self.write_announced(rounds, context)
            } else {
                self.write_at_once(rounds, context)
            }
    }

    /// The rounds that slots may be serving. No rank is ahead of this one by more rounds than there are
    /// slots.
    fn open_rounds(&self, rounds: &DomainRounds) -> Range<u64> {
        self.done.saturating_sub(DEPTH)..rounds.count().min(self.done + DEPTH)
    }

    /// Releases the locks of windows that have been written.
    fn release<C: CollectiveIo>(&mut self, context: &StepContext<'_, C>) -> bool {
        let before = self.guards.len();
        let (index, node) = (self.aggregator_index, &context.rank_state.node);
        self.guards.retain(|(sequence, _)| !node.slot(index, *sequence).is_completed(*sequence));
        self.guards.len() < before
    }

    /// Performs the file accesses that wait in the slots of this domain.
    fn serve_file_accesses<C: CollectiveIo>(
        &mut self,
        rounds: &DomainRounds,
        context: &mut StepContext<'_, C>,
    ) -> bool {
        let mut progress = false;
        for round in self.open_rounds(rounds) {
            let slot = self.slot(round, context);
            if !slot.is_current(self.sequence(round)) {
                continue;
            }
            match slot.state().load(Acquire) {
                state::WANTED if context.plan.write => {
                    progress |= self.read_before_write(round, &slot, &rounds.window(round), context);
                }
                state::WANTED => {
                    progress |= self.read_for_others(round, &slot, &rounds.window(round), context)
                }
                state::FULL if !context.plan.single_writer => {
                    let mine = slot.state().compare_exchange(state::FULL, state::WRITING, AcqRel, Relaxed);
                    if mine.is_ok() {
                        write_window(&slot, &rounds.window(round), context);
                        progress = true;
                    }
                }
                _ => {}
            }
        }
        progress
    }

    /// Reads a window for other ranks. If this rank has arrived already, the sequence number may complete
    /// at any moment and the slot may be wanted for a later one. The later one cannot complete while this
    /// rank holds the state of the slot.
    fn read_for_others<C: CollectiveIo>(
        &mut self,
        round: u64,
        slot: &WindowSlot<'_>,
        window: &DomainWindow,
        context: &mut StepContext<'_, C>,
    ) -> bool {
        if slot.state().compare_exchange(state::WANTED, state::READING, AcqRel, Relaxed).is_err() {
            return false;
        }
        if !slot.is_current(self.sequence(round)) {
            slot.state().store(state::WANTED, Release);
            context.rank_state.node.notify();
            return false;
        }
        read_window(slot, window, context);
        true
    }

    /// Writes the full windows of this domain. No other rank does so at the same time.
    pub fn write_full<C: CollectiveIo>(
        &mut self,
        rounds: &DomainRounds,
        context: &mut StepContext<'_, C>,
    ) -> bool {
        let mut progress = false;
        for round in self.open_rounds(rounds) {
            let slot = self.slot(round, context);
            if slot.is_current(self.sequence(round)) && slot.state().load(Acquire) == state::FULL {
                context.rank_state.node.full_windows().fetch_sub(1, AcqRel);
                write_window(&slot, &rounds.window(round), context);
                progress = true;
            }
        }
        progress
    }

    fn write_at_once<C: CollectiveIo>(
        &mut self,
        rounds: &DomainRounds,
        context: &mut StepContext<'_, C>,
    ) -> bool {
        let round = self.done;
        let slot = self.slot(round, context);
        if !slot.is_current(self.sequence(round)) {
            return false;
        }
        self.copy_in(&slot, &rounds.window(round), context);
        true
    }

    fn write_announced<C: CollectiveIo>(
        &mut self,
        rounds: &DomainRounds,
        context: &mut StepContext<'_, C>,
    ) -> bool {
        let mut progress = false;
        while self.announced < rounds.count() {
            let slot = self.slot(self.announced, context);
            if !slot.is_current(self.sequence(self.announced)) {
                break;
            }
            announce(&slot, &rounds.window(self.announced), context.view_range().as_slice(), context);
            self.announced += 1;
            progress = true;
        }
        let round = self.done;
        if round == self.announced {
            return progress;
        }
        let slot = self.slot(round, context);
        if slot.is_completed(self.sequence(round)) {
            // No rank has bytes in this window.
            self.done += 1;
            return true;
        }
        if slot.state().load(Acquire) == state::READY {
            self.copy_in(&slot, &rounds.window(round), context);
            return true;
        }
        progress
    }

    /// Copies the bytes of this rank into a window and arrives.
    fn copy_in<C: CollectiveIo>(
        &mut self,
        slot: &WindowSlot<'_>,
        window: &DomainWindow,
        context: &mut StepContext<'_, C>,
    ) {
        if let (Some(view_range), Some(request)) = (context.view_range(), context.request) {
            for portion in view_range.portions(window, u64::MAX) {
                let len = portion.extent.end - portion.extent.start;
                slot.window(portion.window_offset, len, |to| {
                    view_range.copy_in(&portion, &request.buffer, to)
                });
                if context.plan.mark_bytes {
                    portion.window_ranges(view_range.view).for_each(|range| slot.mark(range));
                }
                context.counters.copied += portion.len();
                *context.moved += portion.len();
            }
        }
        self.done += 1;
        finish_copy_in(slot, window, context);
    }

    /// Reads a window that will have holes, under a lock that is held until the window is written.
    fn read_before_write<C: CollectiveIo>(
        &mut self,
        round: u64,
        slot: &WindowSlot<'_>,
        window: &DomainWindow,
        context: &mut StepContext<'_, C>,
    ) -> bool {
        if slot.state().compare_exchange(state::WANTED, state::READING, AcqRel, Relaxed).is_err() {
            return false;
        }
        let range = !slot.inverted_low().load(Relaxed)..slot.high().load(Relaxed);
        match lock_range(window, &range, context) {
            Ok(None) => {
                // Another process holds the lock. Other ranks can continue meanwhile, so there is no
                // deadlock.
                slot.state().store(state::WANTED, Release);
                return false;
            }
            Ok(Some(guards)) => {
                slot.locked().store(1, Relaxed);
                let sequence = self.sequence(round);
                self.guards.extend(guards.into_iter().map(|guard| (sequence, guard)));
            }
            Err(e) => {
                slot.failed_read().store(1, Relaxed);
                context.record_failure(e);
            }
        }
        context.counters.rmw += 1;
        if slot.failed_read().load(Relaxed) == 0
            && let Err(e) = read_range(slot, window, &range, context)
        {
            slot.failed_read().store(1, Relaxed);
            context.record_failure(e);
        }
        slot.state().store(state::READY, Release);
        context.rank_state.node.notify();
        true
    }

    fn read<C: CollectiveIo>(&mut self, rounds: &DomainRounds, context: &mut StepContext<'_, C>) -> bool {
        let round = self.done;
        let slot = self.slot(round, context);
        if !slot.is_current(self.sequence(round)) {
            return false;
        }
        let window = rounds.window(round);
        let wanted = context
            .view_range()
            .is_some_and(|view_range| view_range.portions(&window, u64::MAX).next().is_some());
        if wanted {
            if !ensure_read(&slot, &window, context) {
                return false;
            }
            self.copy_out(&slot, &window, context);
        }
        self.done += 1;
        finish_copy_out(&slot, context);
        true
    }

    /// Copies the bytes of this rank out of a window, up to the end of the file.
    fn copy_out<C: CollectiveIo>(
        &mut self,
        slot: &WindowSlot<'_>,
        window: &DomainWindow,
        context: &mut StepContext<'_, C>,
    ) {
        let (Some(view_range), Some(request)) = (context.view_range(), context.request) else { return };
        if slot.failed_read().load(Relaxed) != 0 {
            return;
        }
        for portion in view_range.portions(window, slot.high().load(Relaxed)) {
            let len = portion.extent.end - portion.extent.start;
            slot.window(portion.window_offset, len, |from| {
                view_range.copy_out(&portion, &request.buffer, from)
            });
            context.counters.copied += portion.len();
            *context.moved += portion.len();
        }
    }
}

/// Announces the bytes that ranks will write to a window. The last rank to announce sets the next state.
pub(crate) fn announce<C: CollectiveIo>(
    slot: &WindowSlot<'_>,
    window: &DomainWindow,
    view_ranges: &[ViewRange<'_>],
    context: &mut StepContext<'_, C>,
) {
    let (mut bytes, mut fingerprint) = (0, 0);
    for view_range in view_ranges {
        for portion in view_range.portions(window, u64::MAX) {
            bytes += portion.len();
            fingerprint =
                add_mod(fingerprint, context.plan.coverage.of_pieces(portion.cursor(view_range.view)));
            let mut cursor = portion.cursor(view_range.view);
            let low = cursor.next_piece(1).map_or(portion.extent.start, |piece| piece.offset as u64);
            let last = view_range.view.select(pario_types::Pos(portion.positions.end - 1));
            let high = last.map_or(portion.extent.end, |offset| offset.0 + 1);
            slot.inverted_low().fetch_max(!low, Relaxed);
            slot.high().fetch_max(high, Relaxed);
        }
    }
    let (low, high) = split_halves(fingerprint);
    slot.bytes().fetch_add(bytes, Relaxed);
    slot.fingerprint_low().fetch_add(low, Relaxed);
    slot.fingerprint_high().fetch_add(high, Relaxed);
    if slot.announced().fetch_add(1, AcqRel) + 1 < context.plan.expected {
        return;
    }
    let bytes = slot.bytes().load(Relaxed);
    if bytes == 0 {
        slot.complete();
        return;
    }
    let sum = join_halves(slot.fingerprint_low().load(Relaxed), slot.fingerprint_high().load(Relaxed));
    let all = || window.extents().map(|e| context.plan.coverage.of_range(e)).fold(0, add_mod);
    let covered = bytes == window.bytes() && sum == all();
    slot.state().store(if covered { state::READY } else { state::WANTED }, Release);
    context.rank_state.node.notify();
}

/// Counts one arrival after a copy into the window. The last arrival writes the window or leaves it to a
/// rank that may.
pub(crate) fn finish_copy_in<C: CollectiveIo>(
    slot: &WindowSlot<'_>,
    window: &DomainWindow,
    context: &mut StepContext<'_, C>,
) {
    if slot.arrived().fetch_add(1, AcqRel) + 1 < context.plan.expected {
        return;
    }
    if context.plan.single_writer {
        slot.state().store(state::FULL, Release);
        context.rank_state.node.full_windows().fetch_add(1, SeqCst);
    } else if context.may_access {
        write_window(slot, window, context);
    } else {
        slot.state().store(state::FULL, Release);
        context.rank_state.node.notify();
    }
}

/// Writes a window and frees it. After a failure this rank writes no further windows.
fn write_window<C: CollectiveIo>(
    slot: &WindowSlot<'_>,
    window: &DomainWindow,
    context: &mut StepContext<'_, C>,
) {
    let parts = match context.plan {
        RoundPlan { mark_bytes: true, .. } => marked_parts(window, &slot.take_marks(window.bytes())),
        RoundPlan { announce: true, .. } => {
            parts_in_range(window, &(!slot.inverted_low().load(Relaxed)..slot.high().load(Relaxed))).collect()
        }
        _ => parts_in_range(window, &(window.lo()..window.hi())).collect(),
    };
    if slot.failed_read().load(Relaxed) == 0 && context.error.is_none() && !parts.is_empty() {
        let locked = slot.locked().load(Relaxed) != 0;
        context.counters.windows += 1;
        let written = slot.window(0, window.bytes(), |bytes| {
            let memory = |(place, part): &(u64, Range<u64>)| {
                (part.start, &bytes[*place as usize..(place + part.end - part.start) as usize])
            };
            let parts: Vec<(u64, &[u8])> = parts.iter().map(memory).collect();
            context.access_file(|file| file.write(&parts, locked))
        });
        if let Err(e) = written {
            context.record_failure(e);
        }
    }
    slot.complete();
}

/// The file ranges of these runs of window memory, each with its offset in the window.
fn marked_parts(window: &DomainWindow, runs: &[Range<u64>]) -> Vec<(u64, Range<u64>)> {
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

/// The parts of the extents of a window within a range, each with its offset in the window.
fn parts_in_range(window: &DomainWindow, range: &Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> {
    let (mut place, range) = (0, range.clone());
    window.extents().filter_map(move |extent| {
        let here = place;
        place += extent.end - extent.start;
        let part = extent.start.max(range.start)..extent.end.min(range.end);
        (!part.is_empty()).then(|| (here + part.start - extent.start, part))
    })
}

/// A lock on a range of the file, or nothing where the backend needs no lock.
type RangeGuard = Option<Box<dyn RangeLock>>;

/// Locks the parts of the extents of a window within a range, all or none. The gaps between extents belong
/// to other aggregators and are not locked.
fn lock_range<C: CollectiveIo>(
    window: &DomainWindow,
    range: &Range<u64>,
    context: &mut StepContext<'_, C>,
) -> Result<Option<Vec<RangeGuard>>, C::Error> {
    let mut guards = Vec::new();
    let file = context.io.file()?;
    for (_, part) in parts_in_range(window, range) {
        context.counters.locks += 1;
        match file.try_lock(part)? {
            LockAttempt::Locked(lock) => guards.push(Some(lock)),
            LockAttempt::NotNeeded => guards.push(None),
            LockAttempt::Busy => return Ok(None),
        }
    }
    Ok(Some(guards))
}

/// Reads a range of the file into a window. Bytes that the file does not have become zeros.
fn read_range<C: CollectiveIo>(
    slot: &WindowSlot<'_>,
    window: &DomainWindow,
    range: &Range<u64>,
    context: &mut StepContext<'_, C>,
) -> Result<(), C::Error> {
    context.access_file(|file| {
        parts_in_range(window, range).try_for_each(|(place, part)| {
            let hole = file.backend.is_hole(part.clone())?;
            slot.window(place, part.end - part.start, |bytes| {
                let got = if hole { 0 } else { file.read(&mut [(part.start, &mut *bytes)])? };
                bytes[got..].fill(0);
                Ok(())
            })
        })
    })
}

/// Makes sure that a window has been read, by this rank if no other rank is doing so. Returns false if the
/// caller has to wait.
pub(crate) fn ensure_read<C: CollectiveIo>(
    slot: &WindowSlot<'_>,
    window: &DomainWindow,
    context: &mut StepContext<'_, C>,
) -> bool {
    match slot.state().load(Acquire) {
        state::READY => true,
        state::FRESH if !context.may_access => {
            let asked = slot.state().compare_exchange(state::FRESH, state::WANTED, AcqRel, Relaxed);
            if asked.is_ok() {
                context.rank_state.node.notify();
            }
            false
        }
        seen @ (state::FRESH | state::WANTED) if context.may_access => {
            claim_and_read(slot, seen, window, context)
        }
        _ => false,
    }
}

/// Reads a window for all ranks. Returns false if another rank has begun to.
fn claim_and_read<C: CollectiveIo>(
    slot: &WindowSlot<'_>,
    seen: u64,
    window: &DomainWindow,
    context: &mut StepContext<'_, C>,
) -> bool {
    if slot.state().compare_exchange(seen, state::READING, AcqRel, Relaxed).is_err() {
        return false;
    }
    read_window(slot, window, context);
    true
}

/// Reads a window whose state this rank holds.
fn read_window<C: CollectiveIo>(
    slot: &WindowSlot<'_>,
    window: &DomainWindow,
    context: &mut StepContext<'_, C>,
) {
    let mut end = u64::MAX;
    context.counters.windows += 1;
    let read = slot.window(0, window.bytes(), |bytes| {
        let mut rest = bytes;
        let mut parts: Vec<(u64, &mut [u8])> = Vec::new();
        for extent in window.extents() {
            let (here, after) = std::mem::take(&mut rest).split_at_mut((extent.end - extent.start) as usize);
            parts.push((extent.start, here));
            rest = after;
        }
        context.access_file(|file| file.read(&mut parts))
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
            slot.failed_read().store(1, Relaxed);
            context.record_failure(e);
        }
    }
    slot.high().store(end, Relaxed);
    slot.state().store(state::READY, Release);
    context.rank_state.node.notify();
}

/// Counts one arrival after a copy out of the window. The last arrival frees the window.
pub(crate) fn finish_copy_out<C: CollectiveIo>(slot: &WindowSlot<'_>, context: &mut StepContext<'_, C>) {
    if slot.arrived().fetch_add(1, AcqRel) + 1 == context.plan.expected {
        slot.complete();
    }
}
