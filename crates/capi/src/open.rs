//! Opening, closing and deleting files.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use pario_mpi_host::{Comm, Host};
use pario_mpiio::{AmodeBits, Error, FileCall, OpenRequest, Result, handles};
use pario_types::ErrorKind;

use crate::boundary::{export, on_file, on_null, unserved};
use crate::control::{info, put};
use crate::errhandler;

fn path(raw: *const c_char) -> Result<PathBuf> {
    if raw.is_null() {
        return Err(Error::Usage(ErrorKind::BadFile, "the file name is a null pointer"));
    }
    // SAFETY: not null; the program passes a C string.
    let bytes = unsafe { CStr::from_ptr(raw) }.to_bytes();
    Ok(PathBuf::from(OsStr::from_bytes(bytes)))
}

fn bits(host: &'static Host, amode: c_int) -> AmodeBits {
    let n = &host.constants().number;
    let amode = i64::from(amode);
    let has = |bit: i64| amode & bit != 0;
    let known = [
        n.mode_rdonly,
        n.mode_wronly,
        n.mode_rdwr,
        n.mode_create,
        n.mode_excl,
        n.mode_delete_on_close,
        n.mode_unique_open,
        n.mode_sequential,
        n.mode_append,
    ];
    AmodeBits {
        rdonly: has(n.mode_rdonly),
        wronly: has(n.mode_wronly),
        rdwr: has(n.mode_rdwr),
        create: has(n.mode_create),
        excl: has(n.mode_excl),
        delete_on_close: has(n.mode_delete_on_close),
        unique_open: has(n.mode_unique_open),
        sequential: has(n.mode_sequential),
        append: has(n.mode_append),
        unknown: amode & !known.into_iter().fold(0, |all, bit| all | bit) != 0,
    }
}

fn intracomm(host: &'static Host, raw: usize) -> Result<Comm> {
    let comm = host.comm(raw);
    if host.comm_is_null(comm) {
        return Err(Error::Usage(ErrorKind::Comm, "the communicator is MPI_COMM_NULL"));
    }
    host.check_comm(comm)?;
    if comm.is_inter()? {
        Err(Error::Usage(ErrorKind::Comm, "a file cannot be opened on an intercommunicator"))
    } else {
        Ok(comm)
    }
}

fn open(
    host: &'static Host,
    comm: usize,
    name: *const c_char,
    amode: c_int,
    hints: usize,
    fh: *mut usize,
) -> c_int {
    on_null(host, "MPI_File_open", || {
        put(fh, host.file_null())?;
        let _in_progress = pario_mpiio::begin_open(host);
        let comm = intracomm(host, comm)?;
        let request = OpenRequest {
            name: path(name),
            bits: bits(host, amode),
            raw_amode: amode,
            info: info(host, hints),
        };
        let file = pario_mpiio::open(host, comm, request)?;
        errhandler::inherit(host, &file);
        put(fh, handles::insert(file)?)
    })
}

fn close(host: &'static Host, fh: *mut usize) -> c_int {
    if fh.is_null() {
        return on_null(host, "MPI_File_close", || {
            Err(Error::Usage(ErrorKind::File, "the file handle argument is a null pointer"))
        });
    }
    // SAFETY: not null; the program passes a variable of type MPI_File.
    let handle = unsafe { fh.read() };
    on_file(host, const { &FileCall::named("MPI_File_close") }, handle, |file| {
        let outcome = pario_mpiio::close(handle);
        errhandler::release(host, file);
        put(fh, host.file_null())?;
        outcome
    })
}

export! {
    fn MPI_File_open, PMPI_File_open, c"PMPI_File_open"
        (comm: usize, name: *const c_char, amode: c_int, info: usize, fh: *mut usize) -> c_int
        = |host| open(host, comm, name, amode, info, fh), else unserved();
    fn MPI_File_close, PMPI_File_close, c"PMPI_File_close" (fh: *mut usize) -> c_int
        = |host| close(host, fh), else unserved();
    fn MPI_File_delete, PMPI_File_delete, c"PMPI_File_delete" (name: *const c_char, hints: usize) -> c_int
        = |host| on_null(host, "MPI_File_delete", || {
            info(host, hints)?;
            pario_mpiio::delete(path(name))
        }), else unserved();
}
