//! Measures a partition as programs see it. `cargo xtask bench partition` starts this and makes tables of it.
//!
//! ```text
//! measure hits  NAME TURNS             accesses of what lies in the servers' caches, beside memcpy
//! measure misses NAME TURNS DIR        of what does not (NAME has small caches), beside a plain file in DIR
//! measure tcp TARGET TURNS PEER        streams to servers at TCP addresses, beside a plain stream to PEER
//! measure flush NAME TURNS DIR MIB     caches full of dirty data to storage, beside a plain file in DIR
//! measure names NAME TURNS COUNT       files created, looked up, removed
//! measure peer ADDRESS                 serves plain streams, until its input ends
//! ```
//!
//! Every measurement is a line `measured CASE SIZE CLIENTS OPERATIONS BYTES SECONDS LIMIT`: LIMIT is the time in seconds of
//! the same work without Pario right before or after, or `-`. Clients are threads, each with connections and mapped caches
//! of its own.
#![forbid(unsafe_code)]

mod clients;
mod flush;
mod hits;
mod misses;
mod names;
mod report;
mod tcp;

use std::path::Path;

/// Errors are only ever printed.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["hits", name, turns] => hits::measure(name, turns.parse()?),
        ["misses", name, turns, dir] => misses::measure(name, turns.parse()?, Path::new(dir)),
        ["tcp", target, turns, peer] => tcp::measure(target, turns.parse()?, peer),
        ["flush", name, turns, dir, mib] => {
            flush::measure(name, turns.parse()?, Path::new(dir), mib.parse()?)
        }
        ["names", name, turns, count] => names::measure(name, turns.parse()?, count.parse()?),
        ["peer", address] => tcp::peer(address),
        _ => Err("wrong arguments; see the beginning of crates/pario/examples/measure/main.rs".into()),
    }
}
