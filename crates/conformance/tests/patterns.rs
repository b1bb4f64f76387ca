//! Collective access in the patterns of real programs: the bytes equal those of the host and the expected ones.
//!
//! The program computes every byte of its files beforehand and verifies what it reads; here its files are
//! compared with those of the host's own MPI-IO, for many rank counts and under every hint that changes how
//! collective calls work. MPICH's ranks spin while they wait, so that on few cores its runs are few and small.

mod pattern;

use pario_conformance::{BOTH, HostMpi};
use pattern::{PLAIN, Setting, compare};

/// Every shape, operation and kind of memory at least once.
const ALL: &[&str] = &[
    "block3d:size=13,calls=2",
    "block3d:size=6,op=iall,mem=spread",
    "flash:size=2,mem=guarded",
    "s3d:size=6,op=split",
    "tile:size=7,op=at",
    "tile:size=5,op=iat,mem=backwards",
    "random:size=12,piece=1024",
    "random:size=30,piece=64,op=splitat,calls=2,cut=1",
    "strided:size=50,piece=1,mem=spread,old=1",
    "strided:size=40,piece=64,op=split,calls=3,old=1,cut=1",
    "strided:size=2,piece=65536,op=iall,old=1",
    "tiles:size=60,piece=5,calls=4,mem=backwards,old=1",
    "holes:size=30,piece=17,old=1,cut=1",
    "holes:size=20,piece=1000,op=iall,calls=2,old=1",
    "holes:size=30,piece=100,old=2,calls=3,ours=1",
    "holes:size=9,piece=300,op=iat,ours=1",
    "doubled:size=20,piece=33,old=1",
    "doubled:size=5,piece=2000,op=split,old=2,ours=1",
    "uneven:size=4,piece=50,op=splitat,calls=2,old=1,cut=1",
    "single:size=30,piece=7,calls=2,old=1",
    "segments:size=1000,op=iat,calls=2,cut=1",
    "far:size=5,piece=30,ours=1",
    "ordered:size=100,op=ordered,old=1",
    "ordered:size=60,op=splitordered,old=1,cut=1",
];

/// A few of them, for runs that are dear.
const FEW: &[&str] = &[
    "block3d:size=7",
    "tile:size=5,op=at",
    "random:size=5,piece=1024,op=iall",
    "uneven:size=2,piece=50,op=split,old=1,cut=1",
];

/// Shapes with holes, without, irregular, and with many calls: what hints can make a difference to.
const HINTED: &[&str] = &[
    "block3d:size=9,op=split",
    "random:size=10,piece=512,calls=2",
    "tiles:size=70,piece=9,calls=3,mem=spread,old=1",
    "holes:size=40,piece=100,op=iall,old=1,cut=1",
    "doubled:size=10,piece=500,old=1",
    "uneven:size=4,piece=60,op=at,calls=2,old=1",
    "segments:size=3000,op=iat",
    "single:size=20,piece=70,ours=1",
];

#[test]
fn any_shape_mpich() {
    for ranks in [1, 2] {
        compare(HostMpi::Mpich, ranks, ALL, &[PLAIN]);
    }
    for ranks in [3, 6, 8] {
        compare(HostMpi::Mpich, ranks, &FEW[..1], &[PLAIN]);
    }
}

#[test]
fn any_shape_openmpi() {
    for ranks in [1, 2, 4] {
        compare(HostMpi::OpenMpi, ranks, ALL, &[PLAIN]);
    }
    for ranks in [3, 6, 8, 9, 16] {
        compare(HostMpi::OpenMpi, ranks, FEW, &[PLAIN]);
    }
}

/// The block-tridiagonal shape wants a square number of ranks.
#[test]
fn block_tridiagonal() {
    for ranks in [1, 4, 9] {
        compare(HostMpi::OpenMpi, ranks, &["bt:size=6", "bt:size=7,op=iall,calls=3,cut=1"], &[PLAIN]);
    }
    compare(HostMpi::Mpich, 4, &["bt:size=5"], &[PLAIN]);
}

#[test]
fn sixteen_ranks_mpich() {
    compare(HostMpi::Mpich, 16, &["random:size=3,piece=100"], &[PLAIN]);
}

const fn hints(hints: &'static str) -> Setting {
    Setting { hints, nodes: &[] }
}

/// How the region is cut among the aggregators, in how many rounds, and by how many.
#[test]
fn any_file_domains_give_the_same_bytes() {
    let settings = [
        hints("romio_cb_write=enable;romio_cb_read=enable;pario_fd_partition=even;cb_buffer_size=4096"),
        hints("pario_strategy=two-phase;pario_fd_partition=aligned;striping_unit=1000;cb_buffer_size=3000"),
        hints("pario_strategy=two-phase;pario_fd_partition=static-cyclic;striping_unit=512"),
        hints("pario_strategy=two-phase;pario_fd_partition=group-cyclic;striping_unit=256;striping_factor=2"),
        hints("pario_strategy=two-phase;pario_fd_partition=group-cyclic;striping_unit=100;cb_buffer_size=64"),
        hints("pario_strategy=two-phase;pario_fd_partition=auto;cb_buffer_size=1024;cb_nodes=1"),
        hints("pario_strategy=two-phase;pario_fd_partition=even;cb_buffer_size=777;cb_nodes=2"),
    ];
    compare(HostMpi::Mpich, 2, HINTED, &settings[..4]);
    compare(HostMpi::OpenMpi, 3, HINTED, &settings[1..5]);
    compare(HostMpi::OpenMpi, 4, HINTED, &settings);
}

/// Whether data goes through aggregators at all, and how a rank alone goes about it.
#[test]
fn any_strategy_gives_the_same_bytes() {
    let settings = [
        hints("pario_strategy=auto"),
        hints("pario_strategy=independent"),
        hints("pario_strategy=data-shipping"),
        hints("pario_strategy=data-shipping;IBM_io_buffer_size=4096"),
        hints("romio_cb_write=disable;romio_cb_read=enable;romio_ds_write=disable"),
        hints("romio_cb_write=enable;romio_cb_read=disable;romio_ds_read=disable;cb_buffer_size=256"),
        hints("pario_strategy=two-phase;romio_ds_write=disable;cb_buffer_size=512"),
        hints("romio_no_indep_rw=true;romio_cb_write=enable;romio_cb_read=enable"),
    ];
    compare(HostMpi::Mpich, 2, HINTED, &settings[2..5]);
    compare(HostMpi::OpenMpi, 3, HINTED, &settings);
}

/// A buffer so small that every piece is a round of its own.
#[test]
fn rounds_of_a_few_bytes_give_the_same_bytes() {
    let specs =
        ["tiles:size=6,piece=5,calls=2,old=1", "holes:size=8,piece=9,op=split,old=1", "block3d:size=3"];
    let settings = [
        hints("pario_strategy=two-phase;cb_buffer_size=16;pario_fd_partition=even"),
        hints("pario_strategy=two-phase;cb_buffer_size=64;pario_fd_partition=static-cyclic;striping_unit=16"),
        hints("pario_strategy=two-phase;cb_buffer_size=1;pario_fd_partition=aligned;striping_unit=7"),
    ];
    for host in BOTH {
        compare(host, 2, &specs, &settings);
    }
}
