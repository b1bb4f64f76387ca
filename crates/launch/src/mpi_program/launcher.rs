//! Finding the launcher that belongs to a program's MPI, and speaking its dialect.
//!
//! A launcher beside the MPI library comes first, since it is certain to be of the same installation; then the
//! directories of `PATH`, in order. A name with the family in it (`mpiexec.mpich`) is trusted; a plain
//! `mpiexec` is asked for its version.

use super::executable::is_executable;
use super::{MpiFamily, ProgramError, ProgramMpi, SearchPaths};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A launcher and how it wants to be spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpiLauncher {
    /// Its file, or just its name where `PATH` leads to it: Open MPI's launcher takes a call by full path as an
    /// order to use the installation there, which is right only for one that `PATH` does not lead to.
    pub path: PathBuf,
    /// Its dialect.
    pub dialect: LauncherDialect,
}

/// How a launcher takes the environment of the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LauncherDialect {
    /// MPICH's Hydra and its kin: `-genv NAME VALUE`.
    Hydra,
    /// Open MPI's: `-x NAME=VALUE`.
    OpenMpi,
    /// Any other (such as srun): the ranks are started by `env`.
    Other,
}

impl MpiLauncher {
    /// The launcher for programs of `family` whose library is `mpi`; `named` is the user's choice.
    pub fn find(
        family: MpiFamily,
        mpi: Option<&ProgramMpi>,
        named: Option<&Path>,
        search: &SearchPaths,
    ) -> Result<MpiLauncher, ProgramError> {
        match named {
            Some(name) => named_launcher(family, name, search),
            None => {
                let beside = mpi.and_then(|m| m.file.as_deref()).into_iter().flat_map(bins_beside);
                let mut dirs = beside.chain(search.programs.iter().cloned());
                let found = dirs
                    .find_map(|dir| in_directory(family, &dir))
                    .ok_or(ProgramError::NoLauncher(family))?;
                Ok(MpiLauncher { path: shortest(found.path, search), ..found })
            }
        }
    }

    /// The launcher that a program is, if it is one of MPICH's or Open MPI's.
    pub fn of_program(program: &Path) -> Option<MpiLauncher> {
        let name = program.file_name()?.to_str()?;
        let known = ["mpiexec", "mpirun", "orterun", "prterun"].iter().any(|known| name.starts_with(known));
        let dialect = if known { ask(program) } else { LauncherDialect::Other };
        (dialect != LauncherDialect::Other).then(|| MpiLauncher { path: program.to_owned(), dialect })
    }

    /// The arguments that start `program` on `ranks` ranks, or on as many as the user says to the launcher, with these
    /// variables set in them.
    pub fn arguments(
        &self,
        ranks: Option<u32>,
        set: &[(&str, OsString)],
        pass_on: &[String],
        extra: &[OsString],
    ) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        arguments.extend(ranks.iter().flat_map(|ranks| ["-n".into(), ranks.to_string().into()]));
        let joined = |name: &str, value: &OsString| {
            let mut pair = OsString::from(format!("{name}="));
            pair.push(value);
            pair
        };
        match self.dialect {
            LauncherDialect::Hydra => {
                for (name, value) in set {
                    arguments.extend(["-genv".into(), name.into(), value.clone()]);
                }
                arguments.extend_from_slice(extra);
            }
            LauncherDialect::OpenMpi => {
                for (name, value) in set {
                    arguments.extend(["-x".into(), joined(name, value)]);
                }
                // Open MPI hands the environment to ranks on its own node only.
                for name in pass_on.iter().filter(|p| set.iter().all(|(s, _)| s != p)) {
                    arguments.extend(["-x".into(), name.into()]);
                }
                arguments.extend_from_slice(extra);
            }
            LauncherDialect::Other => {
                arguments.extend_from_slice(extra);
                if !set.is_empty() {
                    arguments.push("env".into());
                    arguments.extend(set.iter().map(|(name, value)| joined(name, value)));
                }
            }
        }
        arguments
    }
}

fn named_launcher(family: MpiFamily, name: &Path, search: &SearchPaths) -> Result<MpiLauncher, ProgramError> {
    let missing = || ProgramError::NamedLauncher(name.to_owned());
    let is_path = name.as_os_str().as_encoded_bytes().contains(&b'/');
    let path = if is_path { Some(name.to_owned()) } else { search.find_program(name.as_os_str()) };
    let path = path.filter(|p| is_executable(p)).ok_or_else(missing)?;
    let dialect = ask(&path);
    match (family, dialect) {
        (MpiFamily::Mpich, LauncherDialect::OpenMpi) | (MpiFamily::OpenMpi, LauncherDialect::Hydra) => {
            Err(ProgramError::WrongLauncher(path, family))
        }
        _ => Ok(MpiLauncher { path, dialect }),
    }
}

/// The `bin` directories of the installation that the library belongs to: beside the nearest `lib*` directory
/// above it, both as it was found and with links followed.
fn bins_beside(library: &Path) -> Vec<PathBuf> {
    let prefix = |file: &Path| {
        let is_lib = |dir: &&Path| dir.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"lib"));
        let lib = file.ancestors().skip(1).find(is_lib)?;
        Some(lib.parent()?.join("bin"))
    };
    let real = library.canonicalize().ok();
    let mut bins: Vec<_> =
        [Some(library), real.as_deref()].into_iter().flatten().filter_map(prefix).collect();
    bins.dedup();
    bins
}

fn in_directory(family: MpiFamily, dir: &Path) -> Option<MpiLauncher> {
    let (names, wanted): (&[&str], _) = match family {
        MpiFamily::Mpich => (&["mpiexec.mpich", "mpiexec.hydra"], Some(LauncherDialect::Hydra)),
        MpiFamily::OpenMpi => (&["mpiexec.openmpi", "orterun"], Some(LauncherDialect::OpenMpi)),
        // Every MPI may have such a library; its launcher is the one of the same installation.
        MpiFamily::StandardAbi => (&[], None),
    };
    let by_name = names.iter().map(|name| dir.join(name)).find(|path| is_executable(path));
    let by_name = by_name.zip(wanted);
    let by_version = || {
        let plain = ["mpiexec", "mpirun"].map(|name| dir.join(name)).into_iter();
        let mut asked = plain.filter(|path| is_executable(path)).map(|path| (ask(&path), path));
        let fits = |dialect| wanted.map_or(dialect != LauncherDialect::Other, |wanted| dialect == wanted);
        asked.find(|(dialect, _)| fits(*dialect)).map(|(dialect, path)| (path, dialect))
    };
    by_name.or_else(by_version).map(|(path, dialect)| MpiLauncher { path, dialect })
}

/// The bare name of a launcher that `PATH` leads to, else its path.
fn shortest(path: PathBuf, search: &SearchPaths) -> PathBuf {
    let Some(name) = path.file_name() else { return path };
    let by_name = search.find_program(name).and_then(|found| found.canonicalize().ok());
    if by_name.is_some() && by_name == path.canonicalize().ok() { name.into() } else { path }
}

/// Asks a launcher for its version to learn its dialect.
fn ask(path: &Path) -> LauncherDialect {
    let answer = Command::new(path).arg("--version").stdin(Stdio::null()).output();
    answer.map_or(LauncherDialect::Other, |output| {
        dialect_of(&(String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr)))
    })
}

fn dialect_of(version: &str) -> LauncherDialect {
    let says = |words: &[&str]| words.iter().any(|w| version.contains(w));
    if says(&["HYDRA", "Intel(R) MPI"]) {
        LauncherDialect::Hydra
    } else if says(&["Open MPI", "OpenRTE", "Open RTE", "PRRTE", "Spectrum MPI"]) {
        LauncherDialect::OpenMpi
    } else {
        LauncherDialect::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(dialect: LauncherDialect) -> Vec<OsString> {
        let launcher = MpiLauncher { path: "x".into(), dialect };
        let pass_on = ["PARIO_HINTS".to_owned(), "PARIO_STATS".to_owned()];
        launcher.arguments(
            Some(3),
            &[("LD_PRELOAD", "/p".into()), ("PARIO_STATS", "1".into())],
            &pass_on,
            &["-v".into()],
        )
    }

    #[test]
    fn each_dialect_sets_variables_its_way() {
        let hydra = ["-n", "3", "-genv", "LD_PRELOAD", "/p", "-genv", "PARIO_STATS", "1", "-v"];
        assert_eq!(arguments(LauncherDialect::Hydra), hydra);
        let open = ["-n", "3", "-x", "LD_PRELOAD=/p", "-x", "PARIO_STATS=1", "-x", "PARIO_HINTS", "-v"];
        assert_eq!(arguments(LauncherDialect::OpenMpi), open);
        assert_eq!(
            arguments(LauncherDialect::Other),
            ["-n", "3", "-v", "env", "LD_PRELOAD=/p", "PARIO_STATS=1"]
        );
    }

    #[test]
    fn versions_tell_the_dialect() {
        assert_eq!(dialect_of("HYDRA build details:\n  Version: 4.0.2"), LauncherDialect::Hydra);
        assert_eq!(dialect_of("Intel(R) MPI Library for Linux* OS, Version 2021.9"), LauncherDialect::Hydra);
        assert_eq!(dialect_of("mpiexec.openmpi (OpenRTE) 4.1.4"), LauncherDialect::OpenMpi);
        assert_eq!(dialect_of("mpirun (Open MPI) 5.0.3"), LauncherDialect::OpenMpi);
        assert_eq!(dialect_of("slurm 23.11.4"), LauncherDialect::Other);
    }

    #[test]
    fn the_launcher_of_an_installation_is_beside_its_library() {
        assert_eq!(bins_beside(Path::new("/opt/mpi/lib/libmpi.so.40"))[0], Path::new("/opt/mpi/bin"));
        assert_eq!(
            bins_beside(Path::new("/opt/intel/mpi/lib/release/libmpi.so.12"))[0],
            Path::new("/opt/intel/mpi/bin")
        );
        assert!(bins_beside(Path::new("/x/libmpi.so.40")).is_empty());
    }
}
