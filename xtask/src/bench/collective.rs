//! Collective access in many patterns: Pario beside ROMIO and OMPIO.
//!
//! The program is `xtask/bench/collective.c`. One start of it does each pattern once; the contenders' starts
//! take turns, so that a slow minute of the machine hits all of them, and a ratio is that of two starts of
//! one turn. Every write creates its file, unless `--overwrite` is given, and every read opens it again; the
//! page cache is warm for the reads of all contenders. Beside the ratios stand the limit (plain `pwrite` and
//! `pread` of as many bytes), what Pario counts about itself (copies, host operations), and how memory grows.

mod aims;
mod contenders;
mod counts;
mod memory;
mod options;
mod table;
mod turns;

use std::path::{Path, PathBuf};

use crate::place;
use crate::program::{Outcome, at};
use crate::{setup, test};

use contenders::Programs;
use options::{Options, Runs};

pub fn run(arguments: &[String]) -> Outcome {
    let options = match Options::parse(arguments)? {
        Runs::Help => {
            print!("{}", options::HELP);
            return Ok(());
        }
        Runs::With(options) => options,
    };
    setup::compilers_and_mpis()?;
    test::release_build()?;
    let programs = Programs::compile(&place::target().join("bench"))?;
    println!("\n{}\n{}", table::legend(&options), super::load());
    let mut results = Vec::new();
    for (place, dir) in place::scratch() {
        if !options.places.contains(&place) {
            continue;
        }
        for &ranks in &options.ranks {
            let Some(job) = Job::of(&options, ranks, place) else { continue };
            let scratch = Scratch::create(&dir)?;
            let result = turns::take(&programs, &job, scratch.path())?;
            table::show(&result);
            aims::show(std::slice::from_ref(&result));
            if results.iter().all(|known: &turns::Measured| known.job.ranks != ranks) {
                counts::show(&programs, &job, scratch.path())?;
                if results.is_empty() || !(options.quick || job.many()) {
                    memory::show(&programs, &job, scratch.path())?;
                }
            }
            results.push(result);
        }
    }
    if results.len() > 1 {
        println!("\nAll of the above together");
        aims::show(&results);
    }
    Ok(())
}

/// With more ranks than this a few patterns are the default.
const MANY_RANKS: u32 = 8;

/// What is measured between one set of contenders, on a number of ranks in one place.
#[derive(Clone)]
struct Job {
    ranks: u32,
    place: &'static str,
    turns: u32,
    overwrite: bool,
    patterns: Vec<String>,
    contenders: Vec<usize>,
}

impl Job {
    /// With so many ranks per core that a call is mostly waiting for the scheduler, a few patterns and turns
    /// in one place show all there is to see; none if there is nothing to do.
    fn of(options: &Options, ranks: u32, place: &'static str) -> Option<Job> {
        let many = ranks > MANY_RANKS;
        if many && !options.places_given && place != options.places[0] {
            return None;
        }
        let patterns = match &options.patterns {
            Some(patterns) => patterns.clone(),
            None if many => options::words(options::FEW),
            None if options.quick => options::words(options::QUICK),
            None => options::words(options::ALL),
        };
        let turns = options.turns.unwrap_or(if many || options.quick { 3 } else { 7 });
        Some(Job {
            ranks,
            place,
            turns,
            overwrite: options.overwrite,
            patterns,
            contenders: options.contenders.clone(),
        })
    }

    fn many(&self) -> bool {
        self.ranks > MANY_RANKS
    }
}

/// A directory that is removed when this value is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn create(dir: &Path) -> Outcome<Scratch> {
        at(dir, std::fs::create_dir_all(dir))?;
        Ok(Scratch(dir.to_path_buf()))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("xtask bench: {}: {error}; remove it by hand", self.0.display());
        }
    }
}
