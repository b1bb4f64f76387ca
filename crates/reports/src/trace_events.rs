//! Recorded operations one by one: lines for people, objects for programs.

use crate::text::printable;
use pario_profile::TracedProcess;
use pario_trace::{TraceEvent, TraceHeader, kind_word};
use serde_json::{Value, json};
use std::io;

/// The heading of [`trace_line`]s.
pub fn trace_heading() -> String {
    format!(
        "{:>12}  {:9} {:18} {:>13}  {:>25} {:>11}  file",
        "seconds", "who", "call", "bytes", "range", "µs"
    )
}

/// An operation on one line; times count from `began`, in nanoseconds.
pub fn trace_line(header: &TraceHeader, event: &TraceEvent, began: u64) -> String {
    let on_bytes = event.len > 0 || event.call.op.on_bytes();
    let bytes = match (on_bytes, event.is_short()) {
        (false, _) => "-".to_owned(),
        (true, false) => event.moved.to_string(),
        (true, true) => format!("{}/{}", event.moved, event.len),
    };
    let range = if on_bytes { format!("{}..{}", event.offset, event.end) } else { "-".to_owned() };
    let mut line = format!(
        "{:12.6}  {:9} {:18} {bytes:>13}  {range:>25} {:11.1}  {}",
        event.start_ns.saturating_sub(began) as f64 / 1e9,
        format!("{} {}", header.actor, header.rank),
        event.call.name(),
        event.took_ns as f64 / 1e3,
        printable(event.file.as_deref().unwrap_or("-")),
    );
    if let Some(rank) = event.on_behalf_of {
        line += &format!("  for rank {rank}");
    }
    line + &failure(event)
}

/// The failure of an operation, with two spaces before it.
fn failure(event: &TraceEvent) -> String {
    let mut parts = Vec::new();
    parts.extend(event.kind.map(kind_word));
    if event.errno != 0 {
        parts.push(io::Error::from_raw_os_error(event.errno).to_string());
    }
    if event.class != 0 {
        parts.push(format!("MPI class {}", event.class));
    }
    if parts.is_empty() && event.is_short() {
        parts.push("short".to_owned());
    }
    if parts.is_empty() { String::new() } else { format!("  {}", parts.join(", ")) }
}

/// An operation of a trace as an object.
pub fn trace_object(header: &TraceHeader, event: &TraceEvent) -> Value {
    let mut object = event_object(event);
    object["actor"] = json!(header.actor.word());
    object["rank"] = json!(header.rank);
    object["host"] = json!(header.host);
    object["job"] = json!(header.job);
    object["place"] = json!(event.call.place.word());
    object["pace"] = json!(event.call.pace.word());
    object["on_behalf_of"] = json!(event.on_behalf_of);
    object
}

/// An operation of a profile as an object.
pub fn profile_object(process: &TracedProcess, event: &TraceEvent) -> Value {
    let mut object = event_object(event);
    object["process"] = json!(&*process.label);
    object["node"] = json!(&*process.node);
    object
}

fn event_object(event: &TraceEvent) -> Value {
    json!({
        "op": event.call.op.word(),
        "call": event.call.name(),
        "collective": event.call.collective,
        "file": event.file.as_deref(),
        "offset": event.offset,
        "end": event.end,
        "len": event.len,
        "moved": event.moved,
        "start_ns": event.start_ns,
        "took_ns": event.took_ns,
        "errno": event.errno,
        "kind": event.kind.map(kind_word),
        "class": event.class,
    })
}
