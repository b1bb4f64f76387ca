//! The standard ABI of MPI-5.0 (`libmpi_abi.so`). Handles are pointer-sized words with small fixed
//! values: null handles and predefined objects lie below 0x1000, objects made at run time above.

use super::{Combiners, Constants, ErrorClasses, Handles, Numbers};

pub(crate) fn constants() -> Constants {
    Constants {
        number: NUMBERS,
        error: ERRORS,
        combiner: COMBINERS,
        handle: HANDLES,
        errors_abort: Some(0x142),
        named: NAMED.to_vec(),
    }
}

const NUMBERS: Numbers = Numbers {
    mode_append: 1,
    mode_create: 2,
    mode_delete_on_close: 4,
    mode_excl: 8,
    mode_rdonly: 16,
    mode_rdwr: 32,
    mode_sequential: 64,
    mode_unique_open: 128,
    mode_wronly: 256,
    seek_set: 403,
    seek_cur: 401,
    seek_end: 402,
    displacement_current: -1,
    undefined: -32766,
    any_source: -1,
    order_c: 12,
    order_fortran: 15,
    distribute_none: 16,
    distribute_block: 17,
    distribute_cyclic: 18,
    distribute_dflt_darg: 19,
    ident: 201,
    congruent: 202,
    similar: 203,
    unequal: 204,
    max_datarep_string: 128,
    max_info_key: 256,
    max_info_val: 1024,
    max_error_string: 512,
    max_object_name: 128,
    max_library_version_string: 8192,
    keyval_invalid: 0,
    bottom: 0,
    in_place: 1,
    status_ignore: 0,
    statuses_ignore: 0,
};

const ERRORS: ErrorClasses = ErrorClasses {
    success: 0,
    buffer: 1,
    count: 2,
    type_: 3,
    comm: 5,
    request: 7,
    arg: 13,
    unknown: 14,
    other: 16,
    intern: 17,
    access: 20,
    amode: 21,
    bad_file: 23,
    conversion: 25,
    dup_datarep: 27,
    file_exists: 28,
    file_in_use: 29,
    file: 30,
    info_key: 31,
    info_nokey: 32,
    info_value: 33,
    info: 34,
    io: 35,
    no_mem: 39,
    not_same: 40,
    no_space: 41,
    no_such_file: 42,
    quota: 44,
    read_only: 45,
    unsupported_datarep: 54,
    unsupported_operation: 55,
};

const COMBINERS: Combiners = Combiners {
    named: 101,
    dup: 102,
    contiguous: 103,
    vector: 104,
    hvector: 105,
    indexed: 106,
    hindexed: 107,
    indexed_block: 108,
    hindexed_block: 109,
    struct_: 110,
    subarray: 111,
    darray: 112,
    f90_real: 113,
    f90_complex: 114,
    f90_integer: 115,
    resized: 116,
    value_index: 117,
    hvector_integer: Combiners::ABSENT,
    hindexed_integer: Combiners::ABSENT,
    struct_integer: Combiners::ABSENT,
};

const HANDLES: Handles = Handles {
    comm_null: 0x100,
    comm_world: 0x101,
    comm_self: 0x102,
    group_null: 0x108,
    datatype_null: 0x200,
    request_null: 0x180,
    info_null: 0x130,
    errhandler_null: 0x140,
    errors_are_fatal: 0x141,
    errors_return: 0x143,
    file_null: 0x118,
    byte: 0x247,
    uint64: 0x259,
    sum: 0x21,
    min: 0x22,
    max: 0x23,
    bor: 0x29,
};

const NAMED: &[(&str, usize)] = &[
    ("MPI_AINT", 0x201),
    ("MPI_COUNT", 0x202),
    ("MPI_OFFSET", 0x203),
    ("MPI_PACKED", 0x207),
    ("MPI_SHORT", 0x208),
    ("MPI_INT", 0x209),
    ("MPI_LONG", 0x20a),
    ("MPI_LONG_LONG_INT", 0x20b),
    ("MPI_UNSIGNED_SHORT", 0x20c),
    ("MPI_UNSIGNED", 0x20d),
    ("MPI_UNSIGNED_LONG", 0x20e),
    ("MPI_UNSIGNED_LONG_LONG", 0x20f),
    ("MPI_FLOAT", 0x210),
    ("MPI_C_FLOAT_COMPLEX", 0x212),
    ("MPI_CXX_FLOAT_COMPLEX", 0x213),
    ("MPI_DOUBLE", 0x214),
    ("MPI_C_DOUBLE_COMPLEX", 0x216),
    ("MPI_CXX_DOUBLE_COMPLEX", 0x217),
    ("MPI_LOGICAL", 0x218),
    ("MPI_INTEGER", 0x219),
    ("MPI_REAL", 0x21a),
    ("MPI_COMPLEX", 0x21b),
    ("MPI_DOUBLE_PRECISION", 0x21c),
    ("MPI_DOUBLE_COMPLEX", 0x21d),
    ("MPI_CHARACTER", 0x21e),
    ("MPI_LONG_DOUBLE", 0x220),
    ("MPI_C_LONG_DOUBLE_COMPLEX", 0x224),
    ("MPI_CXX_LONG_DOUBLE_COMPLEX", 0x225),
    ("MPI_FLOAT_INT", 0x228),
    ("MPI_DOUBLE_INT", 0x229),
    ("MPI_LONG_INT", 0x22a),
    ("MPI_2INT", 0x22b),
    ("MPI_SHORT_INT", 0x22c),
    ("MPI_LONG_DOUBLE_INT", 0x22d),
    ("MPI_2REAL", 0x230),
    ("MPI_2DOUBLE_PRECISION", 0x231),
    ("MPI_2INTEGER", 0x232),
    ("MPI_C_BOOL", 0x238),
    ("MPI_CXX_BOOL", 0x239),
    ("MPI_WCHAR", 0x23c),
    ("MPI_INT8_T", 0x240),
    ("MPI_UINT8_T", 0x241),
    ("MPI_CHAR", 0x243),
    ("MPI_SIGNED_CHAR", 0x244),
    ("MPI_UNSIGNED_CHAR", 0x245),
    ("MPI_BYTE", 0x247),
    ("MPI_INT16_T", 0x248),
    ("MPI_UINT16_T", 0x249),
    ("MPI_INT32_T", 0x250),
    ("MPI_UINT32_T", 0x251),
    ("MPI_INT64_T", 0x258),
    ("MPI_UINT64_T", 0x259),
    ("MPI_LOGICAL1", 0x2c0),
    ("MPI_INTEGER1", 0x2c1),
    ("MPI_LOGICAL2", 0x2c8),
    ("MPI_INTEGER2", 0x2c9),
    ("MPI_REAL2", 0x2ca),
    ("MPI_LOGICAL4", 0x2d0),
    ("MPI_INTEGER4", 0x2d1),
    ("MPI_REAL4", 0x2d2),
    ("MPI_COMPLEX4", 0x2d3),
    ("MPI_LOGICAL8", 0x2d8),
    ("MPI_INTEGER8", 0x2d9),
    ("MPI_REAL8", 0x2da),
    ("MPI_COMPLEX8", 0x2db),
    ("MPI_LOGICAL16", 0x2e0),
    ("MPI_INTEGER16", 0x2e1),
    ("MPI_REAL16", 0x2e2),
    ("MPI_COMPLEX16", 0x2e3),
    ("MPI_COMPLEX32", 0x2eb),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The standard's handle constants are a prefix code: datatypes are 0b10_xxxx_xxxx, and fixed-size
    /// types carry log2 of their size in bits 3-5 (0x240-0x27f for C, 0x2c0-0x2ff for Fortran).
    #[test]
    fn datatype_handles_follow_the_prefix_code() {
        for &(name, handle) in NAMED {
            assert_eq!(handle >> 9, 1, "{name} is not in the datatype range");
            assert!(handle < 0x300 && handle != HANDLES.datatype_null, "{name}");
            if !(0x240..0x280).contains(&handle) && handle < 0x2c0 {
                continue;
            }
            let size = 1usize << (handle >> 3 & 7);
            let digits: String = name.chars().filter(char::is_ascii_digit).collect();
            match digits.parse::<usize>() {
                Ok(bits) if name.ends_with("_T") => {
                    // The standard gives 4-byte types 0x250 and 8-byte ones 0x258.
                    let code = handle >> 3 & 7;
                    assert_eq!(code, (bits / 8).trailing_zeros() as usize, "{name}");
                }
                Ok(bytes) => assert_eq!(size, bytes, "{name}"),
                Err(_) => assert_eq!(size, 1, "{name}"),
            }
        }
    }

    #[test]
    fn handle_ranges_do_not_meet() {
        let ops = [HANDLES.sum, HANDLES.min, HANDLES.max, HANDLES.bor];
        assert!(ops.iter().all(|op| (0x20..0x40).contains(op)));
        let others = HANDLES.named();
        for (name, value) in &others {
            assert!(*value < 0x1000, "{name}");
            let twins: Vec<_> = others.iter().filter(|o| o.1 == *value).collect();
            assert_eq!(twins.len(), 1, "{name} shares its value: {twins:?}");
        }
    }

    #[test]
    fn published_values() {
        assert_eq!(NUMBERS.displacement_current, -1);
        assert_eq!((NUMBERS.seek_cur, NUMBERS.seek_end, NUMBERS.seek_set), (401, 402, 403));
        assert_eq!(ERRORS.unsupported_operation, 55);
        assert_eq!(COMBINERS.value_index, 117);
        assert_eq!(HANDLES.file_null, 0x118);
    }
}
