//! The host functions that are bound, with their C signatures.
//!
//! Every handle is a `usize` (see the crate's opening lines); `MPI_Count`, `MPI_Aint` and `MPI_Offset`
//! are 64-bit in all known ABIs. Functions newer than MPI-3.0, and extensions, are optional.

use crate::find::Library;
use std::ffi::{CString, c_char, c_int, c_void};

/// `MPI_Comm`, `MPI_Datatype`, ... by value.
type H = usize;
/// `MPI_Comm *`, `MPI_Datatype *`, ...
type HOut = *mut usize;
type Int = *mut c_int;
type Long = *mut i64;
type Void = *mut c_void;
type In = *const c_void;
type Str = *const c_char;

pub(crate) type CopyAttr = unsafe extern "C" fn(H, c_int, Void, Void, Void, Int) -> c_int;
pub(crate) type DeleteAttr = unsafe extern "C" fn(H, c_int, Void, Void) -> c_int;
pub(crate) type Query = unsafe extern "C" fn(Void, Void) -> c_int;
pub(crate) type Free = unsafe extern "C" fn(Void) -> c_int;
pub(crate) type Cancel = unsafe extern "C" fn(Void, c_int) -> c_int;
pub(crate) type Poll = unsafe extern "C" fn(Void, Void) -> c_int;
pub(crate) type Wait = unsafe extern "C" fn(c_int, *mut Void, f64, Void) -> c_int;
pub(crate) type FileErrhandler = unsafe extern "C" fn(Void, Int);
pub(crate) type Progress = unsafe extern "C" fn() -> c_int;

macro_rules! functions {
    (required { $($field:ident = $name:literal ($($arg:ty),*);)* }
     optional { $($ofield:ident = $oname:literal ($($oarg:ty),*);)* }) => {
        /// Bound host functions.
        pub(crate) struct Functions {
            $(pub(crate) $field: unsafe extern "C" fn($($arg),*) -> c_int,)*
            $(pub(crate) $ofield: Option<unsafe extern "C" fn($($oarg),*) -> c_int>,)*
        }

        impl Functions {
            /// Binds everything, or names the first required function that is missing.
            pub(crate) fn bind(library: &Library) -> Result<Functions, &'static str> {
                let find = |name: &str| CString::new(name).ok().and_then(|name| library.function(&name));
                Ok(Functions {
                    $($field: match find($name) {
                        // SAFETY: the host's function of this name has this C signature, by the MPI
                        // standard; handles are widened as the crate documentation explains.
                        Some(address) => unsafe {
                            std::mem::transmute::<In, unsafe extern "C" fn($($arg),*) -> c_int>(address)
                        },
                        None => return Err($name),
                    },)*
                    $($ofield: find($oname).map(|address| {
                        // SAFETY: as above.
                        unsafe { std::mem::transmute::<In, unsafe extern "C" fn($($oarg),*) -> c_int>(address) }
                    }),)*
                })
            }
        }
    };
}

functions! {
    required {
        initialized = "PMPI_Initialized"(Int);
        finalized = "PMPI_Finalized"(Int);
        get_library_version = "PMPI_Get_library_version"(*mut c_char, Int);
        abort = "PMPI_Abort"(H, c_int);
        error_class = "PMPI_Error_class"(c_int, Int);
        error_string = "PMPI_Error_string"(c_int, *mut c_char, Int);

        comm_rank = "PMPI_Comm_rank"(H, Int);
        comm_size = "PMPI_Comm_size"(H, Int);
        comm_test_inter = "PMPI_Comm_test_inter"(H, Int);
        comm_compare = "PMPI_Comm_compare"(H, H, Int);
        comm_dup = "PMPI_Comm_dup"(H, HOut);
        comm_free = "PMPI_Comm_free"(HOut);
        comm_group = "PMPI_Comm_group"(H, HOut);
        comm_get_errhandler = "PMPI_Comm_get_errhandler"(H, HOut);
        comm_set_errhandler = "PMPI_Comm_set_errhandler"(H, H);
        comm_create_keyval = "PMPI_Comm_create_keyval"(CopyAttr, DeleteAttr, Int, Void);
        comm_get_attr = "PMPI_Comm_get_attr"(H, c_int, Void, Int);
        comm_set_attr = "PMPI_Comm_set_attr"(H, c_int, Void);
        barrier = "PMPI_Barrier"(H);
        bcast = "PMPI_Bcast"(Void, c_int, H, c_int, H);
        allreduce = "PMPI_Allreduce"(In, Void, c_int, H, H, H);
        scan = "PMPI_Scan"(In, Void, c_int, H, H, H);
        allgather = "PMPI_Allgather"(In, c_int, H, Void, c_int, H, H);
        comm_split = "PMPI_Comm_split"(H, c_int, c_int, HOut);
        isend = "PMPI_Isend"(In, c_int, H, c_int, c_int, H, HOut);
        irecv = "PMPI_Irecv"(Void, c_int, H, c_int, c_int, H, HOut);
        iallgatherv = "PMPI_Iallgatherv"(In, c_int, H, Void, *const c_int, *const c_int, H, H, HOut);
        test = "PMPI_Test"(HOut, Int, Void);
        iprobe = "PMPI_Iprobe"(c_int, c_int, H, Int, Void);

        type_get_envelope = "PMPI_Type_get_envelope"(H, Int, Int, Int, Int);
        type_get_contents = "PMPI_Type_get_contents"(H, c_int, c_int, c_int, Int, Long, Void);
        type_get_extent_x = "PMPI_Type_get_extent_x"(H, Long, Long);
        type_get_true_extent_x = "PMPI_Type_get_true_extent_x"(H, Long, Long);
        type_size_x = "PMPI_Type_size_x"(H, Long);
        type_get_name = "PMPI_Type_get_name"(H, *mut c_char, Int);
        type_dup = "PMPI_Type_dup"(H, HOut);
        type_free = "PMPI_Type_free"(HOut);
        type_create_keyval = "PMPI_Type_create_keyval"(CopyAttr, DeleteAttr, Int, Void);
        type_set_attr = "PMPI_Type_set_attr"(H, c_int, Void);
        type_get_attr = "PMPI_Type_get_attr"(H, c_int, Void, Int);

        status_set_elements_x = "PMPI_Status_set_elements_x"(Void, H, i64);
        status_set_cancelled = "PMPI_Status_set_cancelled"(Void, c_int);

        info_create = "PMPI_Info_create"(HOut);
        info_dup = "PMPI_Info_dup"(H, HOut);
        info_free = "PMPI_Info_free"(HOut);
        info_set = "PMPI_Info_set"(H, Str, Str);
        info_get_nkeys = "PMPI_Info_get_nkeys"(H, Int);
        info_get_nthkey = "PMPI_Info_get_nthkey"(H, c_int, *mut c_char);

        grequest_start = "PMPI_Grequest_start"(Query, Free, Cancel, Void, HOut);
        grequest_complete = "PMPI_Grequest_complete"(H);

        file_create_errhandler = "PMPI_File_create_errhandler"(FileErrhandler, HOut);
        errhandler_free = "PMPI_Errhandler_free"(HOut);
    }
    optional {
        type_get_envelope_c = "PMPI_Type_get_envelope_c"(H, Long, Long, Long, Long, Int);
        type_get_contents_c = "PMPI_Type_get_contents_c"(H, i64, i64, i64, i64, Int, Long, Long, Void);
        status_set_elements_c = "PMPI_Status_set_elements_c"(Void, H, i64);
        info_get_string = "PMPI_Info_get_string"(H, Str, Int, *mut c_char, Int);
        info_get = "PMPI_Info_get"(H, Str, c_int, *mut c_char, Int);
        grequest_start_polled = "PMPIX_Grequest_start"(Query, Free, Cancel, Poll, Wait, Void, HOut);
        grequest_start_polled_x = "MPIX_Grequest_start"(Query, Free, Cancel, Poll, Wait, Void, HOut);
        progress_register = "opal_progress_register"(Progress);
    }
}
