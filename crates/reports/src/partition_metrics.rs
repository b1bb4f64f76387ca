//! The state of partitions in the text format of Prometheus, version 0.0.4, for its node exporter's textfile collector or
//! any scraper that runs a command.
//!
//! The crate prometheus-client would write another format (OpenMetrics) and needs a registry of counters that live in the
//! process; here every value comes from a server at the moment of the call, so a table of names and fields is all there is.

use pario_launch::{PartitionStatus, ServerCondition};
use pario_wire::message::ServerStatus;
use std::fmt::Write;

/// Something that is measured.
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: fn(&ServerStatus) -> u64,
}

macro_rules! metrics {
    ($($name:literal $kind:ident $help:literal = $value:expr;)*) => {
        &[$(Metric { name: concat!("pario_", $name), kind: stringify!($kind), help: $help, value: $value }),*]
    };
}

const OF_EACH: &[Metric] = metrics! {
    "sessions" gauge "Connections to the server." = |s| s.traffic.sessions.into();
    "local_sessions" gauge "Connections that have mapped the server's cache." = |s| s.traffic.local_sessions.into();
    "requests_total" counter "Requests since the server's start." = |s| s.traffic.requests;
    "forwarded_total" counter "Requests that were passed on to another server." = |s| s.traffic.forwarded;
    "refused_total" counter "Connections that were not let in." = |s| s.traffic.refused;
    "errors_total" counter "Requests that failed." = |s| s.traffic.errors;
    "read_bytes_total" counter "Bytes sent to clients." = |s| s.traffic.read_bytes;
    "written_bytes_total" counter "Bytes received from clients." = |s| s.traffic.written_bytes;
    "cache_block_bytes" gauge "Bytes of a block of the cache." = |s| s.pool.block.into();
    "cache_blocks" gauge "Blocks that the cache has room for." = |s| s.pool.slots.into();
    "cache_valid_blocks" gauge "Blocks in the cache." = |s| s.pool.valid_slots.into();
    "cache_dirty_blocks" gauge "Blocks that are not yet in storage." = |s| s.pool.dirty_slots.into();
    "cache_pinned_blocks" gauge "Blocks that clients are using." = |s| s.pool.pinned_slots.into();
    "cache_high_water_blocks" gauge "Dirty blocks at which storing them begins." = |s| s.pool.high_water.into();
    "cache_low_water_blocks" gauge "Dirty blocks at which storing them rests." = |s| s.pool.low_water.into();
    "cache_hits_total" counter "Blocks that were asked for and in the cache." = |s| s.pool.hits;
    "cache_misses_total" counter "Blocks that were asked for and not in the cache." = |s| s.pool.misses;
    "cache_evictions_total" counter "Blocks that had to make room for others." = |s| s.pool.evictions;
    "flushed_blocks_total" counter "Dirty blocks that were written to storage." = |s| s.storage.flushed_blocks;
    "flush_errors_total" counter "Dirty blocks that could not be written to storage." = |s| s.storage.flush_errors;
    "filled_blocks_total" counter "Blocks that were read from storage." = |s| s.storage.filled_blocks;
    "store_read_bytes_total" counter "Bytes read from storage." = |s| s.storage.read_bytes;
    "store_written_bytes_total" counter "Bytes written to storage." = |s| s.storage.written_bytes;
    "damaged_blocks_total" counter "Blocks whose checksum was wrong when read." = |s| s.storage.damaged;
    "lease_teams" gauge "Programs that keep files of the server in their own memory." = |s| s.leases.teams.into();
    "lease_mailboxes" gauge "Processes of such programs." = |s| s.leases.mailboxes.into();
    "lease_requests_total" counter "Requests for leases, and for what was leased." = |s| s.leases.requests;
    "lease_grants_total" counter "Such requests that were granted." = |s| s.leases.grants;
    "lease_conflicts_total" counter "Leases that were in the way of a request." = |s| s.leases.conflicts;
    "lease_revocations_total" counter "Leases that were recalled." = |s| s.leases.revocations;
    "lease_waits_total" counter "Requests that had to wait for others' leases." = |s| s.leases.waits;
    "lease_cut_off_total" counter "Processes that did not give up leases in time." = |s| s.leases.cut_off;
    "range_lock_requests_total" counter "Byte-range locks that were asked for." = |s| s.range_locks.requests;
    "range_lock_grants_total" counter "Byte-range locks that were granted." = |s| s.range_locks.grants;
    "range_lock_conflicts_total" counter "Byte-range locks that were in the way of a request." = |s| s.range_locks.conflicts;
    "range_lock_waits_total" counter "Byte-range locks that had to be waited for." = |s| s.range_locks.waits;
    "prefetch_taken_total" counter "Ranges that clients had prefetched." = |s| s.prefetches.taken;
    "prefetch_refused_total" counter "Ranges for which there was no room." = |s| s.prefetches.refused;
    "prefetch_released_total" counter "Prefetched ranges that are done with." = |s| s.prefetches.released;
    "prefetch_loaded_blocks_total" counter "Blocks that were brought into the cache for them." =
        |s| s.prefetches.loaded_blocks;
    "prefetch_hits_total" counter "Blocks that were ready when their client came." = |s| s.prefetches.hits;
    "prefetch_kept_blocks" gauge "Blocks that are kept ready." = |s| s.prefetches.kept_blocks.into();
    "storage_size_bytes" gauge "Size of the file system of the server's directory." = |s| s.space.total;
    "storage_free_bytes" gauge "Room on that file system." = |s| s.space.free;
    "storage_used_bytes" gauge "Bytes that the partition's files take there." = |s| s.space.used;
    "storage_parts" gauge "Files of which the server holds stripes." = |s| s.space.parts;
};

/// Only the metadata server knows these.
const OF_NAMES: &[Metric] = metrics! {
    "files" gauge "Files of the partition." = |s| s.names.files;
    "directories" gauge "Directories of the partition." = |s| s.names.directories;
    "open_files" gauge "Files that clients have open." = |s| s.names.open_files;
};

/// All partitions' servers as samples, one family after the other.
pub fn partition_metrics(partitions: &[PartitionStatus]) -> String {
    let mut text = String::new();
    head(&mut text, "pario_up", "gauge", "Whether the server answers.");
    for_each(partitions, |labels, state, _| {
        let up = u8::from(matches!(state, ServerCondition::Answers(_)));
        let _ = writeln!(text, "pario_up{labels} {up}");
    });
    head(&mut text, "pario_start_time_seconds", "gauge", "When the server was started, since 1970.");
    for_each(partitions, |labels, state, _| {
        if let ServerCondition::Answers(status) = state {
            let _ = writeln!(text, "pario_start_time_seconds{labels} {}", status.started.0 as f64 / 1e9);
        }
    });
    for (family, of_names) in [(OF_EACH, false), (OF_NAMES, true)] {
        for metric in family {
            head(&mut text, metric.name, metric.kind, metric.help);
            for_each(partitions, |labels, state, keeps_names| {
                if let ServerCondition::Answers(status) = state
                    && (keeps_names || !of_names)
                {
                    let _ = writeln!(text, "{}{labels} {}", metric.name, (metric.value)(status));
                }
            });
        }
    }
    text
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Each server with its labels, and whether it keeps the names.
fn for_each(partitions: &[PartitionStatus], mut act: impl FnMut(&str, &ServerCondition, bool)) {
    for partition in partitions {
        let metadata = usize::from(partition.entry.description.structure().metadata.0);
        let name = escaped(partition.entry.name());
        for (server, state) in partition.servers.iter().enumerate() {
            let labels = format!("{{partition=\"{name}\",server=\"{server}\"}}");
            act(&labels, state, server == metadata);
        }
    }
}

/// A label's value.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition_status::fixtures::{partition, status};
    use std::collections::{BTreeMap, BTreeSet};

    fn is_name(text: &str) -> bool {
        let sound = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        !text.starts_with(|c: char| c.is_ascii_digit()) && !text.is_empty() && text.chars().all(sound)
    }

    /// A sample's name, labels and value, by the format's grammar; labels here have no braces in their
    /// values.
    fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
        let (name, rest) = line.split_once('{').expect("labels");
        let (labels, value) = rest.split_once("} ").expect("a value");
        let labels = labels.split(',').map(|label| {
            let (key, value) = label.split_once("=\"").expect("a label");
            assert!(is_name(key) && !key.contains(':'), "{line}");
            (key.to_owned(), value.strip_suffix('"').expect("a quote").to_owned())
        });
        (name.to_owned(), labels.collect(), value.parse().expect("a number"))
    }

    #[test]
    fn the_text_is_in_the_format_of_prometheus() {
        let states = vec![
            ServerCondition::Answers(Box::new(status())),
            ServerCondition::Silent("no".into()),
            ServerCondition::Stopped,
        ];
        let text = partition_metrics(&[
            partition("one", states),
            partition("two", vec![ServerCondition::Answers(Box::new(status()))]),
        ]);
        assert!(text.ends_with('\n') && !text.contains("\n\n"));
        let (mut families, mut samples) = (BTreeMap::new(), BTreeSet::new());
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let (name, help) =
                line.strip_prefix("# HELP ").expect("help first").split_once(' ').expect("words");
            assert!(is_name(name) && help.ends_with('.'), "{line}");
            let kind =
                lines.next().and_then(|l| l.strip_prefix(&format!("# TYPE {name} "))).expect("then a type");
            assert!(["gauge", "counter"].contains(&kind), "{name}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            assert!(families.insert(name, kind).is_none(), "{name} comes once");
            while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
                let (family, labels, value) = sample(line);
                assert!(family == name && value >= 0.0, "{line}");
                assert_eq!(labels.keys().collect::<Vec<_>>(), ["partition", "server"]);
                assert!(samples.insert((family, labels)), "twice: {line}");
            }
        }
        let has = |line: &str| assert!(text.lines().any(|l| l == line), "no {line} in\n{text}");
        has("pario_up{partition=\"one\",server=\"0\"} 1");
        has("pario_up{partition=\"one\",server=\"1\"} 0");
        has("pario_requests_total{partition=\"two\",server=\"0\"} 1000");
        has("pario_files{partition=\"one\",server=\"0\"} 12");
        assert!(!text.contains("pario_requests_total{partition=\"one\",server=\"1\"}"));
    }

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(escaped("a\\b\"c\nd"), "a\\\\b\\\"c\\nd");
    }
}
