//! Makes sure of what the other commands need, and installs nothing that is there already.
//!
//! Four kinds of things: packages of the system, cargo subcommands, an mpi4py per host MPI, and the programs that check what we export. As root on
//! Debian or Ubuntu missing packages are installed; elsewhere the one line to run is printed and the command
//! fails, because installing packages needs the consent of the administrator.

mod cargo_tools;
mod packages;
mod python;

pub use cargo_tools::{cargo_deny, cargo_nextest};
pub use python::{mpi4py, mpi4py_source, mpi4py_version, perfetto, pydarshan, standard_abi};

use crate::host::HOSTS;
use crate::program::{self, Outcome};

/// What `demo` and `bench` need: compilers and both MPIs.
pub fn compilers_and_mpis() -> Outcome {
    packages::install(packages::Need::Run)
}

/// LLVM's tools for profiles, by their Debian names.
pub const LLVM_PROFDATA: &str = "llvm-profdata-19";
pub const LLVM_COV: &str = "llvm-cov-19";

/// What `simulate --coverage` needs, and no other command.
pub fn coverage_tools() -> Outcome {
    if [LLVM_PROFDATA, LLVM_COV].iter().all(|tool| program::works(tool, &["--version"])) {
        return Ok(());
    }
    packages::install_named(&["llvm-19"])
}

/// All that `test` needs.
pub fn everything() -> Outcome {
    packages::install(packages::Need::Test)?;
    cargo_nextest()?;
    for host in HOSTS {
        println!("mpi4py for {}: {}", host.label, mpi4py(host)?.display());
    }
    println!("mpi4py's own tests: {}", mpi4py_source()?.display());
    match pydarshan() {
        Ok(python) => println!("pydarshan: {}", python.display()),
        Err(why) => println!("pydarshan: SKIPPED, and with it the tests of Darshan's logs: {why}"),
    }
    match perfetto() {
        Ok(venv) => println!("Perfetto's trace processor: {}", venv.display()),
        Err(why) => println!("Perfetto's trace processor: SKIPPED, and with it its tests: {why}"),
    }
    match standard_abi() {
        Ok(venv) => println!("MPICH with the standard ABI: {}", venv.display()),
        Err(why) => println!("MPICH with the standard ABI: SKIPPED, and with it its tests: {why}"),
    }
    Ok(())
}
