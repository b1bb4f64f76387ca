//! The trials, and what they are made of: a [`site`] with a partition, a [`world`] that knows what is right, and
//! groups of clients ([`client_group`]).

mod adopt;
mod client_group;
mod clients;
mod copies;
mod divergent_replicas;
mod down;
mod faults;
mod faulty_proxy;
mod fence;
mod full;
mod hosts;
mod life;
mod limits;
mod lost;
mod middle;
mod model;
mod name_space;
mod order;
mod proxy;
mod retired;
mod site;
mod starts;
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

/// For what has to come true soon, though nobody says when: fails if it does not within ten seconds.
#[track_caller]
fn soon(what: &str, is: impl FnMut() -> bool) {
    within(Duration::from_secs(10), what, is);
}

/// The same for what takes longer.
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
