//! A run on a partition: bring it up, copy into it, mount it, run the program, unmount it, copy out of it,
//! take it down.
//!
//! However the program ends, a partition that was made for it is taken down. The one exception is when results that
//! were to be copied out were not: then it is kept, and the user is told how to get at it. Signals that come while the
//! program runs go to its launcher; one that comes before lets it not start, and one that comes while results are
//! copied stops that.

use super::Error;
use super::error::Kept;
use super::partition::{Job, Place, Results};
use super::plan::Plan;
use crate::env::Environment;
use crate::mount::{self, Attached};
use crate::partition::{self, up};
use crate::{files, signal};
use pario_launch::StopOptions;
use std::fs;
use std::process::ExitStatus;
use std::time::Duration;

/// How long servers may take to start, and each of them to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a run ended.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// As the launcher did.
    Status(ExitStatus),
    /// A signal came before the program was started.
    Signal(i32),
}

impl End {
    /// Ends this process in the same way.
    pub fn follow(self) -> ! {
        match self {
            End::Status(status) => signal::end_like(status),
            End::Signal(signal) => signal::end_by(signal),
        }
    }
}

/// Runs the program on the partition.
pub fn run(plan: &Plan, job: &Job, env: &Environment, verbose: bool) -> Result<End, Error> {
    signal::watch().map_err(Error::Signals)?;
    if let Some(Results { to, .. }) = &job.results {
        // Better now than when there are results.
        fs::create_dir_all(to).map_err(Error::needed("make the directory", to))?;
    }
    let env = &job.environment(env);
    pario_launch::pools::sweep(&env.launch().run_base());
    bring_up(job, env)?;
    let ended = program(plan, job, env, verbose);
    if let Ok(End::Status(status)) = &ended {
        copy_out(job, *status, env)?;
    }
    match (ended, take_down(job, env)) {
        (Err(error), Err(also)) => {
            eprintln!("pario: {also}");
            Err(error)
        }
        (ended, down) => down.and(ended),
    }
}

fn is_interrupted() -> bool {
    signal::asked_to_end().is_some()
}

fn bring_up(job: &Job, env: &Environment) -> Result<(), Error> {
    match &job.place {
        Place::Standing => Ok(up::known(&job.name, PATIENCE, env)?),
        Place::OnDemand(partition) => {
            partition.create_directory()?;
            up::new(partition.description.clone(), PATIENCE, env).map_err(|error| {
                // Servers that did start have been stopped again, so this hardly fails.
                if let Err(also) = take_down(job, env) {
                    eprintln!("pario: {also}");
                }
                error.into()
            })
        }
    }
}

fn program(plan: &Plan, job: &Job, env: &Environment, verbose: bool) -> Result<End, Error> {
    if !job.inputs.is_empty() && !is_interrupted() {
        match files::stage::into(&job.name, &job.inputs, &job.placing, env, is_interrupted) {
            Ok(true) => {}
            Ok(false) if is_interrupted() => {}
            Ok(false) => return Err(Error::Inputs(None)),
            Err(error) => return Err(Error::Inputs(Some(Box::new(error)))),
        }
    }
    if let Some(signal) = signal::asked_to_end() {
        return Ok(End::Signal(signal));
    }
    let mounted = mount_for(job, env, verbose);
    let ended = signal::supervise(&mut plan.command.command());
    if let Some(Err(error)) = mounted.map(Attached::unmount) {
        // The results count more.
        eprintln!("pario: {error}");
    }
    ended.map(End::Status).map_err(|e| Error::Start(plan.command.launcher().to_owned(), e))
}

/// Mounts the partition for the program. MPI-IO does without, so it is no error if that does not work.
fn mount_for(job: &Job, env: &Environment, verbose: bool) -> Option<Attached> {
    if !job.is_mounted {
        return None;
    }
    let mounted = Attached::mount(&job.name, &job.mount, env);
    // Another partition there would be mistaken for this one.
    let misleads = matches!(mounted, Err(mount::Error::Fuse(pario_fuse::Error::Taken(_))));
    if let Err(error) = &mounted
        && (verbose || misleads)
    {
        eprintln!("pario: partition {} is not mounted: {error}", job.name);
    }
    mounted.ok().flatten()
}

fn copy_out(job: &Job, status: ExitStatus, env: &Environment) -> Result<(), Error> {
    let Some(Results { patterns, to, always }) = &job.results else { return Ok(()) };
    if !status.success() && !always {
        return Ok(());
    }
    let cause = match files::stage::out_of(&job.name, patterns, to, env, is_interrupted) {
        Ok(true) => return Ok(()),
        Ok(false) => None,
        Err(error) => Some(Box::new(error)),
    };
    let kept = match &job.place {
        Place::Standing => Kept::Standing,
        Place::OnDemand(made) => Kept::OnDemand { home: job.home.clone(), dir: made.dir.clone() },
    };
    Err(Error::Results { name: job.name.clone(), to: to.clone(), cause, kept })
}

/// Takes a partition on demand down, with all that there is of it. If not everything could be stored, its servers end all
/// the same, and it is kept.
fn take_down(job: &Job, env: &Environment) -> Result<(), Error> {
    let Place::OnDemand(made) = &job.place else { return Ok(()) };
    let down = |options| -> Result<(), partition::Error> {
        let registry = partition::registry(env)?;
        match registry.get(&job.name) {
            // It did not get so far.
            Err(pario_registry::Error::NoPartition(_)) => return Ok(()),
            entry => entry?,
        };
        pario_launch::take_down(&registry, &job.name, options, PATIENCE, &env.launch())?;
        Ok(())
    };
    down(StopOptions { forget: true, ..StopOptions::default() }).map_err(|cause| {
        let cause = match down(StopOptions { force: true, ..StopOptions::default() }) {
            Ok(()) => cause.stopped_by_force(),
            Err(also) => {
                eprintln!("pario: {also}");
                cause
            }
        };
        Error::Down { home: job.home.clone(), dir: made.dir.clone(), cause: Box::new(cause) }
    })?;
    Ok(made.remove()?)
}
