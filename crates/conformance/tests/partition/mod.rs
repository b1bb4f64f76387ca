//! Tests of partitions, and their fixtures: a [`site`] with a partition, a [`world`] as the model of its files, and
//! groups of clients ([`client_group`]).

mod adopt;
mod client_group;
mod clients;
mod divergent_replicas;
mod down;
mod faults;
mod faulty_proxy;
mod full_storage;
mod hosts;
mod interrupted_copies;
mod limits;
mod lost_leases;
mod lost_pools;
mod message_proxy;
mod model;
mod name_space;
mod order;
mod proxy;
mod replicas;
mod scale;
mod server_lifecycle;
mod site;
mod starts_and_stops;
mod step;
mod tampering;
mod tier1;
mod truncate;
mod unauthenticated;
mod views;
mod world;

use std::time::Duration;

use pario_conformance::dice::Dice;
use pario_conformance::{dice, eventually, processes};

/// Waits for a condition, and fails if it does not hold within ten seconds.
#[track_caller]
fn soon(what: &str, is: impl FnMut() -> bool) {
    within(Duration::from_secs(10), what, is);
}

/// The same with another limit.
#[track_caller]
fn within(limit: Duration, what: &str, is: impl FnMut() -> bool) {
    assert!(eventually(limit, is), "still not so: {what}");
}

/// Tries these seeds, and more if the user says so. A failing one is named.
fn try_seeds(seeds: &[u64], trial: impl Fn(&mut Dice)) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let more = 1000..1000 + number("PARIO_TRIALS").unwrap_or(0);
    let seeds: Vec<u64> = match number("PARIO_SEED") {
        Some(seed) => vec![seed],
        None => seeds.iter().copied().chain(more).collect(),
    };
    for seed in seeds {
        let named = Named(seed);
        trial(&mut Dice::new(seed));
        std::mem::forget(named);
    }
}

/// Names the seed of a trial that panics.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        eprintln!("this was the trial of PARIO_SEED={}", self.0);
    }
}
