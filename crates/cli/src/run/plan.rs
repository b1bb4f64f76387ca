//! The command line that a run comes to: decided first, then printed or carried out.

use super::partition::Job;
use super::{Arguments, Error};
use crate::env::{AUTOSTART, Environment, JOB, PLACE, PLAN, PROGRAM, STATS};
use pario_launch::mpi_program::{
    Executable, MpiCommand, MpiLauncher, ProgramError, ProgramMpi, available_cores, find_library, preload,
    refuse_static,
};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The command of a run, with the reasons for it.
#[derive(Debug)]
pub struct Plan {
    /// The command itself.
    pub command: MpiCommand,
    notes: Vec<String>,
    /// The partition that the run uses.
    pub job: Option<Job>,
}

/// A variable for the ranks.
pub type Variable = (&'static str, OsString);

/// Decides what to run; the ranks get the `extra` variables besides those that the arguments ask for.
pub fn make(arguments: &Arguments, extra: &[Variable], env: &Environment) -> Result<Plan, Error> {
    // Better now than in the ranks.
    arguments.partition.placing.read().map_err(Box::new).map_err(Error::Plan)?;
    // Clap demands at least one word.
    let (name, rest) =
        arguments.command.split_first().ok_or_else(|| ProgramError::NoProgram(String::new()))?;
    let program = Executable::find(name, &env.search)?;
    if let Some(launcher) = MpiLauncher::of_program(&program.file) {
        return by_launcher(arguments, launcher, rest, extra, env);
    }
    let (family, mpi) = match arguments.mpi.map(Into::into) {
        None => ProgramMpi::of(&program.file, &env.search).map(|mpi| (mpi.family, Some(mpi)))?,
        Some(family) if arguments.host_io => (family, None),
        Some(family) => refuse_static(&program.file).map(|()| (family, None))?,
    };
    let library = library(arguments, env)?;
    let named = arguments.launcher.as_deref();
    let launcher = MpiLauncher::find(family, mpi.as_ref(), named, &env.search)?;

    let cores = available_cores();
    let ranks = arguments.ranks.map_or(cores, |n| n.get());
    let job = job(arguments, rest, env)?;
    let set = for_ranks(arguments, library.as_deref(), job.as_ref(), extra, env)?;
    let mut all = launcher.arguments(Some(ranks), &set, &env.for_ranks, &arguments.launcher_args);
    all.push(program.name.clone());
    all.extend_from_slice(rest);

    let mut notes = vec![match &mpi {
        Some(mpi) => format!("{}: {mpi}", program.file.display()),
        None => format!("{}: {family}, as told", program.file.display()),
    }];
    notes.push(match &library {
        Some(library) => format!("MPI-IO: {}", library.display()),
        None => format!("MPI-IO: {family}'s own"),
    });
    notes.extend(job.iter().flat_map(Job::before));
    let oversubscribe = ranks > cores && !env.says_oversubscribe;
    Ok(Plan { command: MpiCommand::new(launcher, all, oversubscribe), notes, job })
}

/// The plan of a program that is a launcher, with the user's own arguments for it.
fn by_launcher(
    arguments: &Arguments,
    launcher: MpiLauncher,
    rest: &[OsString],
    extra: &[Variable],
    env: &Environment,
) -> Result<Plan, Error> {
    if let Some(option) = arguments.about_launcher() {
        return Err(Error::TwoLaunchers(launcher.path, option));
    }
    let library = library(arguments, env)?;
    let job = job(arguments, rest, env)?;
    let set = for_ranks(arguments, library.as_deref(), job.as_ref(), extra, env)?;
    let mut all = launcher.arguments(None, &set, &env.for_ranks, &[]);
    all.extend_from_slice(rest);
    let mut notes = vec![match &library {
        Some(library) => format!("MPI-IO: {}", library.display()),
        None => "MPI-IO: the MPI library's own".to_owned(),
    }];
    notes.extend(job.iter().flat_map(Job::before));
    Ok(Plan { command: MpiCommand::new(launcher, all, false), notes, job })
}

/// The partition of the run. Without Pario, no argument asks for one.
fn job(arguments: &Arguments, words: &[OsString], env: &Environment) -> Result<Option<Job>, Error> {
    let words = if arguments.host_io { &[] } else { words };
    arguments.partition.job(words, env, &fresh()?)
}

/// The libpario.so of the run, unless Pario is left out.
fn library(arguments: &Arguments, env: &Environment) -> Result<Option<PathBuf>, Error> {
    let is_used = !arguments.host_io;
    Ok(is_used.then(|| find_library(env.pario_lib.as_deref())).transpose()?)
}

/// The variables that the ranks get.
fn for_ranks(
    arguments: &Arguments,
    library: Option<&Path>,
    job: Option<&Job>,
    extra: &[Variable],
    env: &Environment,
) -> Result<Vec<Variable>, Error> {
    let mut set = extra.to_vec();
    let has = |set: &[Variable], wanted| env.has(wanted) || set.iter().any(|(name, _)| *name == wanted);
    if let Some(library) = library {
        set.push(("LD_PRELOAD", preload(env.preload.as_deref(), library)));
    }
    if arguments.stats {
        set.push((STATS, "1".into()));
    }
    if library.is_some() && !has(&set, JOB) {
        // By this word servers know the ranks of one program, also where its launcher has no such word; and the ranks' trace
        // files find together.
        set.push((JOB, fresh()?.into()));
    }
    if library.is_some() && !has(&set, AUTOSTART) {
        set.push((AUTOSTART, "1".into()));
    }
    if let (Some(_), Ok(program)) = (library, std::env::current_exe())
        && !has(&set, PROGRAM)
    {
        set.push((PROGRAM, program.into()));
    }
    set.extend(job.into_iter().flat_map(Job::variables));
    set.extend(arguments.partition.placing.absolute().map(|plan| (PLAN, plan.into())));
    set.extend(arguments.partition.placing.place.clone().map(|place| (PLACE, place.into())));
    Ok(set)
}

impl Plan {
    /// The command as text for a shell, with the reasons as comments.
    pub fn describe(&self) -> String {
        let notes = |notes: &[String]| -> String {
            notes.iter().map(|note| format!("# {}\n", note.replace(char::is_control, "?"))).collect()
        };
        let after = self.job.as_ref().map_or(String::new(), |job| notes(&job.after()));
        format!("{}{}\n{after}", notes(&self.notes), self.command.shell_text())
    }
}

/// A word that nobody else has.
pub fn fresh() -> Result<String, Error> {
    let nonce = pario_transport::fresh_nonce().map_err(Error::Random)?;
    Ok(nonce.0.iter().take(6).map(|byte| format!("{byte:02x}")).collect())
}
