//! Real programs on both hosts, in C, Fortran and Python, directly and through HDF5 and PnetCDF.
//!
//! Each program writes a file whose bytes depend on nothing but the program and the number of ranks, reads it
//! back and checks it. It runs on the host alone and with Pario in front: both must pass, the two files must
//! be equal byte for byte, and the calls must have reached Pario in the one run and not in the other.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use pario_conformance::{HostMpi, Output, ProgramRun, SourceKind, compile, same_file, scratch};

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/apps").join(name)
}

/// Runs the program at one number of ranks with and without Pario and compares the files.
fn compare_at(host: HostMpi, ranks: u32, program: &Path, args: &[OsString]) {
    let dir = scratch();
    let run = |name: &str, preload: bool| -> Output {
        let run = ProgramRun::new(host, ranks, program).args(args.to_vec()).arg(dir.join(name));
        let output = run.preload(preload).run().expect_success();
        assert!(output.stdout.contains("passed"), "{output}");
        output
    };
    assert_eq!(run("host", false).pario_calls(), 0, "Pario is present without being preloaded");
    let output = run("pario", true);
    assert_eq!(output.stats().len(), ranks as usize, "not every rank reported: {output}");
    assert!(output.stats().iter().all(|rank| rank.calls > 0), "calls went past Pario: {output}");
    same_file(dir.join("host"), dir.join("pario"));
}

fn compare(host: HostMpi, name: &str, kind: SourceKind, flags: &[&str]) {
    let program = compile(host, source(name), kind, flags);
    for ranks in [1, 2, 4] {
        compare_at(host, ranks, &program, &[]);
    }
}

macro_rules! on_both {
    ($($mpich:ident $openmpi:ident: $name:literal by $kind:ident;)*) => {$(
        #[test]
        fn $mpich() {
            compare(HostMpi::Mpich, $name, SourceKind::$kind, &[]);
        }
        #[test]
        fn $openmpi() {
            compare(HostMpi::OpenMpi, $name, SourceKind::$kind, &[]);
        }
    )*};
}

on_both! {
    block3d_mpich block3d_openmpi: "block3d.c" by C;
    strided_mpich strided_openmpi: "strided.c" by C;
    shared_mpich shared_openmpi: "shared.c" by C;
    nonblocking_mpich nonblocking_openmpi: "nonblocking.c" by C;
    split_mpich split_openmpi: "split.c" by C;
    fortran_mpifh_mpich fortran_mpifh_openmpi: "fortran_mpifh.f" by F77;
    fortran_mpi_mpich fortran_mpi_openmpi: "fortran_mpi.f90" by F90;
    fortran_f08_mpich fortran_f08_openmpi: "fortran_f08.f90" by F90;
    hdf5_mpich hdf5_openmpi: "hdf5.c" by Hdf5;
}

/// The packaged PnetCDF is built for Open MPI only.
#[test]
fn pnetcdf_openmpi() {
    compare(HostMpi::OpenMpi, "pnetcdf.c", SourceKind::C, &["-lpnetcdf"]);
}

/// The packaged parallel h5py is built for Open MPI only, and for the system's own Python.
#[test]
fn h5py_openmpi() {
    for ranks in [1, 2] {
        compare_at(HostMpi::OpenMpi, ranks, Path::new("/usr/bin/python3"), &[source("h5py_app.py").into()]);
    }
}

/// Only Open MPI still has a C++ binding.
#[test]
fn cxx_error_handlers_openmpi() {
    pario_only_as(HostMpi::OpenMpi, "cxx_handlers.cc", SourceKind::Cxx, 2);
}

/// Places beyond 2³² on a sparse file; the files are compared by the digest that the program prints.
fn large(host: HostMpi) {
    let program = compile(host, source("large.c"), SourceKind::C, &[]);
    for ranks in [1, 2] {
        let dir = scratch();
        let run = |name: &str| ProgramRun::new(host, ranks, &program).arg(dir.join(name));
        let alone = run("host").run().expect_success();
        // Some of it is beyond the hosts; see the program.
        let output = run("pario").arg("all").preload(true).run().expect_success();
        assert!(output.pario_calls() > 0, "calls went past Pario: {output}");
        assert!(alone.stdout.contains("digest"), "{alone}");
        assert_eq!(output.stdout, alone.stdout);
    }
}

#[test]
fn large_mpich() {
    large(HostMpi::Mpich);
}

#[test]
fn large_openmpi() {
    large(HostMpi::OpenMpi);
}

/// Programs that the hosts cannot run, or only with much memory: under Pario only.
fn pario_only(host: HostMpi, name: &str, ranks: u32) {
    pario_only_as(host, name, SourceKind::C, ranks);
}

fn pario_only_as(host: HostMpi, name: &str, kind: SourceKind, ranks: u32) {
    let program = compile(host, source(name), kind, &[]);
    let dir = scratch();
    let run = ProgramRun::new(host, ranks, &program).arg(dir.join("file")).preload(true).timeout(120);
    let output = run.run().expect_success();
    assert!(output.stdout.contains("passed") && output.pario_calls() > 0, "{output}");
    print!("{}", output.stdout);
}

#[test]
fn huge_views_mpich() {
    pario_only(HostMpi::Mpich, "huge_views.c", 2);
}

#[test]
fn huge_views_openmpi() {
    pario_only(HostMpi::OpenMpi, "huge_views.c", 2);
}

#[test]
fn huge_transfer_mpich() {
    pario_only(HostMpi::Mpich, "huge_transfer.c", 1);
}

#[test]
fn huge_transfer_openmpi() {
    pario_only(HostMpi::OpenMpi, "huge_transfer.c", 1);
}
