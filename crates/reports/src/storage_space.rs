//! The space on the storage of a partition, for each server and in all.

use crate::{Align, TextTable, text};
use pario_client::StorageSpace;
use pario_registry::Entry;
use pario_types::ServerId;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn host(entry: &Entry, server: usize) -> &str {
    entry.host_of(ServerId(server as u16)).unwrap_or("-")
}

/// The space for people.
pub fn storage_space_text(entry: &Entry, rooms: &[StorageSpace], human: bool) -> String {
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

/// The space for programs.
pub fn storage_space_json(entry: &Entry, rooms: &[StorageSpace]) -> Value {
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
