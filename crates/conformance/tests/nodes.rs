//! Collective access by ranks that take themselves to be on several nodes, in even and uneven numbers.
//!
//! `PARIO_NODE` names the node of a rank; ranks of different nodes share no memory and talk by messages of
//! the host MPI. The bytes are the host's all the same.

mod pattern;

use pario_conformance::HostMpi;
use pattern::{Setting, compare};

const SPECS: &[&str] = &[
    "block3d:size=9,op=split",
    "random:size=10,piece=512,calls=2",
    "tiles:size=70,piece=9,calls=3,mem=spread,old=1",
    "holes:size=40,piece=100,op=iall,old=1,cut=1",
    "doubled:size=10,piece=500,old=1",
    "uneven:size=4,piece=60,op=at,calls=2,old=1,cut=1",
    "segments:size=3000,op=iat,calls=2",
    "single:size=20,piece=70,ours=1",
    "ordered:size=100,op=ordered,old=1",
];

const ENABLED: &str = "romio_cb_write=enable;romio_cb_read=enable;cb_buffer_size=2000";
const CYCLIC: &str = "pario_strategy=two-phase;pario_fd_partition=static-cyclic;striping_unit=300;cb_nodes=2";
const GROUPS: &str =
    "pario_strategy=two-phase;pario_fd_partition=group-cyclic;striping_unit=64;striping_factor=2";

fn on(nodes: &'static [u32], hints: &'static str) -> Setting {
    Setting { hints, nodes }
}

#[test]
fn two_nodes_mpich() {
    compare(HostMpi::Mpich, 2, SPECS, &[on(&[0, 1], ""), on(&[0, 1], ENABLED), on(&[0, 1], CYCLIC)]);
}

#[test]
fn uneven_nodes_mpich() {
    compare(HostMpi::Mpich, 3, &SPECS[..4], &[on(&[0, 1, 0], ENABLED), on(&[0, 1, 2], GROUPS)]);
}

#[test]
fn two_nodes_openmpi() {
    let settings = [
        on(&[0, 0, 1, 1], ""),
        on(&[0, 1, 1, 1], ENABLED),
        on(&[1, 0, 0, 1], CYCLIC),
        on(&[0, 0, 0, 1], "pario_strategy=data-shipping"),
    ];
    compare(HostMpi::OpenMpi, 4, SPECS, &settings);
}

#[test]
fn three_and_four_nodes_openmpi() {
    let settings = [
        on(&[0, 0, 1, 1, 2, 2], ""),
        on(&[0, 1, 1, 2, 2, 2], ENABLED),
        on(&[0, 1, 2, 0, 1, 2], GROUPS),
        on(&[3, 0, 1, 1, 2, 0], CYCLIC),
        on(&[0, 1, 2, 3, 3, 3], "pario_strategy=two-phase;cb_config_list=*:1;cb_buffer_size=512"),
        on(&[0, 1, 1, 2, 2, 2], "pario_strategy=two-phase;cb_config_list=*:*;cb_buffer_size=512"),
    ];
    compare(HostMpi::OpenMpi, 6, SPECS, &settings);
}

#[test]
fn every_rank_on_a_node_of_its_own_openmpi() {
    compare(HostMpi::OpenMpi, 3, SPECS, &[on(&[0, 1, 2], ENABLED), on(&[2, 1, 0], GROUPS)]);
}
