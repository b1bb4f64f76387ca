//! Which bytes and sizes a read may return, given what all workers did.
//!
//! Every byte of a file is a register with many writers. A write, a truncation (which writes zeros from its size
//! on) and the content at the beginning of a round are *events*, each with a start and an end. A read may return
//! the byte of event `w` unless a *definite* event `d` came after all of `w` and before all of the read. An event is
//! definite if its call returned success, and if nothing that happened since may lose it: only the loss of a host
//! may, for what was not synced or closed before. A call that returned an error may have happened or not, until
//! it returned. A call whose worker was killed may happen until shortly after the death. A write that a worker keeps in
//! its own memory (tier 1) is definite if the worker's next sync, flush or close of the file succeeds: other clients see its bytes from its
//! return on, and the size that it gives the file from that sync on. Otherwise it may happen until then.
//!
//! A write that one read has shown is definite for later reads of these bytes ([`Contents::observe`]): bytes do not go back to what they were
//! before it, even if its worker was killed.

use std::ops::Range;

use super::history::{Call, CallOutcome, How, Nanos, Op, content, pattern};
use super::power_safety::{self, PowerSafety};

/// A file's content at some time, and what was done to it since.
#[derive(Debug, Default)]
pub struct Contents {
    base: Vec<u8>,
    since: Nanos,
    events: Vec<Event>,
    /// When hosts lost power: their memory and any part of their unsynced storage.
    power_losses: Vec<Nanos>,
}

/// A change of a file.
#[derive(Clone, Debug)]
struct Event {
    change: Change,
    worker: u32,
    start: Nanos,
    /// From then on it cannot take effect any more.
    end: Nanos,
    succeeded: bool,
    /// From then on the size that it gives the file is known to all.
    sized: Nanos,
    /// From then on the loss of a host does not lose it.
    durable: Nanos,
    power: PowerSafety,
    /// Whether it may be of a file whose name a loss of power has taken.
    is_unnamed: bool,
    /// Whether its worker may be the only one that has it.
    kept: bool,
    /// Reads that showed it.
    seen: Vec<Sighting>,
}

/// A read that showed the bytes of a write.
#[derive(Clone, Debug)]
struct Sighting {
    bytes: Range<u64>,
    time: Range<Nanos>,
}

/// The fewest bytes by which a write is recognized.
const RECOGNIZED: u64 = 8;

#[derive(Clone, Debug)]
enum Change {
    Write { serial: u64, extents: Vec<(u64, u64)> },
    Cut { size: u64 },
}

impl Change {
    fn covers(&self, range: &Range<u64>) -> bool {
        match self {
            Change::Write { extents, .. } => {
                extents.iter().any(|(at, len)| *at < range.end && range.start < at + len)
            }
            Change::Cut { size } => *size < range.end,
        }
    }

    /// The size that it gives a file at least.
    fn reach(&self) -> u64 {
        match self {
            Change::Write { extents, .. } => extents.iter().map(|(at, len)| at + len).max().unwrap_or(0),
            Change::Cut { size } => *size,
        }
    }

    fn byte(&self, at: u64) -> u8 {
        match self {
            Change::Write { serial, .. } => pattern(*serial, at),
            Change::Cut { .. } => 0,
        }
    }
}

impl Event {
    /// Whether it has happened for a read at this time.
    fn is_definite(&self, read: &Read<'_>) -> bool {
        // Also a loss in the middle of the call or of the read.
        self.succeeded && self.end < read.start && self.is_kept(self.start, read)
    }

    /// Whether no loss between some time and a read can have taken it.
    fn is_kept(&self, since: Nanos, read: &Read<'_>) -> bool {
        let meanwhile = |loss: Nanos| since < loss && loss < read.end;
        let lost = |loss: &Nanos| meanwhile(*loss) && self.durable > *loss;
        let lost_with_power = |loss: &Nanos| meanwhile(*loss) && !self.power.survives(*loss);
        !read.losses.iter().any(lost) && !read.contents.power_losses.iter().any(lost_with_power)
    }

    /// Whether a read that was over showed these bytes of it, and nothing can have lost them since.
    fn was_seen(&self, bytes: &Range<u64>, read: &Read<'_>) -> bool {
        let shows = |seen: &Sighting| {
            let covers = seen.bytes.start <= bytes.start && bytes.end <= seen.bytes.end;
            covers && seen.time.end < read.start && self.is_kept(seen.time.start, read)
        };
        self.seen.iter().any(shows)
    }

    fn describe(&self) -> String {
        let what = match &self.change {
            Change::Write { serial, extents } => format!("write {serial} to {}", spell(extents)),
            Change::Cut { size } => format!("truncation to {size}"),
        };
        let how = if self.succeeded { "returned success" } else { "failed or never returned" };
        let safe = if self.durable == Nanos::MAX { "" } else { ", then synced or closed" };
        format!(
            "{} .. {} worker {}: {what}, {how}{safe}",
            seconds(self.start),
            seconds(self.end),
            self.worker
        )
    }
}

/// A time as the logs have it.
pub fn seconds(at: Nanos) -> String {
    match at {
        Nanos::MAX => "never".into(),
        _ => format!("{:.6}", at as f64 / 1e9),
    }
}

fn spell(extents: &[(u64, u64)]) -> String {
    let one = |(at, len): &(u64, u64)| format!("{at}+{len}");
    extents.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Times that the check needs besides the calls.
pub struct Circumstances<'a> {
    /// The latest time at which a call of a killed worker can take effect.
    pub over: &'a dyn Fn(u32) -> Nanos,
}

impl Contents {
    /// Takes in what workers did to this file.
    pub fn take(&mut self, number: usize, calls: &[Call], circumstances: &Circumstances<'_>) {
        let of_file = |op: &Op| match op {
            Op::Sync { file } | Op::Flush { file } | Op::Close { file } => *file == number,
            _ => false,
        };
        let savers: Vec<&Call> = calls.iter().filter(|call| of_file(&call.op)).collect();
        for call in calls {
            let change = match &call.op {
                Op::Write { file, serial, extents, .. } if *file == number => {
                    Change::Write { serial: *serial, extents: extents.clone() }
                }
                Op::SetLen { file, size } if *file == number => Change::Cut { size: *size },
                Op::Open { file, how: How::Truncate } if *file == number => Change::Cut { size: 0 },
                _ => continue,
            };
            let over = || (circumstances.over)(call.worker);
            let (mut end, mut succeeded) = (call.end.unwrap_or_else(over), call.succeeded());
            let mut sized = end;
            let kept = matches!(call.op, Op::Write { kept: true, .. });
            if kept {
                let own = |other: &Call| other.worker == call.worker && other.start >= end;
                let saver = savers.iter().find(|saver| own(saver));
                let until = saver.and_then(|saver| saver.end).unwrap_or_else(over);
                // Of a loss only one call is told, which may be any.
                let told =
                    calls.iter().any(|other| own(other) && other.start < until && other.failure().is_some());
                succeeded &= saver.is_some_and(|saver| saver.succeeded()) && !told;
                sized = until;
                end = if succeeded { end } else { until };
            }
            // A handle whose close failed is gone; what it wrote is not the business of the next one, unless that syncs.
            let failed_close = savers.iter().find(|saver| {
                let own = saver.worker == call.worker && saver.start > end;
                own && matches!(saver.op, Op::Close { .. }) && !saver.succeeded()
            });
            let handle_end = failed_close.map_or(Nanos::MAX, |close| close.start);
            let saves = |saver: &&&Call| {
                let own = saver.worker == call.worker && saver.start < handle_end;
                let saves = own || matches!(saver.op, Op::Sync { .. });
                // The sync of another worker does not cover what this one keeps.
                let done = if own { end } else { sized };
                saves && saver.succeeded() && (saver.start > done || saver.end == Some(done))
            };
            let durable =
                savers.iter().filter(saves).filter_map(|saver| saver.end).min().unwrap_or(Nanos::MAX);
            // A worker that survives a loss learns of it by its next sync or close: if that succeeds, nothing was lost.
            let other_file = power_safety::other_file_from(call, number, calls, &self.power_losses);
            let is_own = |saver: &&&Call| saver.worker == call.worker && saver.start < other_file;
            let own = savers.iter().filter(is_own).filter(|saver| saver.start >= end);
            let next = own.min_by_key(|saver| saver.start);
            let saved = next.is_some_and(|saver| saver.succeeded());
            let syncs = savers.iter().filter(saves).filter(|saver| matches!(saver.op, Op::Sync { .. }));
            let power = PowerSafety::new(syncs.filter_map(|saver| saver.end).min(), next.copied());
            let is_unnamed = !saved && power_safety::has_old_handle(call, number, calls, &self.power_losses);
            succeeded &= !is_unnamed;
            let durable = if saved { durable.min(call.start) } else { durable };
            let (worker, start, seen) = (call.worker, call.start, Vec::new());
            self.events.push(Event {
                change,
                worker,
                start,
                end,
                succeeded,
                sized,
                durable,
                power,
                is_unnamed,
                kept,
                seen,
            });
        }
    }

    /// The reason why the outcome of this call is impossible; otherwise the number of bytes that were right.
    pub fn judge(&self, call: &Call, losses: &[Nanos]) -> Result<u64, String> {
        let Some(end) = call.end else { return Ok(0) };
        let read = Read { contents: self, start: call.start, end, losses };
        match (&call.op, &call.outcome) {
            (Op::Len { .. }, Some(CallOutcome::Size(size))) => read.size(*size, *size).map(|()| 0),
            (Op::Read { at, len, .. }, Some(CallOutcome::Bytes(bytes))) => {
                let found = at + bytes.len() as u64;
                match bytes.len() as u64 {
                    all if all == *len => read.size(found, u64::MAX)?,
                    0 => read.size(0, *at)?,
                    _ => read.size(found, found)?,
                }
                read.bytes(*at, bytes).map(|()| bytes.len() as u64)
            }
            _ => Ok(0),
        }
    }

    /// Takes in what a read has shown; reads are taken in the order of their ends.
    pub fn observe(&mut self, call: &Call) {
        let (Some(end), Op::Read { at, .. }, Some(CallOutcome::Bytes(bytes))) =
            (call.end, &call.op, &call.outcome)
        else {
            return;
        };
        for event in self.events.iter_mut().filter(|event| event.start < end) {
            // A worker sees what it keeps in its own memory; that shows nothing about others.
            let Change::Write { serial, extents } = &event.change else { continue };
            if event.is_unnamed || event.kept && event.worker == call.worker {
                continue;
            }
            for (from, len) in extents {
                let shown = (*from).max(*at)..(from + len).min(at + bytes.len() as u64);
                let byte = |offset: u64| bytes[(offset - at) as usize];
                let mut run = shown.start;
                // Runs of bytes that are its own; the byte after the last one ends a run, too.
                for offset in shown.start..=shown.end.max(shown.start) {
                    let is_own = offset < shown.end && byte(offset) == pattern(*serial, offset);
                    if !is_own {
                        if offset.saturating_sub(run) >= RECOGNIZED {
                            event.seen.push(Sighting { bytes: run..offset, time: call.start..end });
                        }
                        run = offset + 1;
                    }
                }
            }
        }
    }

    /// Takes in that hosts lost power at these times, before what workers did.
    pub fn take_power_losses(&mut self, times: &[Nanos]) {
        self.power_losses.extend(times);
    }

    /// Begins anew with what was read.
    pub fn rebase(&mut self, content: Vec<u8>, at: Nanos) {
        *self = Contents { base: content, since: at, ..Contents::default() };
    }
}

/// A read at some time.
struct Read<'a> {
    contents: &'a Contents,
    start: Nanos,
    end: Nanos,
    losses: &'a [Nanos],
}

impl Read<'_> {
    fn is_definite(&self, event: &Event) -> bool {
        event.is_definite(self)
    }

    /// Those that may have happened.
    fn possible(&self) -> impl Iterator<Item = &Event> {
        self.contents.events.iter().filter(|event| event.start < self.end)
    }

    fn cuts(&self) -> impl Iterator<Item = (&Event, u64)> {
        self.possible().filter_map(|event| match event.change {
            Change::Cut { size } => Some((event, size)),
            Change::Write { .. } => None,
        })
    }

    /// The size is within these bounds, which were seen.
    fn size(&self, least: u64, most: u64) -> Result<(), String> {
        // While a truncation is under way, and after one that was not finished, servers have it or not: the size that
        // follows from what they have may be less than the old one and the new one.
        let floor = |cut: &Event, size: u64| if self.is_definite(cut) { size } else { 0 };
        let smallest = |reach: u64, start: Nanos| {
            let later = self.cuts().filter(|(cut, _)| cut.end > start);
            later.map(|(cut, size)| floor(cut, size)).fold(reach, u64::min)
        };
        let of_base = smallest(self.contents.base.len() as u64, self.contents.since);
        let is_sized = |event: &&Event| self.is_definite(event) && event.sized < self.start;
        let definite = self.contents.events.iter().filter(is_sized);
        let lower = definite.map(|event| smallest(event.change.reach(), event.start)).fold(of_base, u64::max);
        let largest = |reach: u64, end: Nanos| {
            let later = self.cuts().filter(|(cut, _)| self.is_definite(cut) && end < cut.start);
            later.map(|(_, size)| size).fold(reach, u64::min)
        };
        let of_base = largest(self.contents.base.len() as u64, self.contents.since);
        let upper =
            self.possible().map(|event| largest(event.change.reach(), event.end)).fold(of_base, u64::max);
        if most < lower || upper < least {
            let seen = if least == most { least.to_string() } else { format!("from {least} to {most}") };
            let mut text = format!("the size was {seen}, and has to be from {lower} to {upper}\n");
            self.tell(&mut text, |event| {
                matches!(event.change, Change::Cut { .. }) || event.change.reach() >= lower.min(most)
            });
            return Err(text);
        }
        Ok(())
    }

    /// Every byte is one that may be there.
    fn bytes(&self, at: u64, bytes: &[u8]) -> Result<(), String> {
        let range = at..at + bytes.len() as u64;
        let possible: Vec<&Event> = self.possible().filter(|event| event.change.covers(&range)).collect();
        let mut bounds = vec![range.start, range.end];
        for event in &possible {
            match &event.change {
                Change::Write { extents, .. } => {
                    bounds.extend(extents.iter().flat_map(|(at, len)| [*at, at + len]))
                }
                Change::Cut { size } => bounds.push(*size),
            }
        }
        bounds.retain(|bound| range.contains(bound) || *bound == range.end);
        bounds.sort_unstable();
        bounds.dedup();
        for pair in bounds.windows(2) {
            let segment = pair[0]..pair[1];
            let here: Vec<&Event> =
                possible.iter().copied().filter(|event| event.change.covers(&segment)).collect();
            self.segment(
                segment.clone(),
                &here,
                &bytes[(segment.start - at) as usize..(segment.end - at) as usize],
            )?;
        }
        Ok(())
    }

    fn base(&self, at: u64) -> u8 {
        self.contents.base.get(at as usize).copied().unwrap_or(0)
    }

    /// The same for bytes of which all events concern all.
    fn segment(&self, segment: Range<u64>, events: &[&Event], bytes: &[u8]) -> Result<(), String> {
        let is_certain = |event: &&&Event| self.is_definite(event) || event.was_seen(&segment, self);
        let last = events.iter().filter(is_certain).map(|event| event.start).max().unwrap_or(0);
        let allowed: Vec<&Event> = events.iter().copied().filter(|event| event.end >= last).collect();
        let base = self.contents.since >= last;
        let right = |at: u64, byte: u8| {
            (base && self.base(at) == byte) || allowed.iter().any(|event| event.change.byte(at) == byte)
        };
        let Some(first) = (segment.start..).zip(bytes).position(|(at, byte)| !right(at, *byte)) else {
            return Ok(());
        };
        let at = segment.start + first as u64;
        let wrong = (segment.start..).zip(bytes).filter(|(at, byte)| !right(*at, **byte)).count();
        let found = &bytes[first..];
        let mut text = format!(
            "bytes {at}.. of {}..{} are wrong ({wrong} of {}): they are {}\n",
            segment.start,
            segment.end,
            bytes.len(),
            self.guess(at, found)
        );
        text += "  what concerns these bytes:\n";
        self.tell(&mut text, |event| event.change.covers(&(at..at + 1)));
        text += "  what may be there:\n";
        for event in &allowed {
            text += &format!("    {}\n", event.describe());
        }
        if base {
            text += "    what was there when the round began\n";
        }
        Err(text)
    }

    /// The writer of these bytes.
    fn guess(&self, at: u64, found: &[u8]) -> String {
        let found = &found[..found.len().min(16)];
        let is = |event: &&Event| match &event.change {
            Change::Write { serial, .. } => content(*serial, at, found.len() as u64) == found,
            Change::Cut { .. } => false,
        };
        if found.iter().all(|byte| *byte == 0) {
            return "zeros".into();
        }
        if (at..).zip(found).all(|(at, byte)| self.base(at) == *byte) {
            return "those of the round's beginning".into();
        }
        match self.contents.events.iter().find(is) {
            Some(event) => format!("those of: {}", event.describe()),
            None => format!("nobody's: {found:02x?}"),
        }
    }

    fn tell(&self, text: &mut String, concerns: impl Fn(&Event) -> bool) {
        let mut events: Vec<&Event> = self.possible().filter(|event| concerns(event)).collect();
        events.sort_by_key(|event| event.start);
        let from = events.len().saturating_sub(60);
        for event in &events[from..] {
            let mark = if self.is_definite(event) { "*" } else { " " };
            text.push_str(&format!("   {mark}{}\n", event.describe()));
        }
        text.push_str(&format!("    read {} .. {}\n", seconds(self.start), seconds(self.end)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(worker: u32, op: Op, start: Nanos, end: Option<Nanos>) -> Call {
        let outcome = end.map(|_| CallOutcome::Done);
        Call { worker, slot: 0, op, start, end, outcome }
    }

    fn write(serial: u64, at: u64, len: u64) -> Op {
        Op::Write { file: 0, serial, extents: vec![(at, len)], kept: false }
    }

    fn contents(calls: &[Call]) -> Contents {
        let mut contents = Contents::default();
        contents.take(0, calls, &Circumstances { over: &|_| 1000 });
        contents
    }

    fn read(contents: &Contents, start: Nanos, bytes: Vec<u8>, losses: &[Nanos]) -> bool {
        let op = Op::Read { file: 0, at: 0, len: bytes.len() as u64 };
        let outcome = Some(CallOutcome::Bytes(bytes));
        let call = Call { worker: 9, slot: 0, op, start, end: Some(start + 1), outcome };
        contents.judge(&call, losses).is_ok()
    }

    fn size(contents: &Contents, start: Nanos, size: u64) -> bool {
        let outcome = Some(CallOutcome::Size(size));
        let op = Op::Len { file: 0 };
        contents.judge(&Call { worker: 9, slot: 0, op, start, end: Some(start + 1), outcome }, &[]).is_ok()
    }

    #[test]
    fn a_write_that_returned_is_visible_and_nothing_else_is() {
        let done =
            contents(&[call(1, write(1, 0, 10), 10, Some(20)), call(1, write(2, 0, 10), 30, Some(40))]);
        assert!(read(&done, 50, content(2, 0, 10), &[]));
        assert!(!read(&done, 50, content(1, 0, 10), &[]));
        assert!(!read(&done, 50, vec![0; 10], &[]));
        assert!(read(&done, 35, content(1, 0, 10), &[]), "the second was under way");
        assert!(!read(&done, 15, content(2, 0, 10), &[]), "the second had not begun");
        assert!(size(&done, 50, 10) && !size(&done, 50, 9) && !size(&done, 50, 11));
    }

    #[test]
    fn a_call_of_a_killed_worker_may_take_effect_for_a_limited_time() {
        let calls = [
            call(1, write(1, 0, 10), 10, Some(20)),
            call(2, write(2, 0, 10), 30, None),
            call(1, write(3, 0, 10), 500, Some(510)),
            call(1, write(4, 0, 10), 1500, Some(1510)),
        ];
        let some = contents(&calls[..2]);
        assert!(read(&some, 600, content(1, 0, 10), &[]) && read(&some, 600, content(2, 0, 10), &[]));
        let more = contents(&calls[..3]);
        assert!(read(&more, 600, content(2, 0, 10), &[]) && !read(&more, 600, content(1, 0, 10), &[]));
        let all = contents(&calls);
        assert!(!read(&all, 1600, content(2, 0, 10), &[]));
    }

    #[test]
    fn a_stale_truncation_is_not_allowed_to_destroy_later_writes() {
        let cut = Op::SetLen { file: 0, size: 0 };
        let calls = [call(2, cut, 30, None), call(1, write(1, 0, 10), 1500, Some(1510))];
        let done = contents(&calls);
        assert!(read(&done, 1600, content(1, 0, 10), &[]));
        assert!(!size(&done, 1600, 0));
        assert!(!read(&done, 1600, vec![0; 10], &[]));
    }

    #[test]
    fn only_what_was_synced_or_closed_survives_the_loss_of_a_host() {
        let calls = [
            call(1, write(1, 0, 10), 10, Some(20)),
            call(2, Op::Sync { file: 0 }, 30, Some(40)),
            call(1, write(2, 0, 10), 50, Some(60)),
        ];
        let losses = [100];
        let done = contents(&calls);
        assert!(read(&done, 200, content(1, 0, 10), &losses) && read(&done, 200, content(2, 0, 10), &losses));
        assert!(!read(&done, 200, vec![0; 10], &losses));
        assert!(!read(&done, 90, content(1, 0, 10), &losses), "before the loss all is there");
    }

    #[test]
    fn a_failed_close_is_not_undone_by_the_close_of_another_handle() {
        let mut calls = vec![
            call(1, write(1, 0, 10), 1, Some(2)),
            call(1, Op::Sync { file: 0 }, 3, Some(4)),
            call(1, write(2, 0, 10), 10, Some(20)),
            call(1, Op::Close { file: 0 }, 30, Some(40)),
            call(1, Op::Close { file: 0 }, 50, Some(60)),
        ];
        let may_be_lost = |calls: &[Call]| read(&contents(calls), 200, content(1, 0, 10), &[100]);
        assert!(!may_be_lost(&calls));
        calls[3].outcome = Some(CallOutcome::Failed { kind: "NoSpace".into(), text: String::new() });
        assert!(may_be_lost(&calls));
        calls.push(call(1, Op::Sync { file: 0 }, 70, Some(80)));
        assert!(!may_be_lost(&calls), "a sync is about the file");
    }

    #[test]
    fn a_write_cached_by_a_worker_is_certain_after_its_flush() {
        let kept = Op::Write { file: 0, serial: 1, extents: vec![(0, 10)], kept: true };
        let calls = [call(1, kept, 10, Some(20)), call(1, Op::Flush { file: 0 }, 30, Some(40))];
        let unsaved = contents(&calls[..1]);
        assert!(read(&unsaved, 50, content(1, 0, 10), &[]) && read(&unsaved, 50, vec![], &[]));
        assert!(size(&unsaved, 50, 0));
        let saved = contents(&calls);
        assert!(read(&saved, 50, content(1, 0, 10), &[]) && !size(&saved, 50, 0));
    }

    #[test]
    fn a_write_cached_by_a_worker_is_visible_to_others_from_its_return_on() {
        let kept = Op::Write { file: 0, serial: 2, extents: vec![(0, 10)], kept: true };
        let calls = [
            call(1, write(1, 0, 10), 1, Some(2)),
            call(2, kept, 10, Some(20)),
            call(2, Op::Flush { file: 0 }, 60, Some(70)),
        ];
        let saved = contents(&calls);
        assert!(read(&saved, 50, content(2, 0, 10), &[]) && !read(&saved, 50, content(1, 0, 10), &[]));
        let unsaved = contents(&calls[..2]);
        assert!(read(&unsaved, 50, content(1, 0, 10), &[]), "its worker may have died");
    }

    #[test]
    fn bytes_that_were_seen_do_not_revert() {
        let calls = [call(1, write(1, 0, 10), 10, Some(20)), call(2, write(2, 0, 10), 30, None)];
        let mut some = contents(&calls);
        let see = |bytes: Vec<u8>| {
            let outcome = Some(CallOutcome::Bytes(bytes));
            let op = Op::Read { file: 0, at: 0, len: 10 };
            Call { worker: 9, slot: 0, op, start: 2000, end: Some(2010), outcome }
        };
        some.observe(&see(content(1, 0, 10)));
        assert!(read(&some, 3000, content(1, 0, 10), &[]) && read(&some, 3000, content(2, 0, 10), &[]));
        some.observe(&see(content(2, 0, 10)));
        assert!(read(&some, 3000, content(2, 0, 10), &[]) && !read(&some, 3000, content(1, 0, 10), &[]));
        assert!(read(&some, 3000, content(1, 0, 10), &[2500]), "it was not synced");
        assert!(!read(&some, 3000, content(1, 0, 10), &[1500]), "it was seen after that");
    }

    #[test]
    fn a_truncation_under_way_bounds_the_size() {
        let calls =
            [call(1, write(1, 0, 100), 10, Some(20)), call(2, Op::SetLen { file: 0, size: 40 }, 30, None)];
        let done = contents(&calls);
        assert!(size(&done, 50, 100) && size(&done, 50, 40) && size(&done, 50, 70) && size(&done, 50, 39));
        assert!(!size(&done, 50, 101));
        let calls = [calls[0].clone(), call(2, Op::SetLen { file: 0, size: 40 }, 30, Some(40))];
        let done = contents(&calls);
        assert!(size(&done, 50, 40) && !size(&done, 50, 100) && !size(&done, 50, 41));
    }
}
