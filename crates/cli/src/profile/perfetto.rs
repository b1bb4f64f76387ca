//! Operations as a Chrome JSON trace, which Perfetto and Chrome show.
//!
//! Each rank is a process of the trace. Its first track has what it did itself, one after the other; a nonblocking
//! access goes to the first further track that is free when it begins, so that what is in flight at once lies side by
//! side.

use pario_profile::Who;
use pario_trace::{Event, Op, Pace};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

/// A trace being written.
pub struct Perfetto<W: Write> {
    output: W,
    ranks: HashMap<Arc<str>, Rank>,
    comma: &'static str,
    began: Option<u64>,
}

/// A rank's number, and when each of its further tracks is free again.
struct Rank {
    number: usize,
    tracks: Vec<u64>,
}

impl<W: Write> Perfetto<W> {
    pub fn new(output: W) -> Perfetto<W> {
        Perfetto { output, ranks: HashMap::new(), comma: "{\"traceEvents\":[\n", began: None }
    }

    /// Adds an operation. They come in the order of their ends, so a track is free if what is on it ends before.
    pub fn add(&mut self, who: &Who, event: &Event) -> io::Result<()> {
        let known = self.ranks.contains_key(&who.label);
        if !known {
            let number = who.label.parse().unwrap_or(1_000_000 + self.ranks.len());
            let node = if who.node.is_empty() { String::new() } else { format!(" on {}", who.node) };
            self.name(number, None, &format!("rank {}{node}", who.label))?;
            self.name(number, Some(0), "calls")?;
            self.ranks.insert(who.label.clone(), Rank { number, tracks: Vec::new() });
        }
        let (mut track, mut is_new) = (0, false);
        let Some(rank) = self.ranks.get_mut(&who.label) else { return Ok(()) };
        if event.call.pace != Pace::Blocking {
            let free = rank.tracks.iter().position(|&free| free <= event.start_ns);
            track = 1 + free.unwrap_or(rank.tracks.len());
            if free.is_none() {
                is_new = true;
                rank.tracks.push(0);
            }
            rank.tracks[track - 1] = event.end_ns();
        }
        let number = rank.number;
        if is_new {
            self.name(number, Some(track), &format!("request {track}"))?;
        }
        // Microseconds with three decimals, from the first operation on: a double holds no more digits.
        let began = *self.began.get_or_insert(event.start_ns);
        let micros = |ns: i128| ns as f64 / 1e3;
        let mut args = json!({ "file": event.file.as_deref() });
        if matches!(event.call.op, Op::Read | Op::Write) {
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
            "tid": track,
            "ts": micros(i128::from(event.start_ns) - i128::from(began)),
            "dur": micros(event.took_ns.into()),
            "args": args,
        }))
    }

    fn name(&mut self, rank: usize, track: Option<usize>, name: &str) -> io::Result<()> {
        let what = if track.is_some() { "thread_name" } else { "process_name" };
        let tid = track.unwrap_or(0);
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
