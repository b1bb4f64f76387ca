//! A profile as the user names it, whatever it is stored as, and its operations one by one.
//!
//! What it is stored as is seen from its first bytes: a directory or file of traces, a table, a log of Darshan or
//! what `darshan-dxt-parser` prints of it, or a plan.

use super::Error;
use super::error::LeftOut;
use crate::trace::select::Selection;
use clap::Args;
use pario_placement::PlacementPlan;
use pario_profile::csv::Csv;
use pario_profile::darshan::Accesses;
use pario_profile::{Collector, Profile, TracedProcess};
use pario_trace::{Actor, TraceEvent, TraceHeader, TraceMode};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args)]
pub struct Source {
    /// A trace directory or file, a CSV table, a log of Darshan or what darshan-dxt-parser prints, or a plan
    #[arg(value_name = "PROFILE")]
    pub path: PathBuf,
    /// Which job, if several left traces in one directory; 'all' for all of them [default: the latest]
    #[arg(long, value_name = "JOB")]
    pub job: Option<String>,
}

/// What a path holds.
enum Stored {
    Trace,
    Csv(BufReader<File>),
    DarshanText(BufReader<File>),
    DarshanLog(BufReader<File>),
    Plan(String),
}

/// What a source was, once it has been read.
pub struct Facts {
    /// How the trace is incomplete, in lines.
    pub complaints: Vec<String>,
    /// The job, if it is a trace of one.
    pub job: Option<String>,
}

impl Source {
    /// Another one, without options.
    pub fn at(path: &Path) -> Source {
        Source { path: path.to_owned(), job: None }
    }

    /// The plan, if the path holds one.
    pub fn plan(&self) -> Result<Option<PlacementPlan>, Error> {
        match self.open()? {
            Stored::Plan(text) => {
                PlacementPlan::from_text(&text).map(Some).map_err(|e| Error::Plan(self.path.clone(), e))
            }
            _ => Ok(None),
        }
    }

    /// All accesses; with `by_node` those of a node as one process's.
    pub fn profile(&self, by_node: bool) -> Result<(Profile, Facts), Error> {
        let mut collector = Collector::new(by_node);
        let facts = self.each(|who, event| {
            if by_node && who.node.is_empty() {
                return Err(Error::NoNodes(self.path.clone()));
            }
            collector.add(who, event).map_err(Error::profile(&self.path))
        })?;
        Ok((collector.finish().map_err(Error::profile(&self.path))?, facts))
    }

    /// Hands out all operations of all processes.
    pub fn each(
        &self,
        mut see: impl FnMut(&TracedProcess, &TraceEvent) -> Result<(), Error>,
    ) -> Result<Facts, Error> {
        let failed = Error::profile(&self.path);
        match self.open()? {
            Stored::Trace => return self.each_traced(see),
            Stored::Csv(input) => {
                for row in Csv::new(input).map_err(&failed)? {
                    let (who, event) = row.map_err(&failed)?;
                    see(&who, &event)?;
                }
            }
            Stored::DarshanText(input) => {
                return self.each_of(Accesses::of_text(input).map_err(&failed)?, see);
            }
            Stored::DarshanLog(input) => {
                return self.each_of(Accesses::of_log(input).map_err(&failed)?, see);
            }
            Stored::Plan(_) => return Err(Error::NotAProfile(self.path.clone())),
        }
        Ok(Facts { complaints: Vec::new(), job: None })
    }

    fn each_of(
        &self,
        accesses: Accesses,
        mut see: impl FnMut(&TracedProcess, &TraceEvent) -> Result<(), Error>,
    ) -> Result<Facts, Error> {
        let said = |what: &&str| format!("{}: {what}", self.path.display());
        let complaints = accesses.complaints().iter().map(said).collect();
        for (who, event) in accesses {
            see(&who, &event)?;
        }
        Ok(Facts { complaints, job: None })
    }

    fn each_traced(
        &self,
        mut see: impl FnMut(&TracedProcess, &TraceEvent) -> Result<(), Error>,
    ) -> Result<Facts, Error> {
        let mut merged = Selection::of(&self.path, self.job.as_deref()).open()?;
        let mut who = Vec::new();
        for source in &merged.sources {
            let TraceHeader { mode, min, rank, host, .. } = source.header();
            match (mode, min) {
                (TraceMode::Errors, _) => return Err(Error::LeftOut(source.path.clone(), LeftOut::Good)),
                (TraceMode::All, 0) => (),
                (TraceMode::All, min) => {
                    return Err(Error::LeftOut(source.path.clone(), LeftOut::Below(*min)));
                }
            }
            who.push(TracedProcess { label: rank.to_string().into(), node: Arc::from(host.as_str()) });
        }
        while let Some((source, event)) = merged.next() {
            // What agents and servers do for tasks is not done by the program a second time.
            if merged.sources[source].header().actor == Actor::Task {
                see(&who[source], &event)?;
            }
        }
        let job = merged.sources.first().map(|source| source.header().job.clone());
        Ok(Facts { complaints: merged.complaints(), job })
    }

    fn open(&self) -> Result<Stored, Error> {
        let missing = |e| Error::Missing(self.path.clone(), e);
        if std::fs::metadata(&self.path).map_err(missing)?.is_dir() {
            return Ok(Stored::Trace);
        }
        let mut input = BufReader::with_capacity(1 << 20, File::open(&self.path).map_err(missing)?);
        let start = input.fill_buf().map_err(missing)?;
        let is = |word: &[u8]| start.starts_with(word);
        if is(b"PARIOTRC") {
            return Ok(Stored::Trace);
        }
        if is(b"# darshan") || is(b"# DXT") || is(b"\n# DXT") {
            return Ok(Stored::DarshanText(input));
        }
        if is_log(start) || self.path.extension().is_some_and(|e| e == "darshan") {
            return Ok(Stored::DarshanLog(input));
        }
        if start.split(|&byte| byte == b'\n').any(|line| line.starts_with(b"version = ")) {
            return std::fs::read_to_string(&self.path).map(Stored::Plan).map_err(missing);
        }
        Ok(Stored::Csv(input))
    }
}

/// A log of Darshan begins with a version, such as 3.41, in eight bytes; behind them is no text.
fn is_log(start: &[u8]) -> bool {
    let version = start.split(|&byte| byte == 0).next().unwrap_or_default();
    let digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    (1..8).contains(&version.len())
        && start.len() >= 16
        && version.iter().all(digit)
        && version.contains(&b'.')
}

impl Facts {
    /// Tells the user on standard error in which way the profile is incomplete.
    pub fn complain(&self) {
        self.complaints.iter().for_each(|line| eprintln!("pario: {line}"));
    }
}
