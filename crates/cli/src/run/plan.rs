//! The command line that a run comes to: decided first, then printed or carried out.

use super::detect::{Mpi, mpi_of, refuse_static};
use super::launcher::{Dialect, Launcher};
use super::partition::Job;
use super::{Arguments, Error, cores, program};
use crate::env::{AS_ROOT, Environment, JOB, OVERSUBSCRIBE, PLACE, PLAN, STATS};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The command of a run, with the reasons for it.
#[derive(Debug)]
pub struct Plan {
    launcher: Launcher,
    arguments: Vec<OsString>,
    /// Variables for the launcher itself.
    variables: Vec<(&'static str, &'static str)>,
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
    let (name, rest) = arguments.command.split_first().ok_or_else(|| Error::NoProgram(String::new()))?;
    let program = program::find(name, env)?;
    if let Some(launcher) = Launcher::is(&program.file) {
        return by_launcher(arguments, launcher, rest, extra, env);
    }
    let (family, mpi) = match arguments.mpi {
        None => mpi_of(&program.file, env).map(|mpi| (mpi.family, Some(mpi)))?,
        Some(family) if arguments.host_io => (family, None),
        Some(family) => refuse_static(&program.file).map(|()| (family, None))?,
    };
    let library = if arguments.host_io { None } else { Some(find_library(env)?) };
    let launcher = Launcher::find(family, mpi.as_ref(), arguments.launcher.as_deref(), env)?;

    let cores = cores::available();
    let ranks = arguments.ranks.map_or(cores, |n| n.get());
    let job = arguments.partition.job(env, &fresh()?)?;
    let set = for_ranks(arguments, library.as_deref(), job.as_ref(), extra, env)?;
    let mut all = launcher.arguments(Some(ranks), &set, &env.for_ranks, &arguments.launcher_args);
    all.push(program.name.clone());
    all.extend_from_slice(rest);

    let mut notes = vec![match &mpi {
        Some(mpi) => format!("{}: {}", program.file.display(), describe_mpi(mpi)),
        None => format!("{}: {family}, as told", program.file.display()),
    }];
    notes.push(match &library {
        Some(library) => format!("MPI-IO: {}", library.display()),
        None => format!("MPI-IO: {family}'s own"),
    });
    let variables = variables(launcher.dialect, ranks > cores && !env.says_oversubscribe);
    notes.extend(job.iter().flat_map(Job::before));
    Ok(Plan { launcher, arguments: all, variables, notes, job })
}

/// The plan of a program that is a launcher, with the user's own arguments for it.
fn by_launcher(
    arguments: &Arguments,
    launcher: Launcher,
    rest: &[OsString],
    extra: &[Variable],
    env: &Environment,
) -> Result<Plan, Error> {
    if let Some(option) = arguments.about_launcher() {
        return Err(Error::TwoLaunchers(launcher.path, option));
    }
    let library = if arguments.host_io { None } else { Some(find_library(env)?) };
    let job = arguments.partition.job(env, &fresh()?)?;
    let set = for_ranks(arguments, library.as_deref(), job.as_ref(), extra, env)?;
    let mut all = launcher.arguments(None, &set, &env.for_ranks, &[]);
    all.extend_from_slice(rest);
    let mut notes = vec![match &library {
        Some(library) => format!("MPI-IO: {}", library.display()),
        None => "MPI-IO: the MPI library's own".to_owned(),
    }];
    notes.extend(job.iter().flat_map(Job::before));
    let variables = variables(launcher.dialect, false);
    Ok(Plan { launcher, arguments: all, variables, notes, job })
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
    set.extend(job.into_iter().flat_map(Job::variables));
    set.extend(arguments.partition.placing.absolute().map(|plan| (PLAN, plan.into())));
    set.extend(arguments.partition.placing.place.clone().map(|place| (PLACE, place.into())));
    Ok(set)
}

impl Plan {
    /// The command, ready to be started.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.launcher.path);
        command.args(&self.arguments).envs(self.variables.iter().copied());
        command
    }

    /// The launcher's file.
    pub fn launcher(&self) -> &Path {
        &self.launcher.path
    }

    /// The command as text for a shell, with the reasons as comments.
    pub fn describe(&self) -> String {
        let mut words: Vec<String> =
            self.variables.iter().map(|(n, v)| format!("{n}={}", quote(v.as_ref()))).collect();
        words.push(quote(self.launcher.path.as_os_str()));
        words.extend(self.arguments.iter().map(|a| quote(a)));
        let notes = |notes: &[String]| -> String {
            notes.iter().map(|note| format!("# {}\n", note.replace(char::is_control, "?"))).collect()
        };
        let after = self.job.as_ref().map_or(String::new(), |job| notes(&job.after()));
        format!("{}{}\n{after}", notes(&self.notes), words.join(" "))
    }
}

/// A word that nobody else has.
pub fn fresh() -> Result<String, Error> {
    let nonce = pario_transport::fresh_nonce().map_err(Error::Random)?;
    Ok(nonce.0.iter().take(6).map(|byte| format!("{byte:02x}")).collect())
}

/// The variables that the launcher itself needs.
fn variables(dialect: Dialect, crowded: bool) -> Vec<(&'static str, &'static str)> {
    let mut variables = Vec::new();
    if dialect == Dialect::OpenMpi {
        if is_root() {
            variables.extend(AS_ROOT.map(|name| (name, "1")));
        }
        if crowded {
            variables.extend(OVERSUBSCRIBE);
        }
    }
    variables
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// The `LD_PRELOAD` for the ranks. Libraries that the user preloads stay in front: sanitisers must come first, and
/// tools that watch MPI calls then see what the program calls.
fn preload(before: Option<&OsStr>, library: &Path) -> OsString {
    let mut list = before.map(OsStr::to_owned).unwrap_or_default();
    if !list.is_empty() {
        list.push(":");
    }
    list.push(library);
    list
}

/// The libpario.so to preload: `PARIO_LIB`, else beside this program, else in `../lib`.
fn find_library(env: &Environment) -> Result<PathBuf, Error> {
    let found = match &env.pario_lib {
        Some(named) => {
            named.canonicalize().ok().filter(|f| f.is_file()).ok_or(Error::NamedLibrary(named.clone()))?
        }
        None => {
            let exe = std::env::current_exe().and_then(|e| e.canonicalize()).unwrap_or_default();
            let bin = exe.parent().unwrap_or(Path::new("."));
            let tried = ["libpario.so", "../lib/libpario.so"].map(|place| bin.join(place));
            let found = tried.iter().filter_map(|f| f.canonicalize().ok()).find(|f| f.is_file());
            found.ok_or_else(|| Error::NoLibrary(tried.to_vec()))?
        }
    };
    let splits = found.as_os_str().as_encoded_bytes().iter().any(|b| b" \t\n:".contains(b));
    if splits { Err(Error::UnloadablePath(found)) } else { Ok(found) }
}

fn describe_mpi(mpi: &Mpi) -> String {
    let Mpi { family, library, .. } = mpi;
    let place = mpi.file.as_ref().map_or("not found".to_owned(), |f| f.display().to_string());
    let via: Vec<_> = mpi.via.iter().skip(1).map(|v| v.display().to_string()).collect();
    let via =
        if via.is_empty() { String::new() } else { format!(", needed by {}", via.join(", needed by ")) };
    format!("{family} ({library}: {place}{via})")
}

/// A word as a shell reads it. The crate shlex quotes words with = and %, which are easier to read without quotes.
pub fn quote(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_preloads_stays_in_front() {
        assert_eq!(preload(None, Path::new("/p")), "/p");
        assert_eq!(preload(Some(OsStr::new("/asan:/x")), Path::new("/p")), "/asan:/x:/p");
    }

    #[test]
    fn shell_words_are_quoted_where_needed() {
        assert_eq!(quote(OsStr::new("-x")), "-x");
        assert_eq!(quote(OsStr::new("a b'c")), r"'a b'\''c'");
        assert_eq!(quote(OsStr::new("")), "''");
    }
}
