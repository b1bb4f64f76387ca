//! An MPI datatype as the host describes it: a tree of constructors over basic types.
//!
//! This module computes nothing; a decoder of `MPI_Type_get_contents` can fill in the tree directly.

use std::sync::Arc;

/// One datatype. Every node has the lower bound and extent that the host reports for it in the native representation, so
/// padding and bound markers need not be guessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datatype {
    /// Lower bound in bytes.
    pub lb: i64,
    /// Extent in bytes.
    pub extent: i64,
    /// The constructor of the type.
    pub shape: Shape,
}

/// The constructors of datatypes. Counts and block lengths are in elements of the child.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are the arguments of the MPI constructors, under the standard's names
pub enum Shape {
    /// A named or Fortran-parametrised type.
    Basic(Basic),
    /// A value and an index (`MPI_DOUBLE_INT`, ...); the last field is the second's native displacement.
    Pair(Basic, Basic, i64),
    /// `MPI_Type_dup`.
    Dup(Arc<Datatype>),
    /// `MPI_Type_contiguous`.
    Contiguous { count: u64, child: Arc<Datatype> },
    /// `MPI_Type_vector`; the stride counts child extents.
    Vector { count: u64, blocklen: u64, stride: i64, child: Arc<Datatype> },
    /// `MPI_Type_create_hvector`; the stride counts bytes.
    Hvector { count: u64, blocklen: u64, stride: i64, child: Arc<Datatype> },
    /// `MPI_Type_indexed`; (length, displacement in child extents).
    Indexed { blocks: Vec<(u64, i64)>, child: Arc<Datatype> },
    /// `MPI_Type_create_hindexed`; (length, displacement in bytes).
    Hindexed { blocks: Vec<(u64, i64)>, child: Arc<Datatype> },
    /// `MPI_Type_create_indexed_block`; displacements in child extents.
    IndexedBlock { blocklen: u64, disps: Vec<i64>, child: Arc<Datatype> },
    /// `MPI_Type_create_hindexed_block`; displacements in bytes.
    HindexedBlock { blocklen: u64, disps: Vec<i64>, child: Arc<Datatype> },
    /// `MPI_Type_create_struct`; (length, displacement in bytes, type).
    Struct { fields: Vec<(u64, i64, Arc<Datatype>)> },
    /// `MPI_Type_create_subarray`.
    Subarray { sizes: Vec<u64>, subsizes: Vec<u64>, starts: Vec<u64>, order: Order, child: Arc<Datatype> },
    /// `MPI_Type_create_darray`.
    Darray {
        size: u64,
        rank: u64,
        gsizes: Vec<u64>,
        distribs: Vec<Distrib>,
        dargs: Vec<DistArg>,
        psizes: Vec<u64>,
        order: Order,
        child: Arc<Datatype>,
    },
    /// `MPI_Type_create_resized`.
    Resized { lb: i64, extent: i64, child: Arc<Datatype> },
}

/// A basic type: its interpretation and its sizes, natively and in external32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Basic {
    /// The interpretation of the bits.
    pub kind: Kind,
    /// Bytes in this machine's memory.
    pub native: u32,
    /// Bytes in the external32 representation.
    pub external: u32,
}

impl Basic {
    /// One uninterpreted byte.
    pub const BYTE: Basic = Basic { kind: Kind::Bytes, native: 1, external: 1 };
}

impl Default for Basic {
    fn default() -> Basic {
        Basic::BYTE
    }
}

/// The interpretation of the bits of a basic type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Uninterpreted.
    Bytes,
    /// Two's complement.
    Signed,
    /// Unsigned binary.
    Unsigned,
    /// IEEE floating point (natively the x87 format where 16 bytes).
    Float,
    /// Two floats of half the size each.
    Complex,
    /// A truth value.
    Logical,
    /// A character; plain if one byte.
    Character,
}

/// Storage order of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Last dimension varies fastest.
    C,
    /// First dimension varies fastest.
    Fortran,
}

/// The distribution of one dimension of a distributed array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distrib {
    /// `MPI_DISTRIBUTE_BLOCK`.
    Block,
    /// `MPI_DISTRIBUTE_CYCLIC`.
    Cyclic,
    /// `MPI_DISTRIBUTE_NONE`.
    None,
}

/// The argument of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistArg {
    /// `MPI_DISTRIBUTE_DFLT_DARG`.
    Default,
    /// A block size.
    Given(u64),
}

impl Datatype {
    /// A basic type with its natural bounds.
    pub fn basic(basic: Basic) -> Datatype {
        Datatype { lb: 0, extent: i64::from(basic.native), shape: Shape::Basic(basic) }
    }

    /// `MPI_BYTE`.
    pub fn byte() -> Datatype {
        Datatype::basic(Basic::BYTE)
    }
}
