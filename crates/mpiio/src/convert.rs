//! Accesses that convert values to and from external32.
//!
//! Values pass through a bounded buffer in chunks. Each chunk is locked separately, so in atomic mode the whole access
//! is one chunk.

use pario_buffer::convert::{TypedStream, decode, encode};
use pario_buffer::{UserBuffer, lend};
use pario_types::AccessTuning;
use pario_types::{ErrorKind, Pos};
use pario_view::View;

use crate::error::{Error, Result};
use pario_file_backend::FileBackend;

/// The number of file bytes converted at a time.
const CHUNK: u64 = 1 << 20;

/// Zeroed memory of `len` bytes.
pub(crate) fn scratch(len: u64) -> Result<Vec<u8>> {
    let none = || Error::Usage(ErrorKind::NoMem, "no memory is left to convert the access");
    let len = usize::try_from(len).map_err(|_| none())?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| none())?;
    bytes.resize(len, 0);
    Ok(bytes)
}

fn chunk(len: u64, tuning: &AccessTuning) -> Result<Vec<u8>> {
    scratch(if tuning.atomic { len } else { len.min(CHUNK) })
}

/// Writes a typed buffer as external32. Returns the number of bytes of the buffer.
pub(crate) fn write_external(
    storage: &dyn FileBackend,
    view: &View,
    at: Pos,
    len: u64,
    buffer: &UserBuffer,
    tuning: &AccessTuning,
) -> Result<u64> {
    let mut chunk = chunk(len, tuning)?;
    let mut values = TypedStream::new(buffer);
    let mut done = 0;
    while done < len {
        let room = chunk.len().min((len - done) as usize);
        let filled = encode(&mut values, &mut chunk[..room])?;
        if filled == 0 {
            return Err(Error::Usage(ErrorKind::Intern, "a datatype has fewer values than its size says"));
        }
        lend(&mut chunk[..filled], |memory| {
            storage.write(view, Pos(at.0 + done), memory, 0, filled as u64, tuning)
        })?;
        done += filled as u64;
    }
    Ok(buffer.len())
}

/// Reads external32 into a typed buffer. Returns the number of bytes of the buffer that were filled.
pub(crate) fn read_external(
    storage: &dyn FileBackend,
    view: &View,
    at: Pos,
    len: u64,
    buffer: &UserBuffer,
    tuning: &AccessTuning,
) -> Result<u64> {
    let mut chunk = chunk(len, tuning)?;
    let mut values = TypedStream::new(buffer);
    let mut done = 0;
    while done < len {
        let room = chunk.len().min((len - done) as usize);
        let got = lend(&mut chunk[..room], |memory| {
            storage.read(view, Pos(at.0 + done), memory, 0, room as u64, tuning)
        })?;
        // The next chunk reads a value again that the end of this chunk cuts.
        let used = decode(&mut values, &chunk[..got as usize])?;
        done += used as u64;
        if used == 0 || got < room as u64 {
            break; // the end of the file
        }
    }
    Ok(buffer.len() - values.remaining())
}
