//! `pario stat`: everything about a file or directory, and where a file's stripes are.

use super::error::Error;
use super::print;
use crate::env::Environment;
use clap::Args;
use pario_copy::PartitionPath;
use pario_reports::{file_description, file_description_json};
use serde_json::Value;
use std::ffi::OsString;
use std::process::ExitCode;

/// Show all there is to know of files and directories, and where stripes are.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    /// In JSON
    #[arg(long)]
    json: bool,
    /// Files and directories, as NAME:/path or pario:NAME/path
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

const NOTES: &str = "\
The stripes of a file go round its servers. For each of them is shown at which
offset of the file its first stripe begins, after how many bytes the next one
does, and how many bytes of the file it holds. Of a file that a plan places is
shown how many of its bytes are on one server, on several, and in stripes, and how
many each server holds.

Example:
  pario stat scratch:/out/result.h5

Exit code: 0 all shown, 1 something could not be, 2 wrong arguments.";

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let mut connections = env.metadata_connections();
    let paths = PartitionPath::parse_all(&arguments.paths, connections.default_partition())?;
    let (mut words, mut objects) = (Vec::new(), Vec::new());
    let mut failed = false;
    for path in paths {
        let partition = connections.partition(&path.partition)?;
        let entry = connections.entry(&path.partition)?;
        let found = partition.metadata(&path.path);
        let found = found.and_then(|metadata| Ok((metadata, partition.layout(&metadata)?)));
        match found.map_err(Error::in_partition("cannot look at", &path)) {
            Ok((metadata, layout)) => {
                words.push(file_description(&path, &metadata, layout.as_ref(), &entry));
                objects.push(file_description_json(&path, &metadata, layout.as_ref(), &entry));
            }
            Err(error) => {
                eprintln!("pario: {error}");
                failed = true;
            }
        }
    }
    match arguments.json {
        true => print(&format!("{:#}\n", Value::from(objects)))?,
        false => print(&words.join("\n"))?,
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
