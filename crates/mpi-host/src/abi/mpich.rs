//! The ABI of MPICH and its relatives, stable since MPICH 3.1 (2014). Handles are `int`: two bits of
//! storage kind, four bits of object kind, the rest an index; built-in datatypes carry their size.

use super::{Combiners, Constants, ErrorClasses, Handles, Numbers};

/// Object kind of communicators, in bits 26–29 of a handle.
pub(crate) const KIND_COMM: u32 = 1;
/// Object kind of datatypes.
pub(crate) const KIND_DATATYPE: u32 = 3;
/// Object kind of error handlers.
pub(crate) const KIND_ERRHANDLER: u32 = 5;
/// Object kind of info objects.
pub(crate) const KIND_INFO: u32 = 7;

/// Whether a handle is that of a predefined object: the two bits above its kind are 01.
pub(crate) fn is_predefined(raw: usize) -> bool {
    raw >> 30 & 3 == 1
}

/// Whether the number of an object can be in its table. MPICH ends the program if it is far beyond. Objects that are allocated one by
/// one have no such limit.
pub(crate) fn is_in_table(raw: usize) -> bool {
    let index = raw & 0x03ff_ffff;
    match raw >> 30 & 3 {
        // A datatype's number is in the lowest byte, its size in the byte above.
        1 if kind(raw) == Some(KIND_DATATYPE) => index <= 0xffff && index & 0xff < PREDEFINED_TYPES,
        1 => index < PREDEFINED,
        2 => index < PREALLOCATED,
        _ => true,
    }
}

// Limits with room for later versions.
const PREDEFINED_TYPES: usize = 128;
const PREDEFINED: usize = 16;
const PREALLOCATED: usize = 256;

/// The object kind of a handle, or `None` for a null handle's storage kind.
pub(crate) fn kind(handle: usize) -> Option<u32> {
    let handle = handle as u32;
    (handle >> 30 != 0).then_some(handle >> 26 & 0xf)
}

pub(crate) fn constants() -> Constants {
    Constants {
        number: NUMBERS,
        error: ERRORS,
        combiner: COMBINERS,
        handle: HANDLES,
        errors_abort: Some(0x5400_0003),
        named: NAMED.to_vec(),
    }
}

const NUMBERS: Numbers = Numbers {
    mode_create: 1,
    mode_rdonly: 2,
    mode_wronly: 4,
    mode_rdwr: 8,
    mode_delete_on_close: 16,
    mode_unique_open: 32,
    mode_excl: 64,
    mode_append: 128,
    mode_sequential: 256,
    seek_set: 600,
    seek_cur: 602,
    seek_end: 604,
    displacement_current: -54278278,
    undefined: -32766,
    any_source: -2,
    order_c: 56,
    order_fortran: 57,
    distribute_block: 121,
    distribute_cyclic: 122,
    distribute_none: 123,
    distribute_dflt_darg: -49767,
    ident: 0,
    congruent: 1,
    similar: 2,
    unequal: 3,
    max_datarep_string: 128,
    max_info_key: 255,
    max_info_val: 1024,
    max_error_string: 512,
    max_object_name: 128,
    max_library_version_string: 8192,
    keyval_invalid: 0x2400_0000,
    bottom: 0,
    in_place: -1,
    status_ignore: 1,
    statuses_ignore: 1,
};

const ERRORS: ErrorClasses = ErrorClasses {
    success: 0,
    buffer: 1,
    count: 2,
    type_: 3,
    comm: 5,
    request: 19,
    arg: 12,
    unknown: 13,
    other: 15,
    intern: 16,
    access: 20,
    amode: 21,
    bad_file: 22,
    conversion: 23,
    dup_datarep: 24,
    file_exists: 25,
    file_in_use: 26,
    file: 27,
    info: 28,
    info_key: 29,
    info_value: 30,
    info_nokey: 31,
    io: 32,
    no_mem: 34,
    not_same: 35,
    no_space: 36,
    no_such_file: 37,
    quota: 39,
    read_only: 40,
    unsupported_datarep: 43,
    unsupported_operation: 44,
};

const COMBINERS: Combiners = Combiners {
    named: 1,
    dup: 2,
    contiguous: 3,
    vector: 4,
    hvector_integer: 5,
    hvector: 6,
    indexed: 7,
    hindexed_integer: 8,
    hindexed: 9,
    indexed_block: 10,
    struct_integer: 11,
    struct_: 12,
    subarray: 13,
    darray: 14,
    f90_real: 15,
    f90_complex: 16,
    f90_integer: 17,
    resized: 18,
    hindexed_block: 19,
    value_index: Combiners::ABSENT,
};

const HANDLES: Handles = Handles {
    comm_null: 0x0400_0000,
    comm_world: 0x4400_0000,
    comm_self: 0x4400_0001,
    group_null: 0x0800_0000,
    datatype_null: 0x0c00_0000,
    request_null: 0x2c00_0000,
    info_null: 0x1c00_0000,
    errhandler_null: 0x1400_0000,
    errors_are_fatal: 0x5400_0000,
    errors_return: 0x5400_0001,
    file_null: 0,
    byte: 0x4c00_010d,
    uint64: 0x4c00_083e,
    max: 0x5800_0001,
    min: 0x5800_0002,
    sum: 0x5800_0003,
    bor: 0x5800_0008,
};

/// Named datatypes. `MPI_INTEGER16` and other types this ABI came to have later are found by name.
const NAMED: &[(&str, usize)] = &[
    ("MPI_CHAR", 0x4c00_0101),
    ("MPI_UNSIGNED_CHAR", 0x4c00_0102),
    ("MPI_SHORT", 0x4c00_0203),
    ("MPI_UNSIGNED_SHORT", 0x4c00_0204),
    ("MPI_INT", 0x4c00_0405),
    ("MPI_UNSIGNED", 0x4c00_0406),
    ("MPI_LONG", 0x4c00_0807),
    ("MPI_UNSIGNED_LONG", 0x4c00_0808),
    ("MPI_LONG_LONG_INT", 0x4c00_0809),
    ("MPI_FLOAT", 0x4c00_040a),
    ("MPI_DOUBLE", 0x4c00_080b),
    ("MPI_LONG_DOUBLE", 0x4c00_100c),
    ("MPI_BYTE", 0x4c00_010d),
    ("MPI_WCHAR", 0x4c00_040e),
    ("MPI_PACKED", 0x4c00_010f),
    ("MPI_LB", 0x4c00_0010),
    ("MPI_UB", 0x4c00_0011),
    ("MPI_SIGNED_CHAR", 0x4c00_0118),
    ("MPI_UNSIGNED_LONG_LONG", 0x4c00_0819),
    ("MPI_2INT", 0x4c00_0816),
    ("MPI_FLOAT_INT", 0x8c00_0000),
    ("MPI_DOUBLE_INT", 0x8c00_0001),
    ("MPI_LONG_INT", 0x8c00_0002),
    ("MPI_SHORT_INT", 0x8c00_0003),
    ("MPI_LONG_DOUBLE_INT", 0x8c00_0004),
    ("MPI_CHARACTER", 0x4c00_011a),
    ("MPI_INTEGER", 0x4c00_041b),
    ("MPI_REAL", 0x4c00_041c),
    ("MPI_LOGICAL", 0x4c00_041d),
    ("MPI_COMPLEX", 0x4c00_081e),
    ("MPI_DOUBLE_PRECISION", 0x4c00_081f),
    ("MPI_2INTEGER", 0x4c00_0820),
    ("MPI_2REAL", 0x4c00_0821),
    ("MPI_DOUBLE_COMPLEX", 0x4c00_1022),
    ("MPI_2DOUBLE_PRECISION", 0x4c00_1023),
    ("MPI_REAL4", 0x4c00_0427),
    ("MPI_COMPLEX8", 0x4c00_0828),
    ("MPI_REAL8", 0x4c00_0829),
    ("MPI_COMPLEX16", 0x4c00_102a),
    ("MPI_REAL16", 0x4c00_102b),
    ("MPI_COMPLEX32", 0x4c00_202c),
    ("MPI_INTEGER1", 0x4c00_012d),
    ("MPI_INTEGER2", 0x4c00_022f),
    ("MPI_INTEGER4", 0x4c00_0430),
    ("MPI_INTEGER8", 0x4c00_0831),
    ("MPI_CXX_BOOL", 0x4c00_0133),
    ("MPI_CXX_FLOAT_COMPLEX", 0x4c00_0834),
    ("MPI_CXX_DOUBLE_COMPLEX", 0x4c00_1035),
    ("MPI_CXX_LONG_DOUBLE_COMPLEX", 0x4c00_2036),
    ("MPI_INT8_T", 0x4c00_0137),
    ("MPI_INT16_T", 0x4c00_0238),
    ("MPI_INT32_T", 0x4c00_0439),
    ("MPI_INT64_T", 0x4c00_083a),
    ("MPI_UINT8_T", 0x4c00_013b),
    ("MPI_UINT16_T", 0x4c00_023c),
    ("MPI_UINT32_T", 0x4c00_043d),
    ("MPI_UINT64_T", 0x4c00_083e),
    ("MPI_C_BOOL", 0x4c00_013f),
    ("MPI_C_FLOAT_COMPLEX", 0x4c00_0840),
    ("MPI_C_DOUBLE_COMPLEX", 0x4c00_1041),
    ("MPI_C_LONG_DOUBLE_COMPLEX", 0x4c00_2042),
    ("MPI_AINT", 0x4c00_0843),
    ("MPI_OFFSET", 0x4c00_0844),
    ("MPI_COUNT", 0x4c00_0845),
];
