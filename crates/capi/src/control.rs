//! The calls on an open file that move no data: view, pointers, size, hints, atomic mode, sync.

use std::ffi::{CStr, c_char, c_int, c_void};

use pario_mpi_host::{Host, TypeHandle};
use pario_mpiio::{Displacement, Error, FileCall, Result, ViewRequest, Whence};
use pario_types::ErrorKind;

use crate::boundary::{export, on_file, unserved};

/// A datatype argument.
pub(crate) fn datatype(host: &'static Host, raw: usize) -> Result<TypeHandle> {
    let handle = host.datatype(raw);
    if host.datatype_is_null(handle) {
        Err(Error::Usage(ErrorKind::Type, "the datatype is MPI_DATATYPE_NULL"))
    } else {
        Ok(handle)
    }
}

/// An info argument, as pairs.
pub(crate) fn info(host: &'static Host, raw: usize) -> Result<Vec<(String, String)>> {
    let handle = host.info(raw);
    host.check_info(handle)?;
    Ok(host.info_pairs(handle)?)
}

/// A C string argument.
pub(crate) fn text(raw: *const c_char, kind: ErrorKind, missing: &'static str) -> Result<String> {
    if raw.is_null() {
        return Err(Error::Usage(kind, missing));
    }
    // SAFETY: not null; the program passes a C string.
    Ok(unsafe { CStr::from_ptr(raw) }.to_string_lossy().into_owned())
}

/// Writes through an out-argument of the program.
pub(crate) fn put<T>(out: *mut T, value: T) -> Result<()> {
    if out.is_null() {
        return Err(Error::Usage(ErrorKind::Arg, "an argument that receives a value is a null pointer"));
    }
    // SAFETY: not null; the program passes a variable of this type.
    unsafe { out.write(value) };
    Ok(())
}

/// Writes a handle through an out-argument of the program.
pub(crate) fn put_handle(host: &'static Host, out: *mut c_void, handle: usize) -> Result<()> {
    if out.is_null() {
        return Err(Error::Usage(ErrorKind::Arg, "an argument that receives a handle is a null pointer"));
    }
    // SAFETY: not null; the program passes a variable of a handle type.
    unsafe { host.store(out, handle) };
    Ok(())
}

fn displacement(host: &'static Host, disp: i64) -> Displacement {
    if disp == host.constants().number.displacement_current {
        Displacement::Current
    } else {
        Displacement::Bytes(disp)
    }
}

fn whence(host: &'static Host, whence: c_int) -> Result<Whence> {
    let numbers = &host.constants().number;
    match i64::from(whence) {
        w if w == numbers.seek_set => Ok(Whence::Set),
        w if w == numbers.seek_cur => Ok(Whence::Current),
        w if w == numbers.seek_end => Ok(Whence::End),
        w => {
            Err(Error::Value(ErrorKind::Arg, "whence must be MPI_SEEK_SET, MPI_SEEK_CUR or MPI_SEEK_END", w))
        }
    }
}

fn set_view(
    host: &'static Host,
    fh: usize,
    disp: i64,
    etype: usize,
    filetype: usize,
    rep: *const c_char,
    hints: usize,
) -> c_int {
    on_file(host, const { &FileCall::named("MPI_File_set_view") }, fh, |file| {
        file.set_view(ViewRequest {
            disp: displacement(host, disp),
            etype: datatype(host, etype),
            filetype: datatype(host, filetype),
            datarep: text(rep, ErrorKind::Arg, "the data representation is a null pointer"),
            info: info(host, hints),
        })
    })
}

fn get_view(
    host: &'static Host,
    fh: usize,
    disp: *mut i64,
    etype: *mut c_void,
    filetype: *mut c_void,
    rep: *mut c_char,
) -> c_int {
    on_file(host, const { &FileCall::named("MPI_File_get_view") }, fh, |file| {
        if rep.is_null() {
            return Err(Error::Usage(ErrorKind::Arg, "the data representation is a null pointer"));
        }
        let view = file.view()?;
        put(disp, view.disp)?;
        put_handle(host, etype, view.etype.raw())?;
        put_handle(host, filetype, view.filetype.raw())?;
        let name = view.datarep.as_bytes();
        // SAFETY: the program's buffer has MPI_MAX_DATAREP_STRING bytes; names are shorter by one at least.
        unsafe {
            std::ptr::copy_nonoverlapping(name.as_ptr(), rep.cast(), name.len());
            rep.add(name.len()).write(0);
        }
        Ok(())
    })
}

fn get_info(host: &'static Host, fh: usize, out: *mut c_void) -> c_int {
    on_file(host, const { &FileCall::named("MPI_File_get_info") }, fh, |file| {
        let info = host.new_info(&file.info())?;
        put_handle(host, out, info.raw())
    })
}

fn get_group(host: &'static Host, fh: usize, out: *mut c_void) -> c_int {
    on_file(host, const { &FileCall::named("MPI_File_get_group") }, fh, |file| {
        if out.is_null() {
            return Err(Error::Usage(ErrorKind::Arg, "the group argument is a null pointer"));
        }
        // SAFETY: not null; the program passes a variable of type MPI_Group.
        Ok(unsafe { file.comm().group(out) }?)
    })
}

export! {
    fn MPI_File_set_view, PMPI_File_set_view, c"PMPI_File_set_view"
        (fh: usize, disp: i64, etype: usize, filetype: usize, datarep: *const c_char, info: usize) -> c_int
        = |host| set_view(host, fh, disp, etype, filetype, datarep, info), else unserved();
    fn MPI_File_get_view, PMPI_File_get_view, c"PMPI_File_get_view"
        (fh: usize, disp: *mut i64, etype: *mut c_void, filetype: *mut c_void, datarep: *mut c_char) -> c_int
        = |host| get_view(host, fh, disp, etype, filetype, datarep), else unserved();
    fn MPI_File_set_info, PMPI_File_set_info, c"PMPI_File_set_info" (fh: usize, hints: usize) -> c_int
        = |host| on_file(host, const { &FileCall::named("MPI_File_set_info") }, fh, |file| file.set_info(info(host, hints))),
        else unserved();
    fn MPI_File_get_info, PMPI_File_get_info, c"PMPI_File_get_info" (fh: usize, out: *mut c_void) -> c_int
        = |host| get_info(host, fh, out), else unserved();
    fn MPI_File_get_group, PMPI_File_get_group, c"PMPI_File_get_group" (fh: usize, out: *mut c_void) -> c_int
        = |host| get_group(host, fh, out), else unserved();
    fn MPI_File_get_amode, PMPI_File_get_amode, c"PMPI_File_get_amode" (fh: usize, amode: *mut c_int) -> c_int
        = |host| on_file(host, const { &FileCall::named("MPI_File_get_amode") }, fh, |file| put(amode, file.raw_amode())),
        else unserved();
    fn MPI_File_set_size, PMPI_File_set_size, c"PMPI_File_set_size" (fh: usize, size: i64) -> c_int
        = |host| on_file(host, const { &FileCall::named("MPI_File_set_size") }, fh, |file| file.set_size(size)), else unserved();
    fn MPI_File_preallocate, PMPI_File_preallocate, c"PMPI_File_preallocate" (fh: usize, size: i64) -> c_int
        = |host| on_file(host, const { &FileCall::named("MPI_File_preallocate") }, fh, |file| file.preallocate(size)),
        else unserved();
    fn MPI_File_get_size, PMPI_File_get_size, c"PMPI_File_get_size" (fh: usize, size: *mut i64) -> c_int
        = |host| on_file(host, const { &FileCall::named("MPI_File_get_size") }, fh, |file| put(size, file.size()?)), else unserved();
    fn MPI_File_seek, PMPI_File_seek, c"PMPI_File_seek" (fh: usize, offset: i64, from: c_int) -> c_int
        = |host| on_file(host, const { &FileCall::named("MPI_File_seek") }, fh, |file| file.seek(offset, whence(host, from)?)),
        else unserved();
    fn MPI_File_seek_shared, PMPI_File_seek_shared, c"PMPI_File_seek_shared"
        (fh: usize, offset: i64, from: c_int) -> c_int
        = |host| on_file(host, const { &FileCall::named("MPI_File_seek_shared") }, fh, |file| file.seek_shared(offset, whence(host, from))),
        else unserved();
    fn MPI_File_get_position, PMPI_File_get_position, c"PMPI_File_get_position"
        (fh: usize, offset: *mut i64) -> c_int
        = |host| on_file(host, const { &FileCall::named("MPI_File_get_position") }, fh, |file| put(offset, file.position()?)),
        else unserved();
    fn MPI_File_get_position_shared, PMPI_File_get_position_shared, c"PMPI_File_get_position_shared"
        (fh: usize, offset: *mut i64) -> c_int
        = |host| on_file(host, const { &FileCall::named("MPI_File_get_position_shared") }, fh, |file| put(offset, file.position_shared()?)),
        else unserved();
    fn MPI_File_get_byte_offset, PMPI_File_get_byte_offset, c"PMPI_File_get_byte_offset"
        (fh: usize, offset: i64, disp: *mut i64) -> c_int
        = |host| on_file(host, const { &FileCall::named("MPI_File_get_byte_offset") }, fh, |file| put(disp, file.byte_offset(offset)?)),
        else unserved();
    fn MPI_File_get_type_extent, PMPI_File_get_type_extent, c"PMPI_File_get_type_extent"
        (fh: usize, ty: usize, extent: *mut isize) -> c_int
        = |host| on_file(host, const { &FileCall::named("MPI_File_get_type_extent") }, fh, |file| {
            put(extent, file.type_extent(datatype(host, ty)?)? as isize)
        }),
        else unserved();
    fn MPI_File_get_type_extent_c, PMPI_File_get_type_extent_c, c"PMPI_File_get_type_extent_c"
        (fh: usize, ty: usize, extent: *mut i64) -> c_int
        = |host| on_file(host, const { &FileCall::named("MPI_File_get_type_extent_c") }, fh, |file| {
            put(extent, file.type_extent(datatype(host, ty)?)?)
        }),
        else unserved();
    fn MPI_File_set_atomicity, PMPI_File_set_atomicity, c"PMPI_File_set_atomicity"
        (fh: usize, flag: c_int) -> c_int
        = |host| on_file(host, const { &FileCall::named("MPI_File_set_atomicity") }, fh, |file| file.set_atomicity(flag != 0)),
        else unserved();
    fn MPI_File_get_atomicity, PMPI_File_get_atomicity, c"PMPI_File_get_atomicity"
        (fh: usize, flag: *mut c_int) -> c_int
        = |host| on_file(host, const { &FileCall::named("MPI_File_get_atomicity") }, fh, |file| put(flag, c_int::from(file.atomicity()))),
        else unserved();
    fn MPI_File_sync, PMPI_File_sync, c"PMPI_File_sync" (fh: usize) -> c_int
        = |host| on_file(host, const { &FileCall::named("MPI_File_sync") }, fh, |file| file.sync()), else unserved();
}
