//! The closed list of what can go wrong, in the words of the MPI standard's error classes.
//!
//! Every room has its own error enum with the details; each maps to one of these kinds, and the edge of
//! the system maps kinds to foreign codes (MPI error classes, exit codes) by one exhaustive match.

/// The kinds of errors, on which a caller can act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A handle that is not an open file.
    File,
    /// Arguments that must be equal on all ranks are not.
    NotSame,
    /// An access mode that the standard forbids.
    Amode,
    /// A data representation that is not known here.
    UnsupportedDatarep,
    /// The operation cannot be done on this file (such as seeking a sequential one).
    UnsupportedOperation,
    /// No file of that name.
    NoSuchFile,
    /// The file exists and was to be created exclusively.
    FileExists,
    /// A name that cannot be a file's (too long, empty, a directory).
    BadFile,
    /// Permission denied, or reading a file opened for writing only.
    Access,
    /// The storage is full.
    NoSpace,
    /// The user's quota is used up.
    Quota,
    /// The file or file system may only be read.
    ReadOnly,
    /// Somebody else uses the file in a way that excludes this.
    FileInUse,
    /// A data representation of that name is registered already.
    DupDatarep,
    /// A user's conversion function failed, or a value does not fit its representation.
    Conversion,
    /// Any other failure of the storage.
    Io,
    /// A null or invalid buffer.
    Buffer,
    /// A negative or too large count.
    Count,
    /// An invalid datatype, or one that may not be used in this place.
    Type,
    /// An invalid communicator.
    Comm,
    /// An invalid error handler or other argument.
    Arg,
    /// An invalid info object.
    Info,
    /// Memory ran out.
    NoMem,
    /// A bug in Pario or in the host MPI.
    Intern,
    /// This rank's part was fine; another rank of the same collective call failed.
    OtherRank,
    /// A directory that is to go still has entries.
    NotEmpty,
    /// A server was not to be reached, or did not answer, before the deadline.
    Unreachable,
    /// The stored bytes differ from those that were written: the checksum differs.
    Damaged,
    /// The other side does not speak the protocol, or speaks another version or for another partition.
    Protocol,
}

/// Whether trying the same thing again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same request will fail again.
    Never,
    /// The request may succeed once space or a lock is released.
    Later,
}

impl ErrorKind {
    /// Whether trying again can help.
    pub fn retry(self) -> Retry {
        match self {
            ErrorKind::NoSpace
            | ErrorKind::Quota
            | ErrorKind::FileInUse
            | ErrorKind::NoMem
            | ErrorKind::Unreachable => Retry::Later,
            _ => Retry::Never,
        }
    }

    /// Every kind, in the order of its [`code`](ErrorKind::code).
    pub const ALL: [ErrorKind; 29] = [
        ErrorKind::File,
        ErrorKind::NotSame,
        ErrorKind::Amode,
        ErrorKind::UnsupportedDatarep,
        ErrorKind::UnsupportedOperation,
        ErrorKind::NoSuchFile,
        ErrorKind::FileExists,
        ErrorKind::BadFile,
        ErrorKind::Access,
        ErrorKind::NoSpace,
        ErrorKind::Quota,
        ErrorKind::ReadOnly,
        ErrorKind::FileInUse,
        ErrorKind::DupDatarep,
        ErrorKind::Conversion,
        ErrorKind::Io,
        ErrorKind::Buffer,
        ErrorKind::Count,
        ErrorKind::Type,
        ErrorKind::Comm,
        ErrorKind::Arg,
        ErrorKind::Info,
        ErrorKind::NoMem,
        ErrorKind::Intern,
        ErrorKind::OtherRank,
        ErrorKind::NotEmpty,
        ErrorKind::Unreachable,
        ErrorKind::Damaged,
        ErrorKind::Protocol,
    ];

    /// A number from 1 up by which ranks tell each other the kind; 0 is free to mean success.
    pub fn code(self) -> u64 {
        self as u64 + 1
    }

    /// The kind of a [`code`](ErrorKind::code); `None` for 0 and for numbers that are none.
    pub fn from_code(code: u64) -> Option<ErrorKind> {
        let index = usize::try_from(code.checked_sub(1)?).ok()?;
        ErrorKind::ALL.get(index).copied()
    }

    /// The kind of an operating-system error number.
    pub fn from_errno(errno: i32) -> ErrorKind {
        // Numbers, not names: this crate depends on nothing, and Linux has fixed them on every
        // architecture for the codes below.
        match errno {
            2 => ErrorKind::NoSuchFile,                 // ENOENT
            1 | 13 => ErrorKind::Access,                // EPERM, EACCES
            17 => ErrorKind::FileExists,                // EEXIST
            20 | 21 | 36 | 40 => ErrorKind::BadFile,    // ENOTDIR, EISDIR, ENAMETOOLONG, ELOOP
            28 => ErrorKind::NoSpace,                   // ENOSPC
            122 => ErrorKind::Quota,                    // EDQUOT
            30 => ErrorKind::ReadOnly,                  // EROFS
            16 | 26 => ErrorKind::FileInUse,            // EBUSY, ETXTBSY
            12 => ErrorKind::NoMem,                     // ENOMEM
            39 => ErrorKind::NotEmpty,                  // ENOTEMPTY
            110 | 111 | 113 => ErrorKind::Unreachable,  // ETIMEDOUT, ECONNREFUSED, EHOSTUNREACH
            95 | 29 => ErrorKind::UnsupportedOperation, // EOPNOTSUPP, ESPIPE
            _ => ErrorKind::Io,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_name_each_kind_once() {
        for (index, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.code(), index as u64 + 1);
            assert_eq!(ErrorKind::from_code(kind.code()), Some(kind));
        }
        assert_eq!(ErrorKind::from_code(0), None);
        assert_eq!(ErrorKind::from_code(ErrorKind::ALL.len() as u64 + 1), None);
    }

    #[test]
    fn errnos_have_the_kind_the_standard_names() {
        assert_eq!(ErrorKind::from_errno(2), ErrorKind::NoSuchFile);
        assert_eq!(ErrorKind::from_errno(28), ErrorKind::NoSpace);
        assert_eq!(ErrorKind::from_errno(5), ErrorKind::Io);
        assert_eq!(ErrorKind::NoSpace.retry(), Retry::Later);
        assert_eq!(ErrorKind::Io.retry(), Retry::Never);
    }
}
