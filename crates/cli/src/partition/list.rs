//! `pario list`: the partitions in the registry.

use super::error::Error;
use super::{print, registry};
use crate::env::Environment;
use clap::Args;
use pario_registry::{Entry, spell_size};
use serde_json::{Value, json};
use std::process::ExitCode;

/// List the partitions that the registry knows.
///
/// What is said of servers is what the registry says, without asking them.
#[derive(Args)]
pub struct Arguments {
    /// List in JSON, with everything the registry knows
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let entries = registry(env)?.list()?;
    let text = match arguments.json {
        true => format!("{:#}\n", entries.iter().map(in_json).collect::<Value>()),
        false if entries.is_empty() => "no partitions ('pario up FILE' creates one)\n".to_owned(),
        false => table(&entries),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn state(entry: &Entry) -> &'static str {
    match entry.running.len() {
        0 => "down",
        _ if entry.is_up() => "up",
        _ => "partly up",
    }
}

fn in_json(entry: &Entry) -> Value {
    let mut value = json!(entry);
    value["state"] = json!(state(entry));
    value
}

fn table(entries: &[Entry]) -> String {
    let head = ["NAME", "STATE", "SERVERS", "STRIPE", "CACHE", "METADATA ON"].map(str::to_owned);
    let mut rows = vec![head];
    for entry in entries {
        let structure = entry.description.structure();
        rows.push([
            entry.name().to_owned(),
            state(entry).to_owned(),
            structure.servers.len().to_string(),
            spell_size(structure.stripe_size),
            spell_size(entry.description.settings().cache),
            entry.host_of(structure.metadata).unwrap_or_default().to_owned(),
        ]);
    }
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}
