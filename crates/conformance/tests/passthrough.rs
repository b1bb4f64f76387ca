//! Runs in which Pario leaves MPI-IO to the host: with `PARIO_DISABLE`, or with an MPI that it does not know.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use pario_conformance::{
    HostMpi, Output, ProgramRun, SourceKind, compile, execute, libpario, same_file, scratch,
};

const LIMIT: Duration = Duration::from_secs(60);

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/apps").join(name)
}

fn run(command: &mut Command) -> Output {
    execute(std::mem::replace(command, Command::new("true")), LIMIT)
}

/// With `PARIO_DISABLE=1` the host's own I/O does the work, with the same result.
fn disabled(host: HostMpi) {
    for name in ["block3d.c", "shared.c", "nonblocking.c"] {
        let program = compile(host, source(name), SourceKind::C, &[]);
        let dir = scratch();
        let run = |file: &str| ProgramRun::new(host, 2, &program).arg(dir.join(file));
        run("host").run().expect_success();
        let output = run("disabled").preload(true).env("PARIO_DISABLE", "1").run().expect_success();
        assert_eq!(output.pario_calls(), 0, "{output}");
        same_file(dir.join("host"), dir.join("disabled"));
    }
}

#[test]
fn disabled_mpich() {
    disabled(HostMpi::Mpich);
}

#[test]
fn disabled_openmpi() {
    disabled(HostMpi::OpenMpi);
}

/// The program that uses an MPI of our own making, and the lines Pario said about it.
fn with_fake_mpi(library: &str, variables: &[(&str, &str)]) -> (Output, Vec<String>) {
    let dir = scratch();
    let (fake, program) = (dir.join(library), dir.join("program"));
    let mut make = Command::new("cc");
    make.args(["-Wall", "-shared", "-fPIC", "-o"]).arg(&fake).arg(source("fake_mpi.c"));
    run(make.arg(format!("-Wl,-soname,{library}"))).expect_success();
    let mut make = Command::new("cc");
    make.args(["-Wall", "-Wl,-rpath,$ORIGIN", "-o"]).arg(&program).arg(source("fake_program.c")).arg(&fake);
    run(&mut make).expect_success();

    run(&mut Command::new(&program)).expect_success(); // alone it works
    let mut command = Command::new(&program);
    command.env("LD_PRELOAD", libpario()).env("PARIO_STATS", "1").envs(variables.iter().copied());
    let output = run(&mut command);
    let said = output.stderr.lines().filter(|l| l.starts_with("pario") && !l.starts_with("pario: stats"));
    let said = said.map(str::to_string).collect();
    (output, said)
}

/// Every call reaches the unknown MPI unchanged, and the user is told once.
#[test]
fn unknown_mpi_keeps_its_own_io() {
    for library in ["libmpi.so.99", "libfoompi.so"] {
        let (output, said) = with_fake_mpi(library, &[]);
        let output = output.expect_success();
        assert!(output.stdout.starts_with("passed"), "{output}");
        assert_eq!(said.len(), 1, "{output}");
        assert_eq!(output.pario_calls(), 0, "{output}");
    }
}

/// Switched off, Pario says nothing at all.
#[test]
fn unknown_mpi_disabled_is_silent() {
    let (output, said) = with_fake_mpi("libmpi.so.99", &[("PARIO_DISABLE", "1")]);
    let output = output.expect_success();
    assert!(said.is_empty(), "{output}");
}

/// The library finds the MPI at run time, so it must not be linked to one.
#[test]
fn library_needs_no_mpi() {
    let listed = run(Command::new("readelf").arg("-dW").arg(libpario())).expect_success();
    let needed: Vec<&str> = listed.stdout.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(!needed.is_empty(), "{listed}");
    assert!(!needed.iter().any(|line| line.contains("mpi")), "{needed:?}");

    let symbols = run(Command::new("readelf").args(["--dyn-syms", "-W"]).arg(libpario())).expect_success();
    let wanted = |line: &&str| line.contains(" UND ") && line.contains("MPI_");
    let undefined: Vec<&str> = symbols.stdout.lines().filter(wanted).collect();
    assert!(undefined.is_empty(), "{undefined:?}");
}

/// A program without MPI at all runs as ever with the library preloaded.
#[test]
fn program_without_mpi_is_untouched() {
    let dir = scratch();
    fs::write(dir.join("in"), "text\n").expect("a scratch directory takes files");
    let output = run(Command::new("cat").arg(dir.join("in")).env("LD_PRELOAD", libpario())).expect_success();
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("text\n", ""));
}
