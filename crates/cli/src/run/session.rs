//! A run on a partition: bring it up, copy into it, mount it, run the program, unmount it, copy out of it,
//! take it down.
//!
//! A partition that was made for the run is erased afterwards, unless the program failed, the run was interrupted or results could
//! not be copied: then it is kept if only it has files that the program wrote, and the user is told how to get at them. Files that
//! are erased with it are counted to the user. Signals that come while the program runs go to its launcher; one that comes before
//! lets it not start, and one that comes while results are copied stops that. After a SIGTERM the run has a limited time
//! ([`Grace`]).

use super::Error;
use super::leftover::FileList;
use super::partition::{Job, Keep, Place, Results};
use super::plan::Plan;
use super::rescue::RescueCommands;
use crate::env::Environment;
use crate::mount::{self, Attached};
use crate::partition::{self, up};
use crate::{files, signal};
use pario_launch::StopOptions;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// How long servers may take to start, and each of them to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The least time in which servers are asked to end.
const LEAST_PATIENCE: Duration = Duration::from_secs(2);

/// The least time for a list of the files of a partition.
const LISTING: Duration = Duration::from_secs(1);

/// How a run ended.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// As the launcher did.
    Status(ExitStatus),
    /// A signal came before the program was started.
    Signal(i32),
    /// The program ended well, but not all results were copied.
    Incomplete,
}

impl End {
    /// Ends this process in the same way.
    pub fn follow(self) -> ! {
        match self {
            End::Status(status) => signal::end_like(status),
            End::Signal(signal) => signal::end_by(signal),
            End::Incomplete => std::process::exit(125),
        }
    }
}

/// The time that is left after a SIGTERM until the batch system kills the processes of the job.
#[derive(Clone, Copy, Debug)]
struct Grace(Duration);

impl Grace {
    /// The launcher ends by then, or is killed.
    fn for_program(self) -> Duration {
        self.0 / 3
    }

    /// Copies end by then.
    fn for_copies(self) -> Duration {
        self.0 * 4 / 5
    }

    /// The files that were not copied are listed by then. The copy of a chunk that was under way may have taken longer than it should.
    fn for_listing(self) -> Duration {
        let passed = signal::since_termination().unwrap_or_default();
        (self.0 * 9 / 10).max(passed + LISTING)
    }

    /// Servers get the rest to end.
    fn patience(self) -> Duration {
        match signal::since_termination() {
            Some(passed) => self.0.saturating_sub(passed).clamp(LEAST_PATIENCE, PATIENCE),
            None => PATIENCE,
        }
    }
}

/// A run and its surroundings.
struct Session<'a> {
    plan: &'a Plan,
    job: &'a Job,
    env: &'a Environment,
    grace: Grace,
}

/// Runs the program on the partition.
pub fn run(plan: &Plan, job: &Job, env: &Environment, verbose: bool) -> Result<End, Error> {
    signal::watch().map_err(Error::Signals)?;
    signal::set_answer("pario: the program is not started; what was prepared for it is removed");
    if let Some(Results { to, .. }) = &job.results {
        // Better now than when there are results.
        fs::create_dir_all(to).map_err(Error::needed("make the directory", to))?;
    }
    let env = &job.environment(env);
    pario_launch::pools::sweep(&env.launch().run_base());
    let session = Session { plan, job, env, grace: Grace(job.grace) };
    job.announcement().iter().for_each(|line| say(line));
    session.bring_up()?;
    let (ended, before) = match session.copy_in() {
        Ok(before) => (session.program(verbose), before),
        Err(error) => (Err(error), FileList::default()),
    };
    let settled = match &ended {
        Ok(End::Status(status)) => session.settle(*status, &before),
        // The program did not run.
        _ => session.erase().map(|()| None),
    };
    match (ended, settled) {
        (Err(error), Err(also)) => {
            say(&also.to_string());
            Err(error)
        }
        (Err(error), Ok(_)) => Err(error),
        (Ok(_), Err(error)) => Err(error),
        (Ok(ended), Ok(other)) => Ok(other.unwrap_or(ended)),
    }
}

fn is_interrupted() -> bool {
    signal::asked_to_end().is_some()
}

/// A line for the user. Nobody may listen any more, after a hangup for instance.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "pario: {line}");
}

impl Session<'_> {
    fn bring_up(&self) -> Result<(), Error> {
        match &self.job.place {
            Place::Standing => Ok(up::known(&self.job.name, PATIENCE, self.env)?),
            Place::OnDemand(partition) => {
                up::new(partition.description.clone(), PATIENCE, self.env).map_err(|error| {
                    // Servers that did start have been stopped again, so this hardly fails.
                    if let Err(also) = self.erase() {
                        say(&also.to_string());
                    }
                    error.into()
                })
            }
        }
    }

    /// Copies the inputs. Returns the files that are there before the program runs.
    fn copy_in(&self) -> Result<FileList, Error> {
        let job = self.job;
        if job.inputs.is_empty() || is_interrupted() {
            return Ok(FileList::default());
        }
        match files::stage::into(&job.name, &job.inputs, &job.placing, self.env, is_interrupted) {
            Ok(false) if !is_interrupted() => return Err(Error::Inputs(None)),
            Ok(_) => {}
            Err(error) => return Err(Error::Inputs(Some(Box::new(error)))),
        }
        match job.place {
            Place::Standing => Ok(FileList::default()),
            Place::OnDemand(_) => FileList::of(&job.name, self.env, || false)
                .map_err(|error| Error::Inputs(Some(Box::new(error)))),
        }
    }

    fn program(&self, verbose: bool) -> Result<End, Error> {
        if let Some(signal) = signal::asked_to_end() {
            return Ok(End::Signal(signal));
        }
        let mounted = self.mount(verbose);
        signal::set_answer(&self.answer_while_it_runs());
        let command = &self.plan.command;
        let ended = signal::supervise_until_killed(&mut command.command(), self.grace.for_program());
        if let Some(Err(error)) = mounted.map(Attached::unmount) {
            // The results count more.
            say(&error.to_string());
        }
        ended.map(End::Status).map_err(|e| Error::Start(command.launcher().to_owned(), e))
    }

    /// The line that tells a user who interrupts the program what happens next.
    fn answer_while_it_runs(&self) -> String {
        let (job, name) = (self.job, &self.job.name);
        let then = match (&job.results, &job.place) {
            (Some(Results { to, on_success: false, .. }), _) => {
                format!("; then results are copied to {}, and another signal stops that", to.display())
            }
            (_, Place::OnDemand(_)) => format!("; files that it has written to partition {name} are kept"),
            (_, Place::Standing) => String::new(),
        };
        format!("pario: interrupted; waiting for the program to end{then}")
    }

    /// Mounts the partition for the program. MPI-IO does without, so it is no error if that does not work.
    fn mount(&self, verbose: bool) -> Option<Attached> {
        let job = self.job;
        if !job.is_mounted {
            return None;
        }
        let mounted = Attached::mount(&job.name, &job.mount, self.env);
        // Another partition there would be mistaken for this one.
        let misleads = matches!(mounted, Err(mount::Error::Fuse(pario_fuse::Error::Taken(_))));
        if let Err(error) = &mounted
            && (verbose || misleads)
        {
            say(&format!("partition {} is not mounted: {error}", job.name));
        }
        mounted.ok().flatten()
    }

    /// Copies results, and erases or keeps the partition. Returns how the run ends, if not as the program did.
    fn settle(&self, status: ExitStatus, before: &FileList) -> Result<Option<End>, Error> {
        let job = self.job;
        signal::set_limit(self.grace.for_copies());
        self.restart_servers();
        let copied = self.copy_out(status);
        if let Place::Standing = job.place {
            return self.report_incomplete(status, copied);
        }
        if job.keep == Keep::Never {
            self.erase()?;
            return self.report_incomplete(status, copied);
        }
        signal::set_limit(self.grace.for_listing());
        let left = FileList::of(&job.name, self.env, signal::is_over_limit).map(|files| {
            let files = files.since(before);
            job.results
                .as_ref()
                .map(|results| &results.to)
                .into_iter()
                .fold(files, |left, to| left.not_copied_to(to))
        });
        let cause = match &copied {
            Err(cause) => Some(cause.clone()),
            Ok(()) if signal::was_asked_to_end() => Some("the run was interrupted".to_owned()),
            Ok(()) if !status.success() => Some(ended_badly(status)),
            Ok(()) => None,
        };
        let ends = if copied.is_err() && status.success() { Some(End::Incomplete) } else { None };
        match (left, cause) {
            (Err(error), cause) => {
                let cause = cause.map_or(String::new(), |cause| format!("{cause}, and "));
                self.keep("files", &format!("{cause}they cannot be listed: {error}")).map(|()| ends)
            }
            (Ok(left), cause) if job.keep == Keep::Always => {
                self.keep(&left.to_string(), &cause.unwrap_or_else(|| "of --keep".to_owned())).map(|()| ends)
            }
            (Ok(left), Some(cause)) if !left.is_empty() => {
                self.keep(&left.to_string(), &cause).map(|()| ends)
            }
            (Ok(left), _) => {
                if !left.is_empty() {
                    say(&format!(
                        "{left} that no --out took: removed with partition {}; --keep keeps such files",
                        job.name
                    ));
                }
                self.erase()?;
                self.report_incomplete(status, copied)
            }
        }
    }

    /// The end of a run whose results may not all be copied. The exit code of a program that failed counts more.
    fn report_incomplete(
        &self,
        status: ExitStatus,
        copied: Result<(), String>,
    ) -> Result<Option<End>, Error> {
        let (Err(cause), Some(Results { to, .. })) = (copied, &self.job.results) else { return Ok(None) };
        let to = to.clone();
        let error = match self.job.place {
            Place::Standing => Error::StandingResults { name: self.job.name.clone(), to, cause },
            Place::OnDemand(_) => Error::Results { to, cause },
        };
        if status.success() {
            return Err(error);
        }
        say(&error.to_string());
        Ok(None)
    }

    /// A batch system that ends a job may send SIGTERM to the servers as well. They have stored everything and ended, and are started again for
    /// the results.
    fn restart_servers(&self) {
        let are_needed = self.job.results.is_some() || matches!(self.job.place, Place::OnDemand(_));
        if are_needed
            && signal::since_termination().is_some()
            && let Err(error) = up::known(&self.job.name, self.grace.patience(), self.env)
        {
            say(&error.to_string());
        }
    }

    /// Copies the results; why not all of them are copied, if so.
    fn copy_out(&self, status: ExitStatus) -> Result<(), String> {
        let Some(Results { patterns, to, on_success }) = &self.job.results else { return Ok(()) };
        if !status.success() && *on_success {
            return Ok(());
        }
        signal::set_answer(
            "pario: interrupted; the copy of results ends, and what is not copied stays on the partition",
        );
        let must_end = || is_interrupted() || signal::is_over_limit();
        match files::stage::out_of(&self.job.name, patterns, to, self.env, must_end) {
            Ok(files::stage::StagedOut { is_complete: true, unmatched }) if unmatched.is_empty() => Ok(()),
            Ok(_) if is_interrupted() => Err("the copy was interrupted".to_owned()),
            Ok(_) if signal::is_over_limit() => Err("there was not enough time after SIGTERM".to_owned()),
            Ok(files::stage::StagedOut { unmatched, .. }) if !unmatched.is_empty() => {
                Err(format!("{}: nothing in the partition matches it", unmatched.join(", ")))
            }
            Ok(_) => Err("not all files could be copied".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Stops the servers of the partition, which stays with all its files; says so first, because the time may be short.
    fn keep(&self, files: &str, cause: &str) -> Result<(), Error> {
        let (job, commands) = (self.job, RescueCommands::new(self.job, self.env));
        signal::set_answer("pario: the servers store what they hold and end; please wait");
        say(&format!(
            "{files} on partition {} in {}: kept, because {cause}; '{}' copies them to {}, '{}' removes them",
            job.name,
            job.directories(),
            commands.copy(),
            commands.target().display(),
            commands.erase(),
        ));
        match self.down(StopOptions::default()) {
            Ok(()) => Ok(()),
            // They end by themselves, or with the job.
            Err(cause) if signal::since_termination().is_some() => {
                say(&format!("{cause}; '{}' finishes that", commands.down()));
                Ok(())
            }
            Err(cause) => Err(self.kept_by_force(cause)),
        }
    }

    /// Removes a partition on demand with all that there is of it. If that does not work, it is kept.
    fn erase(&self) -> Result<(), Error> {
        if let Place::Standing = self.job.place {
            return Ok(());
        }
        signal::set_answer("pario: the servers of this run end; please wait");
        let unstored = self.down(StopOptions::default());
        unstored.map_err(|cause| self.kept_by_force(cause))?;
        Ok(self.down(StopOptions { erase: true, ..StopOptions::default() })?)
    }

    /// Stops servers that could not store everything.
    fn kept_by_force(&self, cause: partition::Error) -> Error {
        let cause = match self.down(StopOptions { force: true, ..StopOptions::default() }) {
            Ok(()) => cause.stopped_by_force(),
            Err(also) => {
                say(&also.to_string());
                cause
            }
        };
        let commands = Box::new(RescueCommands::new(self.job, self.env));
        Error::Down { commands, cause: Box::new(cause) }
    }

    fn down(&self, options: StopOptions) -> Result<(), partition::Error> {
        let registry = partition::registry(self.env)?;
        match registry.get(&self.job.name) {
            // It did not get so far.
            Err(pario_registry::Error::NoPartition(_)) => return Ok(()),
            entry => entry?,
        };
        let patience = self.grace.patience();
        pario_launch::take_down(&registry, &self.job.name, options, patience, &self.env.launch())?;
        Ok(())
    }
}

/// How a program that failed ended.
fn ended_badly(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("the program ended with exit code {code}"),
        (None, Some(signal)) => format!("the program was ended by signal {signal}"),
        (None, None) => "the program failed".to_owned(),
    }
}
