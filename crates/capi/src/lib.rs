//! `libpario.so`: the MPI-IO chapter's C and Fortran names, in front of any MPI.
//!
//! Every exported symbol does the same: decide once whether Pario serves this process or the host's own
//! MPI-IO does ([`boundary::mode`]), turn C arguments into types, call the room `mpiio` inside a panic
//! boundary, and turn an error into an MPI error class by way of the file's error handler. `MPI_x` and
//! `PMPI_x` call one private function; neither calls the other.
//!
//! Handles arrive as `usize` whatever their width in the host's ABI; the host wrapper cuts them to size.

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
