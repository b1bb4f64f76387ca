//! Operations as a Chrome JSON trace, which Perfetto and Chrome show.
//!
//! Each rank is a process of the trace. Its first track has its calls, one after the other; a nonblocking
//! access, or a call of another thread, goes to the first further track of its kind that is free when it
//! begins, so that what is in flight at once lies side by side: on one track, slices never overlap.
//!
//! Perfetto interprets the numbers as those of a kernel: 0 is the idle task, thread numbers are unique over all
//! processes, and the first thread of a process has the process's number. So a rank is process rank + 1, its first track
//! has the same number, and all further tracks have unique numbers.

use pario_profile::TracedProcess;
use pario_trace::{Pace, TraceEvent, TracedOp};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

/// A trace being written.
pub struct PerfettoTrace<W: Write> {
    output: W,
    ranks: HashMap<Arc<str>, Rank>,
    comma: &'static str,
    /// When the first operation began: the trace counts from there, because a double holds no more digits.
    began: u64,
    /// Further tracks so far.
    further: usize,
}

/// The first number of a further track; those of ranks are below.
const FURTHER: usize = 100_000_000;

/// A rank's number, and its tracks.
struct Rank {
    number: usize,
    tracks: Vec<Track>,
}

struct Track {
    number: usize,
    waits: bool,
    /// When it is free again.
    free: u64,
}

impl<W: Write> PerfettoTrace<W> {
    /// A trace that counts from the moment `began`; no operation begins before it.
    pub fn new(output: W, began: u64) -> PerfettoTrace<W> {
        PerfettoTrace { output, ranks: HashMap::new(), comma: "{\"traceEvents\":[\n", began, further: 0 }
    }

    /// Adds an operation. In the order of their ends they need the fewest tracks.
    pub fn add(&mut self, who: &TracedProcess, event: &TraceEvent) -> io::Result<()> {
        if !self.ranks.contains_key(&who.label) {
            let rank = who.label.parse().ok().filter(|rank| *rank < FURTHER / 2);
            let number = 1 + rank.unwrap_or(FURTHER / 2 + self.ranks.len());
            let node = if who.node.is_empty() { String::new() } else { format!(" on {}", who.node) };
            self.name(number, None, &format!("rank {}{node}", who.label))?;
            self.name(number, Some(number), "calls")?;
            let calls = Track { number, waits: true, free: 0 };
            self.ranks.insert(who.label.clone(), Rank { number, tracks: vec![calls] });
        }
        let Some(rank) = self.ranks.get_mut(&who.label) else { return Ok(()) };
        let (number, waits) = (rank.number, event.call.pace == Pace::Blocking);
        let is_free = |track: &Track| track.waits == waits && track.free <= event.start_ns;
        let known = rank.tracks.iter().position(is_free);
        let track = known.unwrap_or(rank.tracks.len());
        if known.is_none() {
            let new = FURTHER + self.further;
            self.further += 1;
            rank.tracks.push(Track { number: new, waits, free: 0 });
            let nth = rank.tracks.iter().filter(|track| track.waits == waits).count();
            self.name(number, Some(new), &format!("{} {nth}", if waits { "calls" } else { "request" }))?;
        }
        let Some(track) = self.ranks.get_mut(&who.label).and_then(|rank| rank.tracks.get_mut(track)) else {
            return Ok(());
        };
        track.free = event.end_ns();
        let tid = track.number;
        // Microseconds with three decimals.
        let micros = |ns: u64| ns as f64 / 1e3;
        let mut args = json!({ "file": event.file.as_deref() });
        if matches!(event.call.op, TracedOp::Read | TracedOp::Write) {
            args["offset"] = json!(event.offset);
            args["bytes"] = json!(event.moved);
            args["asked"] = json!(event.len);
        }
        if event.is_failed() {
            args["failed"] = json!(true);
        }
        self.event(&json!({
            "name": event.call.name(),
            "cat": event.call.op.word(),
            "ph": "X",
            "pid": number,
            "tid": tid,
            "ts": micros(event.start_ns.saturating_sub(self.began)),
            "dur": micros(event.took_ns),
            "args": args,
        }))
    }

    fn name(&mut self, rank: usize, track: Option<usize>, name: &str) -> io::Result<()> {
        let what = if track.is_some() { "thread_name" } else { "process_name" };
        let tid = track.unwrap_or(rank);
        self.event(&json!({ "name": what, "ph": "M", "pid": rank, "tid": tid, "args": { "name": name } }))
    }

    fn event(&mut self, event: &Value) -> io::Result<()> {
        write!(self.output, "{}{event}", self.comma)?;
        self.comma = ",\n";
        Ok(())
    }

    /// Ends the trace.
    pub fn finish(mut self) -> io::Result<()> {
        if self.comma != ",\n" {
            write!(self.output, "{}", self.comma)?;
        }
        writeln!(self.output, "\n],\"displayTimeUnit\":\"ns\"}}")
    }
}
