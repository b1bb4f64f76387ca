//! MPI programs: which MPI a program uses, and how it is started.
//!
//! [`ProgramMpi::of`] reads from a program's file which MPI library it is linked with, and runs nothing of it.
//! [`MpiLauncher::find`] finds the launcher of that library. The caller adds variables and starts the command.

mod command;
mod cores;
mod detect;
mod elf;
mod error;
mod executable;
mod launcher;
mod libraries;

pub use command::{MpiCommand, OVERSUBSCRIBE, find_library, preload};
pub use cores::available as available_cores;
pub use detect::{ProgramMpi, refuse_static};
pub use error::{ProgramError, UnclearMpi};
pub use executable::Executable;
pub use launcher::{LauncherDialect, MpiLauncher};

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;

/// The families of MPI libraries, by binary interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiFamily {
    /// MPICH and the libraries that share its binary interface: Intel MPI, MVAPICH, Cray MPICH.
    Mpich,
    /// Open MPI and its descendants: Spectrum MPI, HPC-X.
    OpenMpi,
    /// A library with the standard ABI of MPI-5 (`libmpi_abi.so`). Both of the others come with one.
    StandardAbi,
}

impl fmt::Display for MpiFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MpiFamily::Mpich => "MPICH",
            MpiFamily::OpenMpi => "Open MPI",
            MpiFamily::StandardAbi => "an MPI with the standard ABI",
        })
    }
}

/// The directories in which programs and libraries are searched.
#[derive(Clone, Debug, Default)]
pub struct SearchPaths {
    /// `PATH`.
    pub programs: Vec<PathBuf>,
    /// `LD_LIBRARY_PATH`.
    pub libraries: Vec<PathBuf>,
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
    fn shell_words_are_quoted_where_needed() {
        assert_eq!(quote(OsStr::new("-x")), "-x");
        assert_eq!(quote(OsStr::new("a b'c")), r"'a b'\''c'");
        assert_eq!(quote(OsStr::new("")), "''");
    }
}
