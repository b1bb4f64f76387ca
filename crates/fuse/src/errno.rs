//! Errors of partitions as error numbers of the kernel.

use fuser::Errno;
use pario_client::{Error, ErrorKind};

/// The number of an error: the server's own where it gave one, else that of its kind. The log of the mount has no line for
/// it: the caller gets the error, and the servers' logs say more.
pub(crate) fn errno(error: &Error) -> Errno {
    match error {
        Error::Server { failure, .. } if failure.errno > 0 => Errno::from_i32(failure.errno),
        Error::TooFar { .. } => Errno::EFBIG,
        Error::NotOpenFor(_) => Errno::EBADF,
        _ => of_kind(error.kind()),
    }
}

fn of_kind(kind: ErrorKind) -> Errno {
    match kind {
        ErrorKind::NoSuchFile => Errno::ENOENT,
        ErrorKind::FileExists => Errno::EEXIST,
        ErrorKind::NotEmpty => Errno::ENOTEMPTY,
        ErrorKind::Access => Errno::EACCES,
        ErrorKind::NoSpace => Errno::ENOSPC,
        ErrorKind::Quota => Errno::from_i32(libc::EDQUOT),
        ErrorKind::ReadOnly => Errno::EROFS,
        ErrorKind::FileInUse => Errno::EBUSY,
        ErrorKind::NoMem => Errno::ENOMEM,
        ErrorKind::File => Errno::EBADF,
        ErrorKind::UnsupportedOperation => Errno::EOPNOTSUPP,
        ErrorKind::Amode
        | ErrorKind::BadFile
        | ErrorKind::Arg
        | ErrorKind::Buffer
        | ErrorKind::Count
        | ErrorKind::Type
        | ErrorKind::Comm
        | ErrorKind::Info => Errno::EINVAL,
        // For programs, a server that does not answer is a disk that does not answer.
        ErrorKind::Io
        | ErrorKind::Unreachable
        | ErrorKind::Damaged
        | ErrorKind::Protocol
        | ErrorKind::Conversion
        | ErrorKind::NotSame
        | ErrorKind::UnsupportedDatarep
        | ErrorKind::DupDatarep
        | ErrorKind::Intern
        | ErrorKind::OtherRank => Errno::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_a_number_has_gives_that_number() {
        for number in [libc::ENOENT, libc::EEXIST, libc::EACCES, libc::ENOSPC, libc::EDQUOT, libc::EROFS] {
            assert_eq!(of_kind(ErrorKind::from_errno(number)).code(), number);
        }
        assert_eq!(errno(&Error::TooFar { offset: 1, len: 1 }).code(), libc::EFBIG);
        assert_eq!(errno(&Error::Options("none")).code(), libc::EINVAL);
        assert_eq!(of_kind(ErrorKind::Unreachable).code(), libc::EIO);
    }
}
