//! Plants one bug after the other and shows how soon each is found.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use pario_runtime::simulation::planted::BUGS;

use crate::arguments::Arguments;
use crate::child::{Job, Pool};
use crate::runner::make_plan;

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
    println!("| planted bug | found after | seed | what was wrong |\n|---|---|---|---|");
    loop {
        while searches.len() < arguments.jobs
            && let Some(bug) = waiting.pop_front()
        {
            let search = Search { begun: Instant::now(), histories: 0, next_seed: first, suspect: None };
            searches.insert(bug, search);
            pool.start(job(arguments, first, Some(bug))?)?;
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
        search.histories += 1;
        let seconds = search.begun.elapsed().as_secs_f64();
        match (search.suspect.take(), report.violation) {
            // It fails with the bug. Does it pass without?
            (None, Some(why)) => {
                search.suspect = Some((seed, why));
                pool.start(job(arguments, seed, None)?)?;
            }
            (Some((seed, why)), None) => {
                let why = why.lines().next().unwrap_or_default();
                println!(
                    "| {bug} | {seconds:.1} s, {} histories | {seed} | {why:.80} |",
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
                        "| {bug} | not found within {seconds:.0} s, {} histories | | |",
                        search.histories
                    );
                    searches.remove(bug);
                    missed += 1;
                } else {
                    search.next_seed += 1;
                    pool.start(job(arguments, search.next_seed, Some(bug))?)?;
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

fn job(arguments: &Arguments, seed: u64, bug: Option<&str>) -> Result<Job, String> {
    let plan = make_plan(arguments, seed)?;
    Ok(Job { plan, bug: bug.map(str::to_owned), log: false, deadline: arguments.deadline })
}
