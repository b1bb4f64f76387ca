//! Named datatypes: the meaning of each and its size in external32.
//!
//! A handle is recognised by the ABI's own table, else by the name that the host gives it. Sizes in memory come from
//! the host. Sizes in external32 come from the standard's table in the I/O chapter.

use crate::abi::Constants;
use crate::error::HostError;
use crate::handles::{Host, TypeHandle, until_nul};
use pario_view::{Basic, Datatype, Kind, Shape};
use std::collections::HashMap;
use std::ffi::c_char;

/// The meaning of a named type, without its native sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// One value: kind and external32 size.
    One(Kind, u32),
    /// A value and an index, as the C struct of the two.
    Pair((Kind, u32), (Kind, u32)),
    /// The same twice.
    Twice(Kind, u32),
}

/// The handles of the host's named types.
pub(crate) struct NamedTypes(HashMap<usize, Meaning>);

impl NamedTypes {
    pub(crate) fn new(constants: &Constants) -> NamedTypes {
        let known = constants.named.iter().filter_map(|&(name, handle)| Some((handle, meaning(name)?)));
        NamedTypes(known.collect())
    }

    pub(crate) fn get(&self, datatype: TypeHandle) -> Option<Meaning> {
        self.0.get(&datatype.0).copied()
    }
}

/// The meaning of a type by its MPI name.
pub(crate) fn meaning(name: &str) -> Option<Meaning> {
    use Kind::*;
    use Meaning::*;
    let one = match name.strip_prefix("MPI_").or(name.strip_prefix("MPIX_"))? {
        "PACKED" | "BYTE" => (Bytes, 1),
        // Markers of MPI-1: they have bounds and no data.
        "LB" | "UB" => (Bytes, 0),
        "CHAR" | "CHARACTER" => (Character, 1),
        "WCHAR" => (Character, 2),
        "SIGNED_CHAR" | "INT8_T" | "INTEGER1" => (Signed, 1),
        "SHORT" | "INT16_T" | "INTEGER2" => (Signed, 2),
        "INT" | "LONG" | "INT32_T" | "INTEGER" | "INTEGER4" => (Signed, 4),
        "LONG_LONG_INT" | "LONG_LONG" | "INT64_T" | "INTEGER8" | "AINT" | "OFFSET" | "COUNT" => (Signed, 8),
        "INTEGER16" => (Signed, 16),
        "UNSIGNED_CHAR" | "UINT8_T" => (Unsigned, 1),
        "UNSIGNED_SHORT" | "UINT16_T" => (Unsigned, 2),
        "UNSIGNED" | "UNSIGNED_INT" | "UNSIGNED_LONG" | "UINT32_T" => (Unsigned, 4),
        "UNSIGNED_LONG_LONG" | "UINT64_T" => (Unsigned, 8),
        "C_BOOL" | "CXX_BOOL" | "LOGICAL1" => (Logical, 1),
        "LOGICAL2" => (Logical, 2),
        "LOGICAL" | "LOGICAL4" => (Logical, 4),
        "LOGICAL8" => (Logical, 8),
        "LOGICAL16" => (Logical, 16),
        "REAL2" | "C_FLOAT16" => (Float, 2),
        "FLOAT" | "REAL" | "REAL4" => (Float, 4),
        "DOUBLE" | "DOUBLE_PRECISION" | "REAL8" => (Float, 8),
        "LONG_DOUBLE" | "REAL16" => (Float, 16),
        "COMPLEX4" => (Complex, 4),
        "C_COMPLEX" | "C_FLOAT_COMPLEX" | "CXX_FLOAT_COMPLEX" | "COMPLEX" | "COMPLEX8" => (Complex, 8),
        "C_DOUBLE_COMPLEX" | "CXX_DOUBLE_COMPLEX" | "DOUBLE_COMPLEX" | "COMPLEX16" => (Complex, 16),
        "C_LONG_DOUBLE_COMPLEX" | "CXX_LONG_DOUBLE_COMPLEX" | "COMPLEX32" => (Complex, 32),
        "FLOAT_INT" => return Some(Pair((Float, 4), (Signed, 4))),
        "DOUBLE_INT" => return Some(Pair((Float, 8), (Signed, 4))),
        "LONG_DOUBLE_INT" => return Some(Pair((Float, 16), (Signed, 4))),
        "LONG_INT" => return Some(Pair((Signed, 4), (Signed, 4))),
        "SHORT_INT" => return Some(Pair((Signed, 2), (Signed, 4))),
        "2INT" | "2INTEGER" => return Some(Twice(Signed, 4)),
        "2REAL" => return Some(Twice(Float, 4)),
        "2DOUBLE_PRECISION" => return Some(Twice(Float, 8)),
        "2COMPLEX" => return Some(Twice(Complex, 8)),
        "2DOUBLE_COMPLEX" => return Some(Twice(Complex, 16)),
        _ => return None,
    };
    Some(One(one.0, one.1))
}

/// external32 size of `MPI_Type_create_f90_real(p, r)`; `None` where the standard leaves it undefined.
pub(crate) fn f90_real(p: i64, r: i64) -> Option<u32> {
    match (p, r) {
        (34.., _) | (_, 4932..) => None,
        (16.., _) | (_, 308..) => Some(16),
        (7.., _) | (_, 38..) => Some(8),
        _ => Some(4),
    }
}

/// external32 size of `MPI_Type_create_f90_integer(r)`.
pub(crate) fn f90_integer(r: i64) -> Option<u32> {
    match r {
        39.. => None,
        19.. => Some(16),
        10.. => Some(8),
        5.. => Some(4),
        3.. => Some(2),
        _ => Some(1),
    }
}

impl Host {
    /// The tree of a named type.
    pub(crate) fn named_type(&self, datatype: TypeHandle) -> Result<Datatype, HostError> {
        let (lb, extent) = self.extents(datatype)?;
        let size = self.type_size(datatype)?;
        let native = u32::try_from(size).map_err(|_| HostError::Contents("a named type beyond 4 GiB"))?;
        let meaning = match self.named.get(datatype) {
            Some(meaning) => meaning,
            // An unknown type: its bytes can be moved and not converted.
            None => meaning(&self.type_name(datatype)?).unwrap_or(Meaning::One(Kind::Bytes, native)),
        };
        let shape = match meaning {
            Meaning::One(kind, external) => Shape::Basic(Basic { kind, native, external }),
            Meaning::Twice(kind, external) => {
                let half = Basic { kind, native: native / 2, external };
                Shape::Pair(half, half, i64::from(native / 2))
            }
            Meaning::Pair(value, index) => {
                // The second member is a C int; it ends where the data ends.
                let second = Basic { kind: index.0, native: 4, external: index.1 };
                let first = Basic { kind: value.0, native: native.saturating_sub(4), external: value.1 };
                let (true_lb, true_extent) = self.true_extents(datatype)?;
                Shape::Pair(first, second, true_lb + true_extent - 4)
            }
        };
        Ok(Datatype { lb, extent, shape })
    }

    fn type_name(&self, datatype: TypeHandle) -> Result<String, HostError> {
        let mut name = vec![0u8; self.constants.number.max_object_name as usize + 1];
        let mut len = 0;
        // SAFETY: the buffer has the length that the ABI prescribes.
        let code =
            unsafe { (self.f.type_get_name)(datatype.0, name.as_mut_ptr().cast::<c_char>(), &mut len) };
        self.check("MPI_Type_get_name", code)?;
        Ok(until_nul(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::AbiFamily;

    #[test]
    fn every_named_type_of_every_table_has_a_meaning() {
        for family in [AbiFamily::Mpich, AbiFamily::OpenMpi, AbiFamily::Standard] {
            for (name, _) in &Constants::of(family).named {
                assert!(meaning(name).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn external32_sizes_of_the_standard() {
        assert_eq!(meaning("MPI_LONG"), Some(Meaning::One(Kind::Signed, 4)));
        assert_eq!(meaning("MPI_UNSIGNED_LONG"), Some(Meaning::One(Kind::Unsigned, 4)));
        assert_eq!(meaning("MPI_WCHAR"), Some(Meaning::One(Kind::Character, 2)));
        assert_eq!(meaning("MPI_LONG_DOUBLE"), Some(Meaning::One(Kind::Float, 16)));
        assert_eq!(meaning("MPI_COUNT"), Some(Meaning::One(Kind::Signed, 8)));
        assert_eq!(meaning("MPI_C_LONG_DOUBLE_COMPLEX"), Some(Meaning::One(Kind::Complex, 32)));
        assert_eq!(meaning("my own name"), None);
    }

    #[test]
    fn f90_types_have_the_sizes_of_the_standard() {
        let undefined = -32766;
        assert_eq!(f90_real(6, 37), Some(4));
        assert_eq!(f90_real(15, undefined), Some(8));
        assert_eq!(f90_real(undefined, 308), Some(16));
        assert_eq!(f90_real(34, 1), None);
        assert_eq!(
            [2, 4, 9, 18, 38, 39].map(f90_integer),
            [Some(1), Some(2), Some(4), Some(8), Some(16), None]
        );
    }
}
