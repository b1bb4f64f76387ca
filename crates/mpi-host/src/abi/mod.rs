//! The numbers of each MPI binary interface, as plain data.
//!
//! Every number that the I/O chapter needs is a field with its MPI name beside it, declared once by the
//! tables below; the three ABIs are three values of [`Constants`]. They are written by hand and compared
//! with each `mpi.h` by `tests/constants.rs`.

pub(crate) mod mpich;
pub(crate) mod openmpi;
pub(crate) mod standard;

use pario_types::ErrorKind;
use std::ffi::c_int;

/// The binary interface of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbiFamily {
    /// MPICH and everything that keeps its ABI (Intel MPI, MVAPICH, Cray MPICH). Handles are `int`.
    Mpich,
    /// Open MPI. Handles are pointers to its objects.
    OpenMpi,
    /// The standard ABI of MPI-5 (`libmpi_abi`). Handles are pointers with fixed small values.
    Standard,
}

/// Declares a struct of numbers with the MPI name of each.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident : $ty:ty { $($field:ident = $mpi:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name { $(#[doc = concat!("`", $mpi, "`")] pub $field: $ty,)* }

        impl $name {
            /// Every number with its MPI name.
            pub fn named(&self) -> Vec<(&'static str, $ty)> { vec![$(($mpi, self.$field),)*] }
        }
    };
}

table! {
    /// Flags, limits and sentinels of the I/O chapter and of the chapters that it uses.
    Numbers: i64 {
        mode_create = "MPI_MODE_CREATE",
        mode_rdonly = "MPI_MODE_RDONLY",
        mode_wronly = "MPI_MODE_WRONLY",
        mode_rdwr = "MPI_MODE_RDWR",
        mode_delete_on_close = "MPI_MODE_DELETE_ON_CLOSE",
        mode_unique_open = "MPI_MODE_UNIQUE_OPEN",
        mode_excl = "MPI_MODE_EXCL",
        mode_append = "MPI_MODE_APPEND",
        mode_sequential = "MPI_MODE_SEQUENTIAL",
        seek_set = "MPI_SEEK_SET",
        seek_cur = "MPI_SEEK_CUR",
        seek_end = "MPI_SEEK_END",
        displacement_current = "MPI_DISPLACEMENT_CURRENT",
        undefined = "MPI_UNDEFINED",
        any_source = "MPI_ANY_SOURCE",
        order_c = "MPI_ORDER_C",
        order_fortran = "MPI_ORDER_FORTRAN",
        distribute_block = "MPI_DISTRIBUTE_BLOCK",
        distribute_cyclic = "MPI_DISTRIBUTE_CYCLIC",
        distribute_none = "MPI_DISTRIBUTE_NONE",
        distribute_dflt_darg = "MPI_DISTRIBUTE_DFLT_DARG",
        ident = "MPI_IDENT",
        congruent = "MPI_CONGRUENT",
        similar = "MPI_SIMILAR",
        unequal = "MPI_UNEQUAL",
        max_datarep_string = "MPI_MAX_DATAREP_STRING",
        max_info_key = "MPI_MAX_INFO_KEY",
        max_info_val = "MPI_MAX_INFO_VAL",
        max_error_string = "MPI_MAX_ERROR_STRING",
        max_object_name = "MPI_MAX_OBJECT_NAME",
        max_library_version_string = "MPI_MAX_LIBRARY_VERSION_STRING",
        keyval_invalid = "MPI_KEYVAL_INVALID",
        bottom = "MPI_BOTTOM",
        in_place = "MPI_IN_PLACE",
        status_ignore = "MPI_STATUS_IGNORE",
        statuses_ignore = "MPI_STATUSES_IGNORE",
    }
}

table! {
    /// Error classes.
    ErrorClasses: c_int {
        success = "MPI_SUCCESS",
        buffer = "MPI_ERR_BUFFER",
        count = "MPI_ERR_COUNT",
        type_ = "MPI_ERR_TYPE",
        comm = "MPI_ERR_COMM",
        request = "MPI_ERR_REQUEST",
        arg = "MPI_ERR_ARG",
        unknown = "MPI_ERR_UNKNOWN",
        other = "MPI_ERR_OTHER",
        intern = "MPI_ERR_INTERN",
        access = "MPI_ERR_ACCESS",
        amode = "MPI_ERR_AMODE",
        bad_file = "MPI_ERR_BAD_FILE",
        conversion = "MPI_ERR_CONVERSION",
        dup_datarep = "MPI_ERR_DUP_DATAREP",
        file_exists = "MPI_ERR_FILE_EXISTS",
        file_in_use = "MPI_ERR_FILE_IN_USE",
        file = "MPI_ERR_FILE",
        info = "MPI_ERR_INFO",
        info_key = "MPI_ERR_INFO_KEY",
        info_value = "MPI_ERR_INFO_VALUE",
        info_nokey = "MPI_ERR_INFO_NOKEY",
        io = "MPI_ERR_IO",
        no_mem = "MPI_ERR_NO_MEM",
        not_same = "MPI_ERR_NOT_SAME",
        no_space = "MPI_ERR_NO_SPACE",
        no_such_file = "MPI_ERR_NO_SUCH_FILE",
        quota = "MPI_ERR_QUOTA",
        read_only = "MPI_ERR_READ_ONLY",
        unsupported_datarep = "MPI_ERR_UNSUPPORTED_DATAREP",
        unsupported_operation = "MPI_ERR_UNSUPPORTED_OPERATION",
    }
}

table! {
    /// Combiners of the datatype constructors. One that an ABI lacks is [`Combiners::ABSENT`].
    Combiners: c_int {
        named = "MPI_COMBINER_NAMED",
        dup = "MPI_COMBINER_DUP",
        contiguous = "MPI_COMBINER_CONTIGUOUS",
        vector = "MPI_COMBINER_VECTOR",
        hvector_integer = "MPI_COMBINER_HVECTOR_INTEGER",
        hvector = "MPI_COMBINER_HVECTOR",
        indexed = "MPI_COMBINER_INDEXED",
        hindexed_integer = "MPI_COMBINER_HINDEXED_INTEGER",
        hindexed = "MPI_COMBINER_HINDEXED",
        indexed_block = "MPI_COMBINER_INDEXED_BLOCK",
        hindexed_block = "MPI_COMBINER_HINDEXED_BLOCK",
        struct_integer = "MPI_COMBINER_STRUCT_INTEGER",
        struct_ = "MPI_COMBINER_STRUCT",
        subarray = "MPI_COMBINER_SUBARRAY",
        darray = "MPI_COMBINER_DARRAY",
        f90_real = "MPI_COMBINER_F90_REAL",
        f90_complex = "MPI_COMBINER_F90_COMPLEX",
        f90_integer = "MPI_COMBINER_F90_INTEGER",
        resized = "MPI_COMBINER_RESIZED",
        value_index = "MPI_COMBINER_VALUE_INDEX",
    }
}

impl Combiners {
    /// The value of a combiner that an ABI does not have; no host returns it.
    pub const ABSENT: c_int = c_int::MIN;
}

table! {
    /// Predefined handles other than datatypes, plus the datatypes this crate itself sends.
    Handles: usize {
        comm_null = "MPI_COMM_NULL",
        comm_world = "MPI_COMM_WORLD",
        comm_self = "MPI_COMM_SELF",
        group_null = "MPI_GROUP_NULL",
        datatype_null = "MPI_DATATYPE_NULL",
        request_null = "MPI_REQUEST_NULL",
        info_null = "MPI_INFO_NULL",
        errhandler_null = "MPI_ERRHANDLER_NULL",
        errors_are_fatal = "MPI_ERRORS_ARE_FATAL",
        errors_return = "MPI_ERRORS_RETURN",
        file_null = "MPI_FILE_NULL",
        byte = "MPI_BYTE",
        uint64 = "MPI_UINT64_T",
        min = "MPI_MIN",
        max = "MPI_MAX",
        sum = "MPI_SUM",
        bor = "MPI_BOR",
    }
}

/// All numbers of one ABI.
#[derive(Clone, Debug)]
pub struct Constants {
    /// Flags, limits and sentinels.
    pub number: Numbers,
    /// Error classes.
    pub error: ErrorClasses,
    /// Datatype combiners.
    pub combiner: Combiners,
    /// Predefined handles.
    pub handle: Handles,
    /// `MPI_ERRORS_ABORT`, if the host has it (MPI-4).
    pub errors_abort: Option<usize>,
    /// Named datatypes: MPI name and handle. Aliases (`MPI_LONG_LONG`) appear under one name.
    pub named: Vec<(&'static str, usize)>,
}

impl Constants {
    /// The constants of an ABI as this crate has them; Open MPI's handles, known only in a process that
    /// uses it, are 0.
    pub fn of(family: AbiFamily) -> Constants {
        match family {
            AbiFamily::Mpich => mpich::constants(),
            AbiFamily::Standard => standard::constants(),
            AbiFamily::OpenMpi => openmpi::with_handles(|_| 0),
        }
    }

    /// The error class that the standard gives to a kind of failure.
    ///
    /// `OtherRank` (this rank did not fail) is `MPI_ERR_OTHER`, because no I/O class would be true on this rank.
    pub fn class(&self, kind: ErrorKind) -> c_int {
        let e = &self.error;
        match kind {
            ErrorKind::File => e.file,
            ErrorKind::NotSame => e.not_same,
            ErrorKind::Amode => e.amode,
            ErrorKind::UnsupportedDatarep => e.unsupported_datarep,
            ErrorKind::UnsupportedOperation => e.unsupported_operation,
            ErrorKind::NoSuchFile => e.no_such_file,
            ErrorKind::FileExists => e.file_exists,
            ErrorKind::BadFile | ErrorKind::NotEmpty => e.bad_file,
            ErrorKind::Access => e.access,
            ErrorKind::NoSpace => e.no_space,
            ErrorKind::Quota => e.quota,
            ErrorKind::ReadOnly => e.read_only,
            ErrorKind::FileInUse => e.file_in_use,
            ErrorKind::DupDatarep => e.dup_datarep,
            ErrorKind::Conversion => e.conversion,
            ErrorKind::Io | ErrorKind::Unreachable | ErrorKind::Damaged | ErrorKind::Protocol => e.io,
            ErrorKind::Buffer => e.buffer,
            ErrorKind::Count => e.count,
            ErrorKind::Type => e.type_,
            ErrorKind::Comm => e.comm,
            ErrorKind::Arg => e.arg,
            ErrorKind::Info => e.info,
            ErrorKind::NoMem => e.no_mem,
            ErrorKind::Intern => e.intern,
            ErrorKind::OtherRank => e.other,
        }
    }

    /// The kind of failure of a host's error class.
    pub(crate) fn kind(&self, class: c_int) -> ErrorKind {
        let e = &self.error;
        match class {
            c if c == e.type_ => ErrorKind::Type,
            c if c == e.comm => ErrorKind::Comm,
            c if c == e.count => ErrorKind::Count,
            c if c == e.buffer => ErrorKind::Buffer,
            c if c == e.arg => ErrorKind::Arg,
            c if [e.info, e.info_key, e.info_value, e.info_nokey].contains(&c) => ErrorKind::Info,
            c if c == e.no_mem => ErrorKind::NoMem,
            _ => ErrorKind::Intern,
        }
    }

    /// Every number and handle with its MPI name, for comparison with a header.
    pub fn all(&self) -> Vec<(&'static str, i64)> {
        let mut all = self.number.named();
        all.extend(self.error.named().into_iter().map(|(n, v)| (n, i64::from(v))));
        let combiners = self.combiner.named().into_iter().filter(|c| c.1 != Combiners::ABSENT);
        all.extend(combiners.map(|(n, v)| (n, i64::from(v))));
        all.extend(self.handle.named().into_iter().map(|(n, v)| (n, v as i64)));
        all.extend(self.errors_abort.map(|v| ("MPI_ERRORS_ABORT", v as i64)));
        all.extend(self.named.iter().map(|&(n, v)| (n, v as i64)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn both() -> [Constants; 2] {
        [Constants::of(AbiFamily::Mpich), Constants::of(AbiFamily::Standard)]
    }

    #[test]
    fn every_kind_has_a_class_and_io_classes_come_back() {
        for c in both() {
            let kinds = [ErrorKind::Type, ErrorKind::Comm, ErrorKind::Info, ErrorKind::Arg, ErrorKind::Count];
            for kind in kinds {
                assert_eq!(c.kind(c.class(kind)), kind);
            }
            assert_eq!(c.class(ErrorKind::OtherRank), c.error.other);
        }
    }

    #[test]
    fn classes_combiners_and_types_are_distinct() {
        for c in both() {
            let classes: HashSet<_> = c.error.named().into_iter().map(|e| e.1).collect();
            assert_eq!(classes.len(), c.error.named().len());
            let present: Vec<_> =
                c.combiner.named().into_iter().filter(|k| k.1 != Combiners::ABSENT).collect();
            assert_eq!(present.iter().map(|k| k.1).collect::<HashSet<_>>().len(), present.len());
            let types: HashSet<_> = c.named.iter().map(|t| t.1).collect();
            assert_eq!(types.len(), c.named.len());
        }
    }

    #[test]
    fn access_modes_are_single_bits() {
        for c in both() {
            let modes: Vec<i64> =
                c.number.named().into_iter().filter(|n| n.0.starts_with("MPI_MODE_")).map(|n| n.1).collect();
            assert_eq!(modes.len(), 9);
            assert!(modes.iter().all(|m| m.count_ones() == 1));
            assert_eq!(modes.iter().fold(0, |all, m| all | m).count_ones(), 9);
        }
    }
}
