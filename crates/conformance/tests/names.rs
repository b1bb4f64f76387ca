//! Every exported name: the library has it, it can be called, and it does what it says.
//!
//! The list is not written down here: it is read from the headers of both hosts, so that a function nobody
//! thought of is noticed. `programs/table/names.c` calls each one with good and with bad arguments.

mod table;

use std::collections::BTreeSet;
use std::process::Command;

use pario_conformance::{BOTH, HostMpi, libpario, scratch};
use table::passes;

/// Functions besides `MPI_File_*` that have to be in front of the host's own.
const MORE: [&str; 3] = ["MPI_Register_datarep", "MPI_Register_datarep_c", "MPI_Errhandler_free"];

/// Fortran ways to make a file's error handler: they take a Fortran procedure, so no C function stands behind
/// them. Every mangling that a Fortran compiler may ask for.
const FORTRAN: [&str; 11] = [
    "mpi_file_create_errhandler",
    "mpi_file_create_errhandler_",
    "mpi_file_create_errhandler__",
    "MPI_FILE_CREATE_ERRHANDLER",
    "pmpi_file_create_errhandler",
    "pmpi_file_create_errhandler_",
    "pmpi_file_create_errhandler__",
    "PMPI_FILE_CREATE_ERRHANDLER",
    "mpi_file_create_errhandler_f08_",
    "pmpir_file_create_errhandler_f08_",
    "ompi_file_create_errhandler_f",
];

fn stdout_of(command: &mut Command) -> String {
    let output = command.output().expect("the tool can be started");
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).expect("tools speak ASCII")
}

/// The functions of this host's header that belong to Pario, as `MPI_` names.
fn header_names(host: HostMpi) -> BTreeSet<String> {
    let dir = scratch();
    let source = dir.join("header.c");
    std::fs::write(&source, "#include <mpi.h>\n").expect("a scratch directory takes new files");
    let text = stdout_of(Command::new(host.mpicc()).arg("-E").arg(&source));
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut names = BTreeSet::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find(word) {
        let tail = &rest[start..];
        let end = tail.find(|c| !word(c)).unwrap_or(tail.len());
        let (name, after) = tail.split_at(end);
        let name = name.strip_prefix('P').unwrap_or(name);
        let called = after.trim_start().starts_with('(');
        if called && (name.starts_with("MPI_File_") || MORE.contains(&name)) {
            names.insert(name.to_string());
        }
        rest = after;
    }
    names
}

/// All names to be exported, `MPI_` and `PMPI_`.
fn wanted() -> BTreeSet<String> {
    let mut names: BTreeSet<String> = BOTH.into_iter().flat_map(header_names).collect();
    names.extend(MORE.map(String::from));
    let doubled: Vec<String> = names.iter().map(|name| format!("P{name}")).collect();
    names.extend(doubled);
    names
}

#[test]
fn headers_name_the_whole_chapter() {
    let (mpich, open_mpi) = (header_names(HostMpi::Mpich), header_names(HostMpi::OpenMpi));
    let large = |names: &BTreeSet<String>| names.iter().filter(|name| name.ends_with("_c")).count();
    assert!(mpich.len() >= 90 && large(&mpich) >= 29, "{mpich:?}");
    assert!(open_mpi.len() >= 61, "{open_mpi:?}");
    let only_open_mpi: Vec<&String> = open_mpi.difference(&mpich).collect();
    assert!(only_open_mpi.is_empty(), "{only_open_mpi:?}");
}

#[test]
fn library_exports_every_name() {
    let symbols = stdout_of(Command::new("nm").args(["-D", "--defined-only"]).arg(libpario()));
    let exported: BTreeSet<&str> =
        symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let mut missing: Vec<String> =
        wanted().into_iter().filter(|name| !exported.contains(name.as_str())).collect();
    missing.extend(FORTRAN.into_iter().filter(|name| !exported.contains(name)).map(String::from));
    assert!(missing.is_empty(), "not exported: {missing:?}");
}

fn every_name_works(host: HostMpi, ranks: u32) {
    let output = passes(host, ranks, "names", &[]);
    let called: BTreeSet<String> = output
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("called ")?.strip_suffix(" libpario.so"))
        .map(String::from)
        .collect();
    let missed: Vec<String> = wanted().difference(&called).cloned().collect();
    assert!(missed.is_empty(), "not called, or not in Pario, on {}: {missed:?}", host.name());
}

#[test]
fn every_name_works_on_one_rank() {
    for host in BOTH {
        every_name_works(host, 1);
    }
}

#[test]
fn every_name_works_on_three_ranks() {
    for host in BOTH {
        every_name_works(host, 3);
    }
}
