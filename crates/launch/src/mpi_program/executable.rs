//! Finding the program that the user means, the way launchers do: in `PATH`, then in the working directory.

use super::{ProgramError, SearchPaths};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A program that exists and may be run.
#[derive(Debug, PartialEq, Eq)]
pub struct Executable {
    /// Its file.
    pub file: PathBuf,
    /// How to name it to the launcher: as the user did, unless only we look in the working directory.
    pub name: OsString,
}

impl Executable {
    /// The program called `name`.
    pub fn find(name: &OsStr, search: &SearchPaths) -> Result<Executable, ProgramError> {
        let missing = || ProgramError::NoProgram(name.to_string_lossy().into_owned());
        if name.is_empty() {
            return Err(missing());
        }
        let here = Path::new(".").join(name);
        let is_path = name.as_encoded_bytes().contains(&b'/');
        let (file, name) = match (is_path, search.find_program(name)) {
            (true, _) => (PathBuf::from(name), name.to_owned()),
            (false, Some(file)) => (file, name.to_owned()),
            (false, None) => (here.clone(), here.into_os_string()),
        };
        match file.metadata() {
            Err(_) => Err(missing()),
            Ok(_) if !is_executable(&file) => Err(ProgramError::NotExecutable(file)),
            Ok(_) => Ok(Executable { file, name }),
        }
    }
}

impl SearchPaths {
    /// The first executable of that name in `PATH`.
    pub fn find_program(&self, name: &OsStr) -> Option<PathBuf> {
        self.programs.iter().map(|dir| dir.join(name)).find(|file| is_executable(file))
    }
}

/// Whether somebody may execute the file; the kernel has the last word on who.
pub fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
