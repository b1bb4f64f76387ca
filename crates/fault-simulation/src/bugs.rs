//! Plants one bug after the other and shows how soon each is found.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use pario_runtime::simulation::planted::BUGS;

use crate::arguments::Arguments;
use crate::child::{Job, Pool};
use crate::focus::{self, Topic};
use crate::plan::Mix;
use crate::runner::make_plan;

/// The topics of bugs that need a rare combination of events. Histories of other topics hardly ever have it, so these bugs are looked for in
/// histories of their topic, unless the command line chooses a mix.
const TOPICS_OF_BUGS: &[(&str, Topic)] = &[
    ("retired-write-accepted", Topic::Copies),
    ("adopt-forgets-flushing", Topic::Copies),
    ("dead-writer-forgotten", Topic::Copies),
    ("server-copies-first", Topic::Copies),
    ("pin-cleared-early", Topic::Slots),
    ("stale-truncate", Topic::Requests),
    ("request-done-twice", Topic::Requests),
    ("recall-skipped", Topic::Leases),
    ("expired-lease-used", Topic::Leases),
    ("lease-log-skipped", Topic::Leases),
    ("divergence-not-repaired", Topic::Replicas),
    ("unequal-replicas-read", Topic::Replicas),
    ("failed-sync-believed", Topic::Syncs),
    ("dropped-writes-forgotten", Topic::Syncs),
    ("down-forgets-pool", Topic::Commands),
    ("down-trusts-silence", Topic::Commands),
    ("down-ignores-successor", Topic::Commands),
    ("registry-written-in-place", Topic::Commands),
    ("late-server-removes-successor", Topic::Commands),
    ("served-before-registered", Topic::Commands),
    ("copy-resumes-after-gap", Topic::Transfers),
    ("copy-ignores-close", Topic::Transfers),
    ("check-lists-names-first", Topic::Checks),
];

/// The topic of the histories in which a bug is looked for.
fn topic_of(arguments: &Arguments, bug: &str) -> Option<Topic> {
    let topic = TOPICS_OF_BUGS.iter().find(|(name, _)| *name == bug).map(|(_, topic)| *topic);
    topic.filter(|_| arguments.mix == Mix::Usual)
}

/// The search for one planted bug.
struct Search {
    begun: Instant,
    histories: u64,
    next_seed: u64,
    /// The seed that failed with the bug and now runs without it, and what was wrong.
    suspect: Option<(u64, String)>,
}

/// A table of how soon each planted bug is found, as Markdown.
pub fn find_all(arguments: &Arguments) -> Result<String, String> {
    let first = arguments.first.unwrap_or(1);
    let limit = if arguments.seconds == u64::MAX { 600 } else { arguments.seconds };
    let mut waiting: VecDeque<&str> = BUGS.iter().map(|(name, _)| *name).collect();
    let mut searches: BTreeMap<&str, Search> = BTreeMap::new();
    let (mut missed, mut failures, mut pool) = (0, Vec::new(), Pool::default());
    println!("| planted bug | topic | found after | seed | what was wrong |\n|---|---|---|---|---|");
    loop {
        while searches.len() < arguments.jobs
            && let Some(bug) = waiting.pop_front()
        {
            let search = Search { begun: Instant::now(), histories: 0, next_seed: first, suspect: None };
            searches.insert(bug, search);
            pool.start(job(arguments, first, bug, true)?)?;
        }
        if pool.len() == 0 {
            break;
        }
        let (done, report) = pool.wait();
        let seed = done.plan.seed;
        let Some(bug) = searches.iter().find_map(|(bug, search)| {
            (search.next_seed == seed && is_of(search, &done, bug)).then_some(*bug)
        }) else {
            return Err("a history that was not started ended".into());
        };
        let search = searches.get_mut(bug).expect("found above");
        let topic = topic_of(arguments, bug).map_or("", focus::name_of);
        search.histories += 1;
        let seconds = search.begun.elapsed().as_secs_f64();
        match (search.suspect.take(), report.violation) {
            // It fails with the bug. Does it pass without?
            (None, Some(why)) => {
                search.suspect = Some((seed, why));
                pool.start(job(arguments, seed, bug, false)?)?;
            }
            (Some((seed, why)), None) => {
                let why = why.lines().next().unwrap_or_default();
                println!(
                    "| {bug} | {topic} | {seconds:.1} s, {} histories | {seed} | {why:.80} |",
                    search.histories - 1
                );
                searches.remove(bug);
            }
            (suspect, violation) => {
                if let (Some(_), Some(why)) = (suspect, violation) {
                    failures.push(format!("seed {seed} fails without a planted bug, too: {why}"));
                }
                if seconds > limit as f64 {
                    println!(
                        "| {bug} | {topic} | not found within {seconds:.0} s, {} histories | | |",
                        search.histories
                    );
                    searches.remove(bug);
                    missed += 1;
                } else {
                    search.next_seed += 1;
                    pool.start(job(arguments, search.next_seed, bug, true)?)?;
                }
            }
        }
    }
    match (missed, failures.is_empty()) {
        (0, true) => Ok(format!("all {} planted bugs were found", BUGS.len())),
        (_, true) => Err(format!("{missed} of {} planted bugs were not found", BUGS.len())),
        _ => Err(failures.join("\n")),
    }
}

/// Whether a history that ended belongs to a search.
fn is_of(search: &Search, done: &Job, bug: &str) -> bool {
    match &done.bug {
        Some(planted) => planted == bug,
        None => search.suspect.is_some(),
    }
}

/// A history in which a bug is looked for: with the bug, or without it for comparison.
fn job(arguments: &Arguments, seed: u64, bug: &str, is_planted: bool) -> Result<Job, String> {
    let mix = topic_of(arguments, bug).map_or(arguments.mix, Mix::Only);
    let plan = make_plan(&Arguments { mix, ..arguments.clone() }, seed)?;
    Ok(Job { plan, bug: is_planted.then(|| bug.to_owned()), log: false, deadline: arguments.deadline })
}
