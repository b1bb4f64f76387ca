//! `pario df`: room on the storage of partitions.

use super::error::Error;
use super::print;
use crate::env::Environment;
use clap::{ArgAction, Args};
use pario_client::StorageSpace;
use pario_registry::Entry;
use pario_reports::text;
use pario_reports::{Align, TextTable};
use pario_types::ServerId;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Show the room on a partition's storage, for each server and in all.
#[derive(Args)]
#[command(after_help = NOTES, disable_help_flag = true)]
pub struct Arguments {
    /// Sizes in two or three digits and a unit, instead of bytes
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// In JSON
    #[arg(long)]
    json: bool,
    /// Partitions; all that are up if none
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

const NOTES: &str = "\
TOTAL and FREE are those of the file system that a server's directory is on,
USED is what the partition's files take there. Servers that share a file system
each show all of its room.

Example:
  pario df -h scratch

Exit code: 0 all shown, 1 a partition could not be asked, 2 wrong arguments.";

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let mut connections = env.metadata_connections();
    let entries: Vec<Entry> = match arguments.names.is_empty() {
        true => connections.registry()?.list()?.into_iter().filter(Entry::is_up).collect(),
        false => arguments.names.iter().map(|name| connections.entry(name)).collect::<Result<_, _>>()?,
    };
    let (mut words, mut objects) = (Vec::new(), Vec::new());
    let mut failed = false;
    for entry in entries {
        let rooms = connections
            .partition(entry.name())
            .map_err(Error::from)
            .and_then(|partition| partition.rooms().map_err(Error::partition(entry.name())));
        match rooms {
            Ok(rooms) => {
                words.push(table(&entry, &rooms, arguments.human_readable));
                objects.push(in_json(&entry, &rooms));
            }
            Err(error) => {
                eprintln!("pario: {error}");
                failed = true;
            }
        }
    }
    match arguments.json {
        true => print(&format!("{:#}\n", Value::from(objects)))?,
        false if words.is_empty() && !failed => print("no partition is up ('pario up NAME' starts one)\n")?,
        false => print(&words.join("\n"))?,
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn host(entry: &Entry, server: usize) -> &str {
    entry.host_of(ServerId(server as u16)).unwrap_or("-")
}

fn table(entry: &Entry, rooms: &[StorageSpace], human: bool) -> String {
    let sides =
        [Align::Right, Align::Left, Align::Right, Align::Right, Align::Right, Align::Right, Align::Right];
    let head = ["SERVER", "HOST", "TOTAL", "USED", "FREE", "FULL", "PARTS"];
    let mut table = TextTable::with_head(&sides, &head);
    let mut row = |server: String, host: &str, room: &StorageSpace| {
        table.row(vec![
            server,
            host.to_owned(),
            text::size(room.total, human),
            text::size(room.used, human),
            text::size(room.free, human),
            text::percent(room.total.saturating_sub(room.free), room.total),
            room.parts.to_string(),
        ]);
    };
    for (server, room) in rooms.iter().enumerate() {
        row(server.to_string(), host(entry, server), room);
    }
    row("all".to_owned(), "", &sum(rooms));
    let mut text = format!("partition {}\n{}", entry.name(), table.text(0));
    let hosts: BTreeSet<&str> = (0..rooms.len()).map(|server| host(entry, server)).collect();
    if hosts.len() < rooms.len() {
        text += "(servers of one host may share a file system, which then counts several times)\n";
    }
    text
}

fn sum(rooms: &[StorageSpace]) -> StorageSpace {
    rooms.iter().fold(StorageSpace::default(), |sum, room| StorageSpace {
        total: sum.total.saturating_add(room.total),
        free: sum.free.saturating_add(room.free),
        used: sum.used.saturating_add(room.used),
        parts: sum.parts.saturating_add(room.parts),
    })
}

fn in_json(entry: &Entry, rooms: &[StorageSpace]) -> Value {
    let object = |room: &StorageSpace| {
        let StorageSpace { total, used, free, parts } = room;
        json!({ "total": total, "used": used, "free": free, "parts": parts })
    };
    let server = |(server, room): (usize, &StorageSpace)| {
        let mut value = object(room);
        value["server"] = json!(server);
        value["host"] = json!(host(entry, server));
        value
    };
    let servers: Value = rooms.iter().enumerate().map(server).collect();
    json!({ "partition": entry.name(), "servers": servers, "all": object(&sum(rooms)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_add_up() {
        let room = StorageSpace { total: 10, free: 4, used: 3, parts: 2 };
        assert_eq!(sum(&[room, room]), StorageSpace { total: 20, free: 8, used: 6, parts: 4 });
        let most = StorageSpace { total: u64::MAX, ..room };
        assert_eq!(sum(&[most, room]).total, u64::MAX);
    }
}
