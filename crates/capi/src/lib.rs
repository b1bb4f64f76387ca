//! `libpario.so`: the C and Fortran symbols of MPI-IO, in front of any MPI.
//!
//! Every exported function takes the same steps. It checks whether Pario or the host's own MPI-IO serves this process
//! ([`boundary::mode`]), converts the C arguments, calls the crate `mpiio` inside a panic boundary, and turns an error
//! into an MPI error class by way of the file's error handler. `MPI_x` and `PMPI_x` call one private function; neither
//! calls the other.
//!
//! Handles arrive as `usize`, whatever their width in the host's ABI. The crate `mpi-host` cuts them to size.

// The names and signatures are those of the MPI standard, which documents them.
#![allow(non_snake_case)]

mod boundary;
mod control;
mod datarep;
mod errhandler;
mod fortran;
mod open;
mod request;
mod transfer;
