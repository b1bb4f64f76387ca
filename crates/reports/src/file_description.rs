//! A file or directory of a partition with all that is known of it, and where its bytes are.

use crate::file_listing::file_object;
use crate::{Align, TextTable, text};
use pario_client::Metadata;
use pario_copy::PartitionPath;
use pario_layout::{Layout, PlacementMap, Striping};
use pario_registry::Entry;
use pario_types::{ServerId, format_size, short_size};
use serde_json::{Value, json};

/// A server's share of a file.
#[derive(Debug, PartialEq, Eq)]
struct Share {
    server: u16,
    /// Where its first stripe begins.
    first: u64,
    /// From there to its next one.
    every: u64,
    /// How many bytes of the file it holds.
    bytes: u64,
}

fn shares(striping: &Striping, size: u64) -> Vec<Share> {
    let every = striping.stripe() * u64::from(striping.count());
    let share = |(place, server)| Share {
        server,
        first: place * striping.stripe(),
        every,
        bytes: striping.local_end(ServerId(server), size),
    };
    (0u64..).zip(striping.holders().map(|server| server.0)).map(share).collect()
}

/// Bytes of a placed file by where they are.
#[derive(Debug, Default, PartialEq, Eq)]
struct Placed {
    /// One server.
    local: u64,
    /// Several, each byte counted once.
    copied: u64,
    /// One of those that share what is not placed.
    central: u64,
    extents: usize,
}

impl Placed {
    fn of(table: &PlacementMap, size: u64) -> Placed {
        let mut placed = Placed { extents: table.extents().count(), ..Placed::default() };
        for kept in table.extents() {
            let bytes = kept.range.end.min(size).saturating_sub(kept.range.start);
            let sum = match kept.servers.len() {
                0 => &mut placed.central,
                1 => &mut placed.local,
                _ => &mut placed.copied,
            };
            *sum += bytes;
        }
        placed.central += size.saturating_sub(table.end());
        placed
    }
}

/// A file or directory for people.
pub fn file_description(
    path: &PartitionPath,
    metadata: &Metadata,
    layout: Option<&Layout>,
    entry: &Entry,
) -> String {
    let mut table = TextTable::new(&[Align::Left, Align::Left]);
    let mut row = |name: &str, value: String| table.row(vec![name.to_owned(), value]);
    row("path", text::printable(&path.to_string()));
    let permissions = text::mode(metadata.is_dir(), metadata.mode());
    row("mode", format!("{:04o}  {permissions}", metadata.mode()));
    row("id", metadata.id().to_string());
    match metadata.is_dir() {
        true => row("entries", metadata.entries().to_string()),
        false => row("size", format!("{}  ({})", metadata.len(), short_size(metadata.len()))),
    }
    row("open", format!("{} times", metadata.opens()));
    row("accessed", text::exact_local_time(metadata.accessed()));
    row("modified", text::exact_local_time(metadata.modified()));
    row("changed", text::exact_local_time(metadata.changed()));
    row("created", text::exact_local_time(metadata.created()));
    let Some(layout) = layout else { return table.text(0) };
    let striping = layout.striping();
    if let Some(extents) = layout.table() {
        let is_ordered = !extents.order().is_empty();
        let Placed { local, copied, central, extents } = Placed::of(extents, metadata.len());
        row("layout", format!("placed by a plan in {}", text::count(extents as u64, "extent")));
        row("local", format!("{local} bytes, each on one server"));
        row("copied", format!("{copied} bytes, each on several servers"));
        let over = format!("stripes of {} over {}", format_size(striping.stripe()), striping.count());
        row("central", format!("{central} bytes in {over} of {} servers", striping.servers()));
        let order = if is_ordered { "of first use, in storage" } else { "of the file" };
        row("order", order.to_owned());
        let mut servers =
            TextTable::with_head(&[Align::Right, Align::Left, Align::Right], &["SERVER", "HOST", "BYTES"]);
        for server in layout.holders() {
            let bytes = layout.local_end(server, metadata.len());
            servers.row(vec![server.to_string(), host(entry, server.0), bytes.to_string()]);
        }
        return table.text(0) + &servers.text(2);
    }
    let (stripe, count, of) = (striping.stripe(), striping.count(), striping.servers());
    row("layout", format!("stripes of {} over {count} of {of} servers", format_size(stripe)));
    let sides = [Align::Right, Align::Left, Align::Right, Align::Right, Align::Right];
    let mut servers = TextTable::with_head(&sides, &["SERVER", "HOST", "FIRST AT", "THEN EVERY", "BYTES"]);
    for share in shares(striping, metadata.len()) {
        servers.row(vec![
            share.server.to_string(),
            host(entry, share.server),
            share.first.to_string(),
            share.every.to_string(),
            share.bytes.to_string(),
        ]);
    }
    table.text(0) + &servers.text(2)
}

fn host(entry: &Entry, server: u16) -> String {
    entry.host_of(ServerId(server)).unwrap_or("-").to_owned()
}

/// A file or directory for programs, with its layout.
pub fn file_description_json(
    path: &PartitionPath,
    metadata: &Metadata,
    layout: Option<&Layout>,
    entry: &Entry,
) -> Value {
    let mut value = file_object(&path.to_string(), metadata);
    if let Some(layout) = layout {
        let striping = layout.striping();
        let share = |share: Share| {
            json!({
                "server": share.server,
                "host": host(entry, share.server),
                "first_at": share.first,
                "then_every": share.every,
                "bytes": share.bytes,
            })
        };
        value["layout"] = json!({
            "stripe": striping.stripe(),
            "count": striping.count(),
            "first_server": striping.first(),
            "servers": shares(striping, metadata.len()).into_iter().map(share).collect::<Value>(),
        });
        if let Some(table) = layout.table() {
            let server = |server: ServerId| {
                let bytes = layout.local_end(server, metadata.len());
                json!({ "server": server.0, "host": host(entry, server.0), "bytes": bytes })
            };
            let Placed { local, copied, central, extents } = Placed::of(table, metadata.len());
            value["layout"]["servers"] = layout.holders().map(server).collect();
            value["layout"]["placed"] = json!({
                "local": local,
                "copied": copied,
                "central": central,
                "extents": extents,
                "by_first_use": !table.order().is_empty(),
            });
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shares_say_where_bytes_are(stripe in 1u64..20, servers in 1u16..6, size in 0u64..400) {
            for count in 1..=servers {
                let striping = Striping::new(stripe, count, servers - 1, servers).unwrap();
                let shares = shares(&striping, size);
                for offset in 0..size {
                    let server = striping.piece(pario_types::Offset(offset)).server.0;
                    let share = shares.iter().find(|share| share.server == server).unwrap();
                    prop_assert!(offset >= share.first && (offset - share.first) % share.every < stripe);
                }
                prop_assert_eq!(shares.iter().map(|share| share.bytes).sum::<u64>(), size);
            }
        }
    }
}
