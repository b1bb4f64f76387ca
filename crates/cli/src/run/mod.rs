//! `pario run`: starts an MPI program under its own launcher with Pario's MPI-IO in front of the MPI library's.
//!
//! `pario_launch::mpi_program` finds out which MPI the program uses and which launcher belongs to it. Both with the preload
//! make a command line (`plan`), which is printed or run. The run may have a partition (`partition`), which is there and
//! filled before it and emptied after it (`session`).

mod error;
mod leftover;
mod partition;
mod plan;
mod rescue;
mod session;

use crate::env::Environment;
use crate::signal;
use clap::{Args, ValueEnum};
pub use error::Error;
use pario_launch::mpi_program::MpiFamily;
pub use plan::{Variable, fresh};
pub use session::End;
use std::ffi::OsString;
use std::io::Write;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run an MPI program with Pario's MPI-IO, unchanged.
///
/// Finds out which MPI library the program is linked with, and starts it with that library's launcher and with
/// libpario.so preloaded in the ranks (not in the launcher). For Python programs, mpi4py's MPI library counts.
#[derive(Args)]
#[command(after_help = NOTES, override_usage = "pario run [OPTIONS] [--] PROGRAM [ARGUMENT]...")]
pub struct Arguments {
    /// Number of ranks [default: the number of cores]
    #[arg(short = 'n', long = "ranks", visible_alias = "np", value_name = "N")]
    ranks: Option<NonZeroU32>,
    /// The program's MPI, if it cannot be found out or is to be overruled
    #[arg(long, value_enum, value_name = "FAMILY")]
    mpi: Option<FamilyArgument>,
    /// Leave Pario out: the same run with the MPI library's own MPI-IO
    #[arg(long)]
    host_io: bool,
    /// Have Pario report its counters when the program ends
    #[arg(long, conflicts_with = "host_io")]
    stats: bool,
    /// The launcher to use instead of the one found
    #[arg(long, value_name = "PATH")]
    launcher: Option<PathBuf>,
    /// An argument to hand to the launcher; may be given several times
    #[arg(long = "launcher-arg", value_name = "ARG", allow_hyphen_values = true)]
    launcher_args: Vec<OsString>,
    /// Say what is done, and why something is left out
    #[arg(short, long)]
    verbose: bool,
    /// Print the command, its environment and what is done around it, instead of doing it
    #[arg(long)]
    dry_run: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
    #[command(flatten)]
    partition: partition::Options,
}

const NOTES: &str = "\
Examples:
  pario run -n 4 -- ./simulation input.nml
  pario run -n 4 -- python3 analysis.py
      run a program with Pario's MPI-IO
  pario run --host-io -n 4 -- ./simulation
      the same with the MPI library's own MPI-IO, to compare
  pario run --servers 2 -n 4 -- ./simulation pario:/fields
  pario run --servers 2 -n 4 --mount /fast -- ./simulation /fast/fields
      run it on a partition made for this run: two servers on this host
  pario run --servers-per-node 1 -n 64 -- ./simulation pario:/fields
      the same in a Slurm job: a server on the local storage of every node
  pario run -n 4 -- ./simulation pario:/fields
      the same without options: one server on this host or on each node
  pario run --servers 2 -n 4 --in input --out 'out/*' --to results -- ./sim
      copy input to pario:/input before, and what matches to results after
  pario run --servers 2 -n 4 --keep -- ./simulation pario:/fields
      leave its files on the partition
  pario run --partition scratch -n 4 -- ./simulation pario:/fields
      run it on a partition of 'pario up'
  pario run --servers 4 -n 4 --plan sim.plan -- ./simulation pario:/fields
      keep each part of its files where it is used, as 'pario plan' found
  pario run --dry-run -n 4 -- ./simulation
      show what would be run
  pario run --mpi mpich -n 4 -- ./wrapper.sh
      a script hides the program: say which MPI it uses
  pario run --launcher srun -n 64 -- ./simulation
      a launcher that belongs to no MPI library
  pario run -n 64 --launcher-arg=--hostfile --launcher-arg=nodes -- ./simulation
      options for the launcher

Environment:
  PARIO_LIB         the libpario.so to use; else the one beside pario, or in
                    ../lib/
  PARIO_STORAGE     where servers of --servers keep their data
  PARIO_HINTS       hints for all files: \"name=value;name=value\"
  PARIO_HINTS_FILE  a hint file; ROMIO_HINTS works, too
  PARIO_STATS       report on each file when it is closed: 1, json, json:FILE
  PARIO_TRACE       record operations: errors, all ('pario trace' shows them)
  LD_PRELOAD        kept: libpario.so comes after what is in it
  Variables that start with PARIO_ reach ranks on other nodes as well.

With a partition, PARIO_PARTITION, PARIO_HOME and PARIO_MOUNT are set for the
ranks: files called pario:/path or $PARIO_MOUNT/path are on it. Where FUSE is
available it is mounted there on this host for the time of the run, so that
the program, and libraries such as PnetCDF, can also look at its files without
MPI; --verbose says why it was not. --in and --out take several paths; -- or another option ends them. What is copied out keeps
its path below the directory of --to. Results are copied however the program
ends; --out-on-success copies them only if its exit code is 0.

A partition of --servers is registered like those of 'pario up' ('pario list'
shows it) and removed after the run. It is kept if it has files that the program
wrote and that were not copied out, and the program failed, the run was
interrupted, or copying failed; --keep always keeps it, --no-keep never. One
line says which files, where, and the commands that copy and remove them. If the
program succeeds, such files are removed after one line that counts them.

SIGINT is answered at once. After SIGTERM the program has a third of the time
of --grace to end; then results are copied until four fifths of it are over.
Files that were not copied are named and kept. Another signal ends the copying.

--servers and --servers-per-node start servers on the nodes of the Slurm job
(by srun) or of --hosts (by ssh), and without these on this host. Each server
keeps its data in the directory of --storage on its node, which need not be
shared; the registry (PARIO_HOME) has to be. Ranks on other hosts reach only
servers of --hosts or of a Slurm job on several nodes. If no option names a
partition and an argument is a file pario:/path, one is made for the run with
one server on each node, and one line says so. The storage of a node may be
removed with the job: results that have to stay belong to --out.

PARIO_AUTOSTART=1 is set for the ranks: a partition pario:NAME/path that is down
is started by the first MPI program that opens a file on it, and stays up. Set
it to 0 to get an error instead.

With Open MPI, more ranks than cores are allowed, and root may run programs.

SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are handed to the launcher.

Exit code: the launcher's. If a signal killed the launcher, pario ends by the
same signal. If nothing was started: 127 program or launcher not found, 126
program or launcher cannot be run, 125 other trouble, 2 wrong arguments. 125 as
well if the program succeeded and results could not be copied out, or if the
partition could not be removed.";

/// The families of MPI libraries, as an argument.
#[derive(Clone, Copy, ValueEnum)]
pub enum FamilyArgument {
    /// MPICH and what shares its binary interface: Intel MPI, MVAPICH, Cray MPICH
    Mpich,
    /// Open MPI and what descends from it: Spectrum MPI, HPC-X
    #[value(name = "openmpi")]
    OpenMpi,
    /// A library with the standard ABI of MPI-5, libmpi_abi.so
    #[value(name = "abi")]
    StandardAbi,
}

impl From<FamilyArgument> for MpiFamily {
    fn from(family: FamilyArgument) -> MpiFamily {
        match family {
            FamilyArgument::Mpich => MpiFamily::Mpich,
            FamilyArgument::OpenMpi => MpiFamily::OpenMpi,
            FamilyArgument::StandardAbi => MpiFamily::StandardAbi,
        }
    }
}

impl Arguments {
    /// An option that speaks of the launcher, if there is one.
    fn about_launcher(&self) -> Option<&'static str> {
        let given = [
            ("-n", self.ranks.is_some()),
            ("--mpi", self.mpi.is_some()),
            ("--launcher", self.launcher.is_some()),
            ("--launcher-arg", !self.launcher_args.is_empty()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }

    /// Whether Pario is left out.
    pub fn is_host_io(&self) -> bool {
        self.host_io
    }
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    match carry_out(arguments, &[], env)? {
        Some(end) => end.follow(),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Runs the program with further variables for its ranks; how that ended, or nothing if it was only to be shown.
pub fn carry_out(arguments: &Arguments, extra: &[Variable], env: &Environment) -> Result<Option<End>, Error> {
    let plan = plan::make(arguments, extra, env)?;
    if arguments.dry_run {
        std::io::stdout().lock().write_all(plan.describe().as_bytes()).map_err(Error::Output)?;
        return Ok(None);
    }
    if arguments.verbose {
        eprint!("{}", plan.describe());
    }
    if let Some(job) = &plan.job {
        return session::run(&plan, job, env, arguments.verbose).map(Some);
    }
    let ended = signal::supervise(&mut plan.command.command());
    ended
        .map(|status| Some(End::Status(status)))
        .map_err(|e| Error::Start(plan.command.launcher().to_owned(), e))
}
