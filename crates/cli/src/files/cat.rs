//! `pario cat`: files of partitions to the standard output.

use super::error::Error;
use crate::env::Environment;
use clap::Args;
use pario_client::{OpenOptions, Partition};
use pario_copy::PartitionPath;
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// Write files of a partition to the standard output.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    /// Files, as NAME:/path or pario:NAME/path
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

const NOTES: &str = "\
Example:
  pario cat scratch:/log.txt | tail

Exit code: 0 all written, 1 something could not be, 2 wrong arguments.";

/// Bytes that are read at a time.
const CHUNK: usize = 4 << 20;

/// Whether whoever reads the output wants more.
enum Reader {
    Listens,
    HasGone,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let mut connections = env.data_connections();
    let paths = PartitionPath::parse_all(&arguments.paths, connections.default_partition())?;
    let mut code = ExitCode::SUCCESS;
    for path in paths {
        let partition = connections.partition(&path.partition)?;
        match write(&partition, &path) {
            Ok(Reader::Listens) => {}
            Ok(Reader::HasGone) => break,
            Err(error @ Error::Output(_)) => return Err(error),
            Err(error) => {
                eprintln!("pario: {error}");
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

fn write(partition: &Partition, path: &PartitionPath) -> Result<Reader, Error> {
    let file = partition.open(&path.path, OpenOptions::new().read(true));
    let file = file.map_err(Error::in_partition("cannot open", path))?;
    let mut bytes = vec![0; CHUNK];
    let mut output = std::io::stdout().lock();
    let mut at = 0;
    loop {
        let read = file.read_at(&mut bytes, at).map_err(Error::in_partition("cannot read", path))?;
        if read == 0 {
            return Ok(Reader::Listens);
        }
        match output.write_all(&bytes[..read]).and_then(|()| output.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Reader::HasGone),
            written => written.map_err(Error::Output)?,
        }
        at += read as u64;
    }
}
