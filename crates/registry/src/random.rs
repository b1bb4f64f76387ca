//! Random bytes that nobody can guess, from the kernel.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::Error;

const SOURCE: &str = "/dev/urandom";

/// So many random bytes.
pub fn bytes<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    let read = File::open(Path::new(SOURCE)).and_then(|mut source| source.read_exact(&mut bytes));
    read.map_err(Error::io("read random bytes from", SOURCE))?;
    Ok(bytes)
}
