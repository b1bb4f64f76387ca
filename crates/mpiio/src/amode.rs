//! Access modes: what the program may do with an open file.

use pario_types::ErrorKind;

use crate::error::{Error, Result};

/// The mode bits of an open call, one flag each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AmodeBits {
    /// MPI_MODE_RDONLY
    pub rdonly: bool,
    /// MPI_MODE_WRONLY
    pub wronly: bool,
    /// MPI_MODE_RDWR
    pub rdwr: bool,
    /// MPI_MODE_CREATE
    pub create: bool,
    /// MPI_MODE_EXCL
    pub excl: bool,
    /// MPI_MODE_DELETE_ON_CLOSE
    pub delete_on_close: bool,
    /// MPI_MODE_UNIQUE_OPEN
    pub unique_open: bool,
    /// MPI_MODE_SEQUENTIAL
    pub sequential: bool,
    /// MPI_MODE_APPEND
    pub append: bool,
    /// A bit that is not in the standard.
    pub unknown: bool,
}

/// A checked access mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amode {
    /// Reading is allowed.
    pub read: bool,
    /// Writing is allowed.
    pub write: bool,
    /// Create the file if it is missing.
    pub create: bool,
    /// Fail if it exists.
    pub exclusive: bool,
    /// Delete it at close.
    pub delete_on_close: bool,
    /// No other program opens the file at the same time.
    pub unique_open: bool,
    /// Only the shared pointer is used.
    pub sequential: bool,
    /// All pointers start at the end of the file.
    pub append: bool,
}

impl AmodeBits {
    /// Checks the combination by the rules of the standard (MPI-4.1, 14.2.1).
    pub fn check(self) -> Result<Amode> {
        let bad = |text| Err(Error::Usage(ErrorKind::Amode, text));
        if self.unknown {
            return bad("the access mode has bits that no MPI_MODE_ constant has");
        }
        let access = u8::from(self.rdonly) + u8::from(self.wronly) + u8::from(self.rdwr);
        if access != 1 {
            return bad(
                "the access mode needs exactly one of MPI_MODE_RDONLY, MPI_MODE_WRONLY, MPI_MODE_RDWR",
            );
        }
        if self.rdonly && (self.create || self.excl) {
            return bad("MPI_MODE_RDONLY cannot go with MPI_MODE_CREATE or MPI_MODE_EXCL");
        }
        if self.rdwr && self.sequential {
            return bad("MPI_MODE_RDWR cannot go with MPI_MODE_SEQUENTIAL");
        }
        Ok(Amode {
            read: self.rdonly || self.rdwr,
            write: self.wronly || self.rdwr,
            create: self.create,
            exclusive: self.excl,
            delete_on_close: self.delete_on_close,
            unique_open: self.unique_open,
            sequential: self.sequential,
            append: self.append,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_combinations_of_the_standard_are_valid() {
        for bits in 0u32..1 << 10 {
            let bit = |n: u32| bits >> n & 1 == 1;
            let given = AmodeBits {
                rdonly: bit(0),
                wronly: bit(1),
                rdwr: bit(2),
                create: bit(3),
                excl: bit(4),
                delete_on_close: bit(5),
                unique_open: bit(6),
                sequential: bit(7),
                append: bit(8),
                unknown: bit(9),
            };
            let one = [bit(0), bit(1), bit(2)].into_iter().filter(|b| *b).count() == 1;
            let good = one && !bit(9) && !(bit(0) && (bit(3) || bit(4))) && !(bit(2) && bit(7));
            let checked = given.check();
            assert_eq!(checked.is_ok(), good, "{given:?}");
            if let Err(e) = checked {
                assert_eq!(e.kind(), ErrorKind::Amode);
            }
        }
    }
}
