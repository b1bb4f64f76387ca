//! `pario list`: the partitions in the registry, and what servers that are gone have left unsaved.

use super::error::Error;
use super::{print, registry};
use crate::env::Environment;
use clap::Args;
use pario_launch::PartitionSurvey;
use pario_reports::{partition_list_json, partition_list_text};
use std::process::ExitCode;

/// List the partitions that the registry knows.
///
/// A partition is up if the registry says so and its servers can be connected to. Data that only the pool of a dead server
/// has is listed as well, also of partitions that the registry does not know (on this host).
#[derive(Args)]
pub struct Arguments {
    /// List in JSON, with everything the registry knows
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let survey = PartitionSurvey::take(&registry(env)?, &env.launch())?;
    print(&match arguments.json {
        true => format!("{:#}\n", partition_list_json(&survey)),
        false => partition_list_text(&survey),
    })?;
    Ok(ExitCode::SUCCESS)
}
