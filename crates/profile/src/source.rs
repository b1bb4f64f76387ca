//! A profile as the user names it, however it is stored, and its operations one by one.
//!
//! Its first bytes show how it is stored: as a directory or file of traces, a table, a log of Darshan or the output of
//! `darshan-dxt-parser`, or as a plan.

use crate::csv::Csv;
use crate::darshan::Accesses;
use crate::{Collector, Error, Profile, TracedProcess};
use pario_placement::PlacementPlan;
use pario_trace::{Actor, TraceEvent, TraceHeader, TraceMode, TraceSelection, TraceSelectionError};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A profile that is stored somewhere.
#[derive(Clone, Debug)]
pub struct ProfileSource {
    /// A trace directory or file, a table, a log of Darshan or its text, or a plan.
    pub path: PathBuf,
    /// The job, if several left traces in one directory; `all` for all of them; without, the latest.
    pub job: Option<String>,
}

/// The reason why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileSourceError {
    /// The traces are not there or not good.
    #[error(transparent)]
    Trace(#[from] TraceSelectionError),
    /// A profile is not there.
    #[error("no profile in {path}: {1}; 'pario profile' or a run with PARIO_TRACE=all makes one", path = .0.display())]
    Missing(PathBuf, #[source] io::Error),
    /// A profile is not good.
    #[error("{path}: {1}", path = .0.display())]
    Profile(PathBuf, #[source] Error),
    /// A plan is not good.
    #[error("{path}: {1}", path = .0.display())]
    Plan(PathBuf, #[source] pario_placement::Error),
    /// A plan was given where operations are needed.
    #[error("{} is a plan; here the profile that it was made from is needed", .0.display())]
    NotAProfile(PathBuf),
    /// A trace of failures only.
    #[error("{} is a trace of what went wrong only; record with PARIO_TRACE=all", .0.display())]
    OnlyErrors(PathBuf),
    /// A trace without operations below an offset.
    #[error("{path} leaves out what lies below offset {1}; record with PARIO_TRACE=all without min", path = .0.display())]
    LeftOut(PathBuf, u64),
    /// The profile does not say on which nodes its processes ran.
    #[error("{} does not say on which nodes its processes ran", .0.display())]
    NoNodes(PathBuf),
    /// The statistics beside a trace are damaged.
    #[error("{path} is damaged: {1}; remove it to do without", path = .0.display())]
    Statistics(PathBuf, #[source] serde_json::Error),
}

impl ProfileSourceError {
    /// For `map_err` on the contents of a profile.
    pub fn profile(path: &Path) -> impl Fn(Error) -> ProfileSourceError {
        move |error| ProfileSourceError::Profile(path.to_owned(), error)
    }
}

/// The format of a profile.
enum Stored {
    Trace,
    Csv(BufReader<File>),
    DarshanText(BufReader<File>),
    DarshanLog(BufReader<File>),
    Plan(String),
}

/// The properties of a source, once it has been read.
#[derive(Debug, Default)]
pub struct SourceFacts {
    /// The ways in which the profile is incomplete, in lines.
    pub complaints: Vec<String>,
    /// The job, if it is a trace of one.
    pub job: Option<String>,
}

impl ProfileSource {
    /// The profile at a path; of traces the latest job.
    pub fn at(path: &Path) -> ProfileSource {
        ProfileSource { path: path.to_owned(), job: None }
    }

    /// The plan, if the path holds one.
    pub fn plan(&self) -> Result<Option<PlacementPlan>, ProfileSourceError> {
        match self.open()? {
            Stored::Plan(text) => PlacementPlan::from_text(&text)
                .map(Some)
                .map_err(|e| ProfileSourceError::Plan(self.path.clone(), e)),
            _ => Ok(None),
        }
    }

    /// All accesses; with `by_node` those of a node count as one process's.
    pub fn profile(&self, by_node: bool) -> Result<(Profile, SourceFacts), ProfileSourceError> {
        let mut collector = Collector::new(by_node);
        let facts = self.each(|who, event| -> Result<(), ProfileSourceError> {
            if by_node && who.node.is_empty() {
                return Err(ProfileSourceError::NoNodes(self.path.clone()));
            }
            collector.add(who, event).map_err(ProfileSourceError::profile(&self.path))
        })?;
        Ok((collector.finish().map_err(ProfileSourceError::profile(&self.path))?, facts))
    }

    /// Hands out all operations of all processes.
    pub fn each<E: From<ProfileSourceError>>(
        &self,
        mut see: impl FnMut(&TracedProcess, &TraceEvent) -> Result<(), E>,
    ) -> Result<SourceFacts, E> {
        let failed = ProfileSourceError::profile(&self.path);
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
            Stored::Plan(_) => return Err(ProfileSourceError::NotAProfile(self.path.clone()).into()),
        }
        Ok(SourceFacts::default())
    }

    fn each_of<E: From<ProfileSourceError>>(
        &self,
        accesses: Accesses,
        mut see: impl FnMut(&TracedProcess, &TraceEvent) -> Result<(), E>,
    ) -> Result<SourceFacts, E> {
        let said = |what: &&str| format!("{}: {what}", self.path.display());
        let complaints = accesses.complaints().iter().map(said).collect();
        for (who, event) in accesses {
            see(&who, &event)?;
        }
        Ok(SourceFacts { complaints, job: None })
    }

    fn each_traced<E: From<ProfileSourceError>>(
        &self,
        mut see: impl FnMut(&TracedProcess, &TraceEvent) -> Result<(), E>,
    ) -> Result<SourceFacts, E> {
        let mut merged =
            TraceSelection::of(&self.path, self.job.as_deref()).open().map_err(ProfileSourceError::from)?;
        let mut who = Vec::new();
        for source in &merged.sources {
            let TraceHeader { mode, min, rank, host, .. } = source.header();
            match (mode, min) {
                (TraceMode::Errors, _) => {
                    return Err(ProfileSourceError::OnlyErrors(source.path.clone()).into());
                }
                (TraceMode::All, 0) => (),
                (TraceMode::All, min) => {
                    return Err(ProfileSourceError::LeftOut(source.path.clone(), *min).into());
                }
            }
            who.push(TracedProcess { label: rank.to_string().into(), node: Arc::from(host.as_str()) });
        }
        while let Some((source, event)) = merged.next() {
            // Operations of agents and servers for tasks are not operations of the program a second time.
            if merged.sources[source].header().actor == Actor::Task {
                see(&who[source], &event)?;
            }
        }
        let job = merged.sources.first().map(|source| source.header().job.clone());
        let mut complaints = std::mem::take(&mut merged.notes);
        complaints.extend(merged.complaints());
        Ok(SourceFacts { complaints, job })
    }

    fn open(&self) -> Result<Stored, ProfileSourceError> {
        let missing = |e| ProfileSourceError::Missing(self.path.clone(), e);
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

/// The file beside a trace to which a profiled job writes its statistics.
pub fn statistics_file(dir: &Path, job: &str) -> PathBuf {
    dir.join(format!("stats.{job}.json"))
}

/// The numbers of aggregators by file, if there are statistics.
pub fn recorded_aggregators(path: &Path) -> Result<Vec<(String, u32)>, ProfileSourceError> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for line in text.lines() {
        let report: serde_json::Value =
            serde_json::from_str(line).map_err(|e| ProfileSourceError::Statistics(path.to_owned(), e))?;
        let Some(file) = report["file"].as_str() else { continue };
        let choices =
            ["read", "write"].iter().filter_map(|way| report["decisions"][way].as_array()).flatten();
        for choice in choices {
            let number = choice["aggregators"].as_u64().and_then(|number| u32::try_from(number).ok());
            found.extend(number.filter(|&number| number > 0).map(|number| (file.to_owned(), number)));
        }
    }
    Ok(found)
}
