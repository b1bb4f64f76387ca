//! `pario status --ranks`: which MPI-IO call each rank of a job is in.

use super::error::Error;
use crate::output::print;
use pario_activity::{ProcessSnapshot, parent_of};
use pario_reports::rank_activity_text;
use std::process::ExitCode;

/// Shows the jobs of this host that `wanted` names: by their names, or by the number of a process that is a rank or has
/// started one. All jobs if it names none.
pub fn main(wanted: &str) -> Result<ExitCode, Error> {
    let processes = pario_activity::processes().map_err(Error::Processes)?;
    let chosen: Vec<ProcessSnapshot> =
        processes.into_iter().filter(|process| is_wanted(process, wanted)).collect();
    if chosen.is_empty() {
        return Err(if wanted.is_empty() { Error::NoRanks } else { Error::NoJob(wanted.to_owned()) });
    }
    let mut jobs: Vec<&str> = chosen.iter().map(|process| process.job.as_str()).collect();
    jobs.sort_unstable();
    jobs.dedup();
    let texts: Vec<String> = jobs
        .iter()
        .map(|job| {
            let mut ranks: Vec<ProcessSnapshot> =
                chosen.iter().filter(|process| process.job == *job).cloned().collect();
            ranks.sort_by_key(|process| process.rank);
            rank_activity_text(job, &ranks, pario_activity::now())
        })
        .collect();
    print(&texts.join("\n")).map_err(Error::Output)?;
    Ok(ExitCode::SUCCESS)
}

fn is_wanted(process: &ProcessSnapshot, wanted: &str) -> bool {
    if wanted.is_empty() || process.job == wanted {
        return true;
    }
    let Ok(ancestor) = wanted.parse::<u32>() else { return false };
    std::iter::successors(Some(process.pid), |pid| parent_of(*pid)).any(|pid| pid == ancestor)
}
