//! `pario-workload` for the MPI library of the user's choice: which compiler, and the built program.

use super::Error;
use crate::env::Environment;
use crate::run::{Family, family_of, in_path};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Builds the program, unless it is built.
pub fn find(mpi: Option<Family>, mpicc: Option<&Path>, env: &Environment) -> Result<PathBuf, Error> {
    let mpicc = match mpicc {
        Some(named) => named.to_owned(),
        None => compiler(mpi, env)?,
    };
    let program = pario_workloads::build(&mpicc, &env.cache)?;
    if let Some(wanted) = mpi {
        let found = family_of(&program, env)?;
        if found != wanted {
            return Err(Error::OtherMpi { mpicc, wanted, found });
        }
    }
    Ok(program)
}

/// The compiler wrapper of an MPI library, or of any if none is asked for.
fn compiler(mpi: Option<Family>, env: &Environment) -> Result<PathBuf, Error> {
    let names: &[&str] = match mpi {
        None => &["mpicc", "mpicc.mpich", "mpicc.openmpi"],
        Some(Family::Mpich) => &["mpicc.mpich", "mpicc"],
        Some(Family::OpenMpi) => &["mpicc.openmpi", "mpicc"],
    };
    let found = names.iter().find_map(|name| in_path(OsStr::new(name), env));
    found.ok_or(Error::NoCompiler(names[0]))
}
