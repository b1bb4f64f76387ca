//! The command that starts an MPI program, and the `libpario.so` that its ranks preload.

use super::launcher::{LauncherDialect, MpiLauncher};
use super::{ProgramError, quote};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Open MPI's variables to allow more ranks than cores: up to version 4, and from version 5 on.
pub const OVERSUBSCRIBE: [(&str, &str); 2] =
    [("OMPI_MCA_rmaps_base_oversubscribe", "1"), ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")];

/// Open MPI's variables to let root run it.
const AS_ROOT: [&str; 2] = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];

/// The command that starts an MPI program.
#[derive(Debug)]
pub struct MpiCommand {
    launcher: MpiLauncher,
    arguments: Vec<OsString>,
    /// Variables for the launcher itself.
    variables: Vec<(&'static str, &'static str)>,
}

impl MpiCommand {
    /// A command of this launcher. `oversubscribe`: more ranks than cores have to be allowed.
    pub fn new(launcher: MpiLauncher, arguments: Vec<OsString>, oversubscribe: bool) -> MpiCommand {
        let mut variables = Vec::new();
        if launcher.dialect == LauncherDialect::OpenMpi {
            if rustix::process::geteuid().is_root() {
                variables.extend(AS_ROOT.map(|name| (name, "1")));
            }
            if oversubscribe {
                variables.extend(OVERSUBSCRIBE);
            }
        }
        MpiCommand { launcher, arguments, variables }
    }

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

    /// The command as text for a shell.
    pub fn shell_text(&self) -> String {
        let mut words: Vec<String> =
            self.variables.iter().map(|(n, v)| format!("{n}={}", quote(v.as_ref()))).collect();
        words.push(quote(self.launcher.path.as_os_str()));
        words.extend(self.arguments.iter().map(|a| quote(a)));
        words.join(" ")
    }
}

/// The `LD_PRELOAD` for the ranks. Libraries that the user preloads stay in front: sanitisers must come first, and
/// tools that watch MPI calls then see what the program calls.
pub fn preload(before: Option<&OsStr>, library: &Path) -> OsString {
    let mut list = before.map(OsStr::to_owned).unwrap_or_default();
    if !list.is_empty() {
        list.push(":");
    }
    list.push(library);
    list
}

/// The libpario.so to preload: the one that the user names, else beside this program, else in `../lib`.
pub fn find_library(named: Option<&Path>) -> Result<PathBuf, ProgramError> {
    let found = match named {
        Some(named) => {
            let file = named.canonicalize().ok().filter(|f| f.is_file());
            file.ok_or_else(|| ProgramError::NamedLibrary(named.to_owned()))?
        }
        None => {
            let exe = std::env::current_exe().and_then(|e| e.canonicalize()).unwrap_or_default();
            let bin = exe.parent().unwrap_or(Path::new("."));
            let tried = ["libpario.so", "../lib/libpario.so"].map(|place| bin.join(place));
            let found = tried.iter().filter_map(|f| f.canonicalize().ok()).find(|f| f.is_file());
            found.ok_or_else(|| ProgramError::NoLibrary(tried.to_vec()))?
        }
    };
    let splits = found.as_os_str().as_encoded_bytes().iter().any(|b| b" \t\n:".contains(b));
    if splits { Err(ProgramError::UnloadablePath(found)) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_preloads_stays_in_front() {
        assert_eq!(preload(None, Path::new("/p")), "/p");
        assert_eq!(preload(Some(OsStr::new("/asan:/x")), Path::new("/p")), "/asan:/x:/p");
    }
}
