//! `pario cat`: files of partitions to the standard output.

use super::address::Spot;
use super::error::Error;
use super::session::Session;
use crate::env::Environment;
use clap::Args;
use pario_client::{OpenOptions, Partition};
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
    let mut session = Session::of_files(env);
    let spots = Spot::parse_all(&arguments.paths, session.usual())?;
    let mut code = ExitCode::SUCCESS;
    for spot in spots {
        let partition = session.partition(&spot.partition)?;
        match write(&partition, &spot) {
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

fn write(partition: &Partition, spot: &Spot) -> Result<Reader, Error> {
    let file = partition.open(&spot.path, OpenOptions::new().read(true));
    let file = file.map_err(Error::there("cannot open", spot))?;
    let mut bytes = vec![0; CHUNK];
    let mut output = std::io::stdout().lock();
    let mut at = 0;
    loop {
        let read = file.read_at(&mut bytes, at).map_err(Error::there("cannot read", spot))?;
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
