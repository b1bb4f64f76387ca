//! The file of a partition's secret, which is this user's alone.

use pario_runtime::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use pario_types::{PartitionId, Secret};

use crate::error::{Error, UnsafePath};
use crate::private_path;
use crate::random_bytes;

/// Creates a new secret in a file that must not exist, and syncs it.
pub(crate) fn create_secret(path: &Path) -> Result<Secret, Error> {
    let secret = Secret::new(random_bytes()?);
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = written.and_then(|mut file| file.write_all(secret.bytes()).and_then(|()| file.sync_all()));
    let directory = path.parent().unwrap_or(Path::new("."));
    let written = written.and_then(|()| File::open(directory)?.sync_all());
    written.map_err(Error::io("write the secret", path))?;
    Ok(secret)
}

/// Reads the secret in that file, which only this user may be able to read.
pub(crate) fn read_secret(path: &Path, id: PartitionId) -> Result<Secret, Error> {
    let mut file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::NoSecret(id, path.to_owned()),
        _ => Error::io("read the secret", path)(error),
    })?;
    let metadata = file.metadata().map_err(Error::io("look at", path))?;
    if !metadata.is_file() {
        return Err(Error::Unsafe { path: path.to_owned(), reason: UnsafePath::NotAFile });
    }
    private_path::private(path, &metadata)?;
    let mut bytes = [0; 32];
    match (metadata.len(), file.read_exact(&mut bytes)) {
        (32, Ok(())) => Ok(Secret::new(bytes)),
        (_, Err(error)) if error.kind() != io::ErrorKind::UnexpectedEof => {
            Err(Error::io("read the secret", path)(error))
        }
        (length, _) => {
            let why = format!("a secret has 32 bytes, this {length}");
            Err(Error::Garbled { path: path.to_owned(), why })
        }
    }
}
