//! Random access sequences, compared with a flat-byte model of MPI-IO.
//!
//! Each script is a long history of views, pointers, sizes and accesses of every kind on one file. The program
//! `history.c` plays it on 1 to 4 ranks with Pario in front; what each rank read, every pointer, every count
//! and the final file must be what the model says. Seeds are fixed; `PARIO_HISTORY_SEED` chooses others and
//! `PARIO_HISTORY_COUNT` more; fewer `PARIO_HISTORY_STEPS` give a prefix of the same history, to find the first
//! wrong step. The script of a failed history is kept and named.

mod history;
mod table;

use history::play;
use pario_conformance::HostMpi;

#[test]
fn one_rank_mpich() {
    play(HostMpi::Mpich, 1, 24, None);
}

#[test]
fn one_rank_open_mpi() {
    play(HostMpi::OpenMpi, 1, 24, None);
}

#[test]
fn two_ranks_mpich() {
    play(HostMpi::Mpich, 2, 16, None);
}

#[test]
fn two_ranks_open_mpi() {
    play(HostMpi::OpenMpi, 2, 24, None);
}

#[test]
fn three_ranks_mpich() {
    play(HostMpi::Mpich, 3, 6, None);
}

#[test]
fn three_ranks_open_mpi() {
    play(HostMpi::OpenMpi, 3, 16, None);
}

#[test]
fn four_ranks_mpich() {
    play(HostMpi::Mpich, 4, 3, None);
}

#[test]
fn four_ranks_open_mpi() {
    play(HostMpi::OpenMpi, 4, 12, None);
}
