//! `pario-workload` for the MPI library of the user's choice: which compiler, and the built program.

use super::Error;
use crate::env::Environment;
use pario_launch::mpi_program::{MpiFamily, ProgramMpi};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Builds the program, unless it is built.
pub fn find(mpi: Option<MpiFamily>, mpicc: Option<&Path>, env: &Environment) -> Result<PathBuf, Error> {
    let mpicc = match mpicc {
        Some(named) => named.to_owned(),
        None => compiler(mpi, env)?,
    };
    let program = pario_workloads::build(&mpicc, &env.cache)?;
    if let Some(wanted) = mpi {
        let found = ProgramMpi::of(&program, &env.search)?.family;
        if found != wanted {
            return Err(Error::OtherMpi { mpicc, wanted, found });
        }
    }
    Ok(program)
}

/// The compiler wrapper of an MPI library, or of any if none is asked for.
fn compiler(mpi: Option<MpiFamily>, env: &Environment) -> Result<PathBuf, Error> {
    let names: &[&str] = match mpi {
        None => &["mpicc", "mpicc.mpich", "mpicc.openmpi"],
        Some(MpiFamily::Mpich) => &["mpicc.mpich", "mpicc"],
        Some(MpiFamily::OpenMpi) => &["mpicc.openmpi", "mpicc"],
        Some(MpiFamily::StandardAbi) => &["mpicc_abi"],
    };
    let found = names.iter().find_map(|name| env.search.find_program(OsStr::new(name)));
    found.ok_or(Error::NoCompiler(names[0]))
}
