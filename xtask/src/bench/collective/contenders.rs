//! The contenders, and how each is started.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::host::{Host, MPICH, OPEN_MPI};
use crate::program::{self, Outcome};

use super::Job;

/// One way to do the accesses.
pub struct Contender {
    /// For `--contenders`.
    pub name: &'static str,
    /// For people; short enough for the head of a column.
    pub label: &'static str,
    host: &'static Host,
    kind: Kind,
}

#[derive(PartialEq, Eq)]
enum Kind {
    /// The MPI-IO that the host takes by itself.
    Own,
    /// The ROMIO that Open MPI has beside its own MPI-IO.
    OtherRomio,
    Pario,
    /// No MPI-IO at all.
    Plain,
}

pub const ROMIO: usize = 0;
pub const OMPIO: usize = 1;
pub const ROMIO_IN_OPEN_MPI: usize = 2;
pub const PARIO_ON_MPICH: usize = 3;
pub const PARIO_ON_OPEN_MPI: usize = 4;
/// The limit. On Open MPI, because MPICH's spinning would slow it down.
pub const PLAIN: usize = 5;

pub static CONTENDERS: [Contender; 6] = [
    Contender { name: "romio", label: "ROMIO", host: &MPICH, kind: Kind::Own },
    Contender { name: "ompio", label: "OMPIO", host: &OPEN_MPI, kind: Kind::Own },
    Contender { name: "romio-openmpi", label: "ROMIO/O", host: &OPEN_MPI, kind: Kind::OtherRomio },
    Contender { name: "pario-mpich", label: "Pario/M", host: &MPICH, kind: Kind::Pario },
    Contender { name: "pario-openmpi", label: "Pario/O", host: &OPEN_MPI, kind: Kind::Pario },
    Contender { name: "plain", label: "limit", host: &OPEN_MPI, kind: Kind::Plain },
];

pub fn is_pario(contender: usize) -> bool {
    CONTENDERS[contender].kind == Kind::Pario
}

/// The program, compiled for each host.
pub struct Programs {
    mpich: PathBuf,
    open_mpi: PathBuf,
    /// Whether Open MPI has a ROMIO.
    other_romio: bool,
}

/// What the program is asked to do, beside the patterns.
pub struct Start<'a> {
    pub mode: &'a str,
    pub seed: u32,
    pub calls: u32,
    /// For `PARIO_STATS`.
    pub statistics: Option<&'a Path>,
}

/// Seconds after which a start has failed; the longest good ones take one.
const TIMEOUT: &str = "600";

impl Programs {
    pub fn compile(into: &Path) -> Outcome<Programs> {
        let source = "xtask/bench/collective.c";
        let components = program::capture(&mut Command::new("ompi_info")).map(|output| output.stdout);
        let components = String::from_utf8_lossy(&components.unwrap_or_default()).into_owned();
        Ok(Programs {
            mpich: MPICH.compile(source, into)?,
            open_mpi: OPEN_MPI.compile(source, into)?,
            other_romio: components.contains("MCA io: romio321"),
        })
    }

    pub fn has(&self, contender: usize) -> bool {
        CONTENDERS[contender].kind != Kind::OtherRomio || self.other_romio
    }

    /// Starts the program once and returns what it printed.
    pub fn start(&self, contender: usize, job: &Job, dir: &Path, start: &Start<'_>) -> Outcome<String> {
        let Contender { host, kind, .. } = &CONTENDERS[contender];
        let mut command = match kind {
            Kind::Pario => host.launch_with_pario(job.ranks),
            _ => host.launch(job.ranks),
        };
        if *kind == Kind::OtherRomio {
            command.args(["--mca", "io", "romio321"]);
        }
        command.env("MPIEXEC_TIMEOUT", TIMEOUT);
        if let Some(path) = start.statistics {
            command.env("PARIO_STATS", format!("json:{}", path.display()));
        }
        let mode = match (kind, start.mode) {
            (Kind::Plain, "overwrite") => "plain-overwrite",
            (Kind::Plain, _) => "plain",
            (_, mode) => mode,
        };
        command
            .arg(if std::ptr::eq(*host, &MPICH) { &self.mpich } else { &self.open_mpi })
            .arg(mode)
            .arg(dir);
        command.args([start.seed, start.calls].map(|number| number.to_string())).args(&job.patterns);
        program::stdout(&mut command)
    }
}
