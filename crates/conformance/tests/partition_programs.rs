//! The tests of plain files on partitions: the clauses of the standard, random histories, programs in C and
//! Fortran and through HDF5, PnetCDF and Python. The programs know nothing of it: `PARIO_MOUNT` names the directory
//! that their files would be in.
//!
//! Each test has a partition and a way of its own to access it, so that all ways, small caches and large, one
//! server and several, meet all kinds of calls.

mod history;
mod table;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use history::play;
use pario_conformance::partition::{Site, TestPartition};
use pario_conformance::{BOTH, HostMpi, ProgramRun, SourceKind, compile, same_file, scratch};
use table::{all_hold, table_run};

const SERVERS: &str = "pario_strategy=server-directed";
const TWO_PHASE: &str = "pario_strategy=two-phase;cb_buffer_size=8192";
const CLIENTS: &str = "pario_strategy=client-directed";
const FEW_BLOCKS: &str = "pario_strategy=client-directed;pario_tier1_size=64k";
const MEASURED: &str = "pario_tier1=enable";

/// Runs a program of clauses of the standard; the hosts take the hints in turn.
#[track_caller]
fn clauses(program: &str, ranks: u32, hints: &[&str], (servers, stripe, cache): (u16, u64, &str)) {
    for (host, hints) in BOTH.into_iter().cycle().zip(hints) {
        let partition = TestPartition::up(servers, stripe, cache);
        let site = Site { partition: &partition, hints, nodes: &[] };
        let dir = scratch();
        let output = table_run(host, ranks, program, &dir).on(&site, dir.path()).run();
        all_hold(&output);
    }
}

#[test]
fn views() {
    clauses("views", 2, &[SERVERS, CLIENTS, CLIENTS], (2, 4096, "1M"));
}

#[test]
fn pointers() {
    clauses("pointers", 3, &[SERVERS, MEASURED], (1, 65536, "8M"));
}

#[test]
fn opens() {
    clauses("opens", 2, &[SERVERS, CLIENTS, CLIENTS, SERVERS], (3, 65536, "8M"));
}

#[test]
fn collective() {
    clauses("collective", 4, &[CLIENTS, TWO_PHASE, SERVERS, FEW_BLOCKS], (4, 4096, "4M"));
}

#[test]
fn atomic() {
    clauses("atomic", 3, &[SERVERS, CLIENTS], (2, 4096, "1M"));
}

/// Blocks are in the memory of four ranks when they begin to write on top of each other.
#[test]
fn atomic_with_tier_1() {
    for hints in [FEW_BLOCKS, CLIENTS] {
        let partition = TestPartition::up(3, 4096, "1M");
        let (site, dir) = (Site { partition: &partition, hints, nodes: &[] }, scratch());
        let output = table_run(HostMpi::OpenMpi, 4, "atomic", &dir).on(&site, dir.path()).run();
        all_hold(&output);
        assert!(output.stderr.contains("× client-directed"), "no blocks were kept: {output}");
    }
}

#[test]
fn data_representations() {
    clauses("datarep", 3, &[TWO_PHASE, FEW_BLOCKS], (2, 4096, "1M"));
}

#[test]
fn threads() {
    clauses("threads", 2, &[SERVERS, CLIENTS], (2, 65536, "4M"));
}

#[test]
fn error_handlers() {
    clauses("handlers", 3, &[SERVERS], (1, 65536, "4M"));
}

/// Plays random histories.
#[track_caller]
fn histories(
    host: HostMpi,
    ranks: u32,
    hints: &[&str],
    nodes: &[u32],
    (servers, stripe, cache): (u16, u64, &str),
) {
    for hints in hints {
        let partition = TestPartition::up(servers, stripe, cache);
        play(host, ranks, 3, Some(&Site { partition: &partition, hints, nodes }));
    }
}

#[test]
fn histories_one_rank() {
    histories(HostMpi::Mpich, 1, &[SERVERS, CLIENTS], &[], (3, 4096, "1M"));
}

#[test]
fn histories_two_ranks_mpich() {
    histories(HostMpi::Mpich, 2, &[SERVERS, TWO_PHASE, CLIENTS], &[], (2, 4096, "8M"));
}

#[test]
fn histories_two_ranks_openmpi() {
    histories(HostMpi::OpenMpi, 2, &[SERVERS, TWO_PHASE, CLIENTS, FEW_BLOCKS], &[], (4, 4096, "1M"));
}

#[test]
fn histories_two_nodes() {
    histories(HostMpi::OpenMpi, 3, &["", CLIENTS, FEW_BLOCKS], &[0, 1, 1], (2, 4096, "4M"));
}

#[test]
fn histories_four_ranks() {
    histories(HostMpi::OpenMpi, 4, &[SERVERS, CLIENTS, MEASURED], &[], (1, 65536, "1M"));
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/apps").join(name)
}

/// The programs that see the files of a partition.
#[derive(PartialEq)]
enum Seen {
    ByMpi,
    /// It is mounted, for libraries that look at a file before MPI opens it.
    ByAll,
}

/// Runs a program on the host alone and on a partition: both pass, and the files are equal.
#[track_caller]
fn compare(host: HostMpi, ranks: u32, program: &Path, args: &[OsString], hints: &[&str], seen: Seen) {
    let partition = TestPartition::up(2, 65536, "4M");
    let dir = scratch();
    let mount = dir.join("mount");
    let mounted = (seen == Seen::ByAll).then(|| partition.mount(&mount));
    if let Some(None) = mounted {
        return;
    }
    let run = |file: PathBuf| ProgramRun::new(host, ranks, program).args(args.to_vec()).arg(file);
    let alone = run(dir.join("host")).run().expect_success();
    assert!(alone.stdout.contains("passed"), "{alone}");
    for (index, hints) in hints.iter().enumerate() {
        let site = Site { partition: &partition, hints, nodes: &[] };
        let output = run(mount.join("file")).preload(true).on(&site, &mount).run().expect_success();
        assert!(output.stdout.contains("passed") && output.pario_calls() > 0, "{output}");
        let out = dir.join(format!("out{index}"));
        partition.copy_out(&out);
        same_file(dir.join("host"), out.join("file"));
        partition.pario(&["rm", "trial:/file"]);
    }
}

macro_rules! programs {
    ($(
        $test:ident: $name:literal by $kind:ident $flags:expr,
        on $host:ident, $ranks:literal, $hints:expr, $seen:ident;
    )*) => {$(
        #[test]
        fn $test() {
            let program = compile(HostMpi::$host, source($name), SourceKind::$kind, &$flags);
            compare(HostMpi::$host, $ranks, &program, &[], &$hints, Seen::$seen);
        }
    )*};
}

programs! {
    block3d: "block3d.c" by C [], on Mpich, 4, [SERVERS, CLIENTS], ByMpi;
    strided: "strided.c" by C [], on OpenMpi, 4, [TWO_PHASE, CLIENTS], ByMpi;
    shared: "shared.c" by C [], on Mpich, 2, [SERVERS], ByMpi;
    nonblocking: "nonblocking.c" by C [], on OpenMpi, 2, [SERVERS, CLIENTS], ByMpi;
    split: "split.c" by C [], on Mpich, 2, [TWO_PHASE, CLIENTS], ByMpi;
    fortran: "fortran_mpi.f90" by F90 [], on Mpich, 2, [CLIENTS], ByMpi;
    fortran_f08: "fortran_f08.f90" by F90 [], on OpenMpi, 2, [SERVERS], ByMpi;
    hdf5_mpich: "hdf5.c" by Hdf5 [], on Mpich, 2, [SERVERS, CLIENTS], ByMpi;
    hdf5_openmpi: "hdf5.c" by Hdf5 [], on OpenMpi, 4, [SERVERS, CLIENTS, FEW_BLOCKS], ByMpi;
    pnetcdf: "pnetcdf.c" by C ["-lpnetcdf"], on OpenMpi, 4, [SERVERS, TWO_PHASE, CLIENTS], ByAll;
}

#[test]
fn h5py() {
    compare(
        HostMpi::OpenMpi,
        2,
        Path::new("/usr/bin/python3"),
        &[source("h5py_app.py").into()],
        &[SERVERS, CLIENTS],
        Seen::ByMpi,
    );
}
