//! The state of partitions in tables for people and in JSON for programs.

use crate::text::{count, percent, printable, span};
use crate::{Align, TextTable};
use pario_launch::{PartitionStatus, ServerCondition};
use pario_registry::{Entry, Running};
use pario_types::{Epoch, ServerId, Stamp, short_size};
use pario_wire::message::{LeaseCounters, PrefetchCounters, ServerStatus};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Hosts' names are cut to this, so that a row stays within 100 columns.
const HOST: usize = 12;

/// Errors of each server that are shown.
const ERRORS: usize = 3;

/// The requests of each server when it was last looked at, for rates.
#[derive(Default)]
pub struct RequestRates(BTreeMap<(u128, usize), (Stamp, u64, Duration)>);

impl RequestRates {
    /// Requests per second since the last look; `None` the first time, and after a restart.
    fn rate(&mut self, key: (u128, usize), status: &ServerStatus, at: Duration) -> Option<f64> {
        let before = self.0.insert(key, (status.started, status.traffic.requests, at));
        let (started, requests, earlier) = before?;
        let passed = at.checked_sub(earlier)?.as_secs_f64();
        let same = started == status.started && status.traffic.requests >= requests && passed > 0.0;
        same.then(|| (status.traffic.requests - requests) as f64 / passed)
    }
}

/// A partition as people want to see it. `at` is the time since the first look.
pub fn partition_status_text(
    partition: &PartitionStatus,
    rates: &mut RequestRates,
    at: Duration,
    now: Stamp,
) -> String {
    let entry = &partition.entry;
    let structure = entry.description.structure();
    let total = partition.servers.len();
    let answering = partition.answering();
    let mut text = format!("partition {}: ", entry.name());
    text += &match entry.running.len() {
        0 => "down".to_owned(),
        _ => format!("{answering} of {total} servers up"),
    };
    if entry.epoch != Epoch(0) {
        text += &format!(" (epoch {})", entry.epoch);
    }
    let metadata = usize::from(structure.metadata.0);
    if let Some(ServerCondition::Answers(status)) = partition.servers.get(metadata) {
        let (files, directories) =
            (count(status.names.files, "file"), count(status.names.directories, "directory"));
        text += &format!(", {files}, {directories}, {} open", status.names.open_files);
    }
    text.push('\n');
    if entry.running.is_empty() {
        return text;
    }
    use Align::{Left, Right};
    let sides = [Right, Left, Left, Right, Right, Right, Right, Right, Right, Right, Right, Right];
    let head =
        ["SRV", "HOST", "STATE", "PID", "UPTIME", "SESS", "REQ", "CACHE", "DIRTY", "HITS", "FLUSH", "ERR"];
    let mut rows = TextTable::with_head(&sides, &head);
    let mut notes = String::new();
    for (server, state) in partition.servers.iter().enumerate() {
        let name = if server == metadata { format!("{server}*") } else { format!("{server} ") };
        let host = cut(entry.host_of(ServerId(server as u16)).unwrap_or("-"), HOST);
        let mut cells = vec![name, host];
        match state {
            ServerCondition::Answers(status) => {
                let rate = rates.rate((entry.id.0, server), status, at);
                cells.extend(numbers(status, rate, now));
                if status.leases.teams > 0 {
                    notes += &format!("  server {server}: {}\n", leases(&status.leases));
                }
                notes += &prefetches(server, &status.prefetches);
                for error in status.last_errors.iter().take(ERRORS) {
                    notes += &format!("  server {server}: {}\n", printable(error));
                }
            }
            ServerCondition::Silent(why) => {
                notes += &format!("  server {server} does not answer: {why}\n");
                cells.push("silent".to_owned());
            }
            ServerCondition::Stopped => cells.push("down".to_owned()),
        }
        cells.resize(sides.len(), "-".to_owned());
        rows.row(cells);
    }
    text + &rows.text(0) + &listening(entry) + &notes
}

/// Where the servers that run listen for other hosts.
fn listening(entry: &Entry) -> String {
    let at = |(server, running): (&ServerId, &Running)| {
        running.tcp.as_ref().map(|tcp| format!("  server {server} listens at {tcp}\n"))
    };
    match entry.running.iter().filter_map(at).collect::<String>() {
        none if none.is_empty() => "  servers listen on local sockets only\n".to_owned(),
        some => some,
    }
}

/// A line on what clients wanted to have ready, if they ever did.
fn prefetches(server: usize, seen: &PrefetchCounters) -> String {
    let PrefetchCounters { taken, refused, released, loaded_blocks, hits, .. } = *seen;
    if taken == 0 && refused == 0 {
        return String::new();
    }
    let [taken, refused, released, loaded, hits] =
        [taken, refused, released, loaded_blocks, hits].map(short_count);
    format!(
        "  server {server} prefetched {taken} ranges (refused {refused}, released {released}), \
         loaded {loaded} blocks, hits {hits}\n"
    )
}

fn numbers(status: &ServerStatus, rate: Option<f64>, now: Stamp) -> Vec<String> {
    let up = Duration::from_nanos(now.0.saturating_sub(status.started.0).max(0) as u64);
    let (block, slots) = (u64::from(status.pool.block), u64::from(status.pool.slots));
    let share = |blocks: u32| percent(blocks.into(), slots);
    vec![
        "up".to_owned(),
        status.pid.to_string(),
        span(up),
        status.traffic.sessions.to_string(),
        rate.map_or_else(
            || short_count(status.traffic.requests),
            |rate| format!("{}/s", short_count(rate as u64)),
        ),
        format!("{} {}", short_size(slots.saturating_mul(block)), share(status.pool.valid_slots)),
        format!("{}/{}", share(status.pool.dirty_slots).trim_end_matches('%'), share(status.pool.high_water)),
        percent(status.pool.hits, status.pool.hits.saturating_add(status.pool.misses)),
        short_size(status.storage.flushed_blocks.saturating_mul(block)),
        short_count(
            status
                .traffic
                .errors
                .saturating_add(status.storage.flush_errors)
                .saturating_add(status.storage.damaged),
        ),
    ]
}

/// The programs that cache blocks of the server's files in their own memory, and what that costs the others.
fn leases(leases: &LeaseCounters) -> String {
    format!(
        "{} caching in {}, {} recalled",
        count(leases.teams.into(), "program"),
        count(leases.mailboxes.into(), "task"),
        count(leases.revocations, "lease"),
    )
}

/// A number in at most four characters.
fn short_count(number: u64) -> String {
    const UNITS: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    if number < 10_000 {
        return number.to_string();
    }
    let mut rest = number / 1000;
    let mut unit = 0;
    while rest >= 1000 {
        rest /= 1000;
        unit += 1;
    }
    format!("{rest}{}", UNITS[unit])
}

fn cut(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// A partition as programs want to see it.
pub fn partition_status_json(partition: &PartitionStatus) -> Value {
    let entry = &partition.entry;
    let servers = partition.servers.iter().enumerate().map(|(server, state)| {
        let mut value = match state {
            ServerCondition::Answers(status) => status_object(status),
            ServerCondition::Silent(why) => json!({ "why": why }),
            ServerCondition::Stopped => json!({}),
        };
        value["server"] = json!(server);
        value["host"] = json!(entry.host_of(ServerId(server as u16)));
        value["state"] = json!(match state {
            ServerCondition::Answers(_) => "answers",
            ServerCondition::Silent(_) => "silent",
            ServerCondition::Stopped => "stopped",
        });
        value
    });
    json!({
        "partition": entry.name(),
        "id": entry.id.to_string(),
        "epoch": entry.epoch.0,
        "metadata_server": entry.description.structure().metadata.0,
        "stripe_size": entry.description.structure().stripe_size,
        "servers": servers.collect::<Value>(),
    })
}

fn status_object(status: &ServerStatus) -> Value {
    json!({
        "pid": status.pid,
        "started_ns": status.started.0,
        "sessions": status.traffic.sessions,
        "local_sessions": status.traffic.local_sessions,
        "requests": status.traffic.requests,
        "forwarded": status.traffic.forwarded,
        "refused": status.traffic.refused,
        "errors": status.traffic.errors,
        "read_bytes": status.traffic.read_bytes,
        "written_bytes": status.traffic.written_bytes,
        "cache": {
            "block_bytes": status.pool.block,
            "blocks": status.pool.slots,
            "valid_blocks": status.pool.valid_slots,
            "dirty_blocks": status.pool.dirty_slots,
            "pinned_blocks": status.pool.pinned_slots,
            "high_water_blocks": status.pool.high_water,
            "low_water_blocks": status.pool.low_water,
            "hits": status.pool.hits,
            "misses": status.pool.misses,
            "evictions": status.pool.evictions,
            "flushed_blocks": status.storage.flushed_blocks,
            "flush_errors": status.storage.flush_errors,
            "filled_blocks": status.storage.filled_blocks,
        },
        "prefetch": {
            "taken": status.prefetches.taken,
            "refused": status.prefetches.refused,
            "released": status.prefetches.released,
            "loaded_blocks": status.prefetches.loaded_blocks,
            "hits": status.prefetches.hits,
            "kept_blocks": status.prefetches.kept_blocks,
        },
        "store": {
            "read_bytes": status.storage.read_bytes,
            "written_bytes": status.storage.written_bytes,
            "damaged_blocks": status.storage.damaged,
            "total_bytes": status.space.total,
            "free_bytes": status.space.free,
            "used_bytes": status.space.used,
            "parts": status.space.parts,
        },
        "leases": {
            "teams": status.leases.teams,
            "mailboxes": status.leases.mailboxes,
            "requests": status.leases.requests,
            "grants": status.leases.grants,
            "conflicts": status.leases.conflicts,
            "revocations": status.leases.revocations,
            "waits": status.leases.waits,
            "cut_off": status.leases.cut_off,
        },
        "range_locks": {
            "requests": status.range_locks.requests,
            "grants": status.range_locks.grants,
            "conflicts": status.range_locks.conflicts,
            "waits": status.range_locks.waits,
        },
        "files": status.names.files,
        "directories": status.names.directories,
        "open_files": status.names.open_files,
        "last_errors": status.last_errors,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition_status::fixtures::{partition, status};
    use pario_wire::message::{PoolStatus, StorageCounters, TrafficCounters};

    #[test]
    fn a_table_fits_100_columns() {
        let huge = ServerStatus {
            pid: 4_194_304,
            traffic: TrafficCounters {
                sessions: 9_999,
                requests: u64::MAX,
                errors: u64::MAX,
                ..status().traffic
            },
            pool: PoolStatus {
                slots: u32::MAX,
                valid_slots: u32::MAX,
                dirty_slots: u32::MAX,
                high_water: u32::MAX,
                ..status().pool
            },
            storage: StorageCounters { flushed_blocks: u64::MAX, ..status().storage },
            ..status()
        };
        let states = vec![
            ServerCondition::Answers(Box::new(huge)),
            ServerCondition::Silent("no".into()),
            ServerCondition::Stopped,
        ];
        let mut shown = partition("one", states);
        shown.entry.host = "a-node-with-a-long-name.cluster.example".to_owned();
        let now = Stamp(status().started.0 + 999 * 86_400_000_000_000);
        let mut before = RequestRates::default();
        before.0.insert((7, 0), (status().started, 0, Duration::ZERO));
        let text = partition_status_text(&shown, &mut before, Duration::from_secs(1), now);
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{}: {line}", line.chars().count());
        }
        assert!(text.contains("a-node-with…") && text.contains("server 1 does not answer: no"), "{text}");
    }

    #[test]
    fn a_table_says_what_matters() {
        let shown = partition("one", vec![ServerCondition::Answers(Box::new(status()))]);
        let now = Stamp(status().started.0 + 65_000_000_000);
        let text = partition_status_text(&shown, &mut RequestRates::default(), Duration::ZERO, now);
        let lines: Vec<String> =
            text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[0], "partition one: 1 of 1 servers up, 12 files, 3 directories, 2 open");
        assert_eq!(lines[2], "0* here up 77 1m05s 4 1000 6.4M 50% 10/40% 75% 2.0M 1");
        assert_eq!(lines[3], "servers listen on local sockets only");
        assert_eq!(
            lines[4],
            "server 0 prefetched 9 ranges (refused 4, released 8), loaded 20 blocks, hits 16"
        );
        assert_eq!(lines[5], "server 0: /data is full");
        assert_eq!(prefetches(0, &PrefetchCounters::default()), "");
    }

    #[test]
    fn rates_are_those_between_two_looks() {
        let (mut before, mut status) = (RequestRates::default(), status());
        let key = (1, 0);
        assert_eq!(before.rate(key, &status, Duration::ZERO), None);
        status.traffic.requests += 500;
        assert_eq!(before.rate(key, &status, Duration::from_secs(2)), Some(250.0));
        // Another process counts anew.
        status.started = Stamp(status.started.0 + 1);
        assert_eq!(before.rate(key, &status, Duration::from_secs(4)), None);
    }

    #[test]
    fn counts_are_short() {
        let counts = [0, 9_999, 10_000, 999_999, 1_000_000, u64::MAX].map(short_count);
        assert_eq!(counts, ["0", "9999", "10k", "999k", "1M", "18E"]);
    }
}

/// A server and a partition for tests.
#[cfg(test)]
pub(crate) mod fixtures {
    use pario_launch::{PartitionStatus, ServerCondition};
    use pario_registry::{Description, Entry, Running};
    use pario_types::{PartitionId, ServerId, Stamp};
    use pario_wire::message::{
        NamespaceCounters, PoolStatus, PrefetchCounters, ServerStatus, StorageCounters, TrafficCounters,
    };

    /// A server that has done something.
    pub fn status() -> ServerStatus {
        ServerStatus {
            pid: 77,
            started: Stamp(1_700_000_000_000_000_000),
            traffic: TrafficCounters { sessions: 4, requests: 1000, errors: 1, ..Default::default() },
            pool: PoolStatus {
                block: 65536,
                slots: 102,
                valid_slots: 51,
                dirty_slots: 10,
                high_water: 41,
                hits: 75,
                misses: 25,
                ..Default::default()
            },
            storage: StorageCounters { flushed_blocks: 32, ..Default::default() },
            names: NamespaceCounters { files: 12, directories: 3, open_files: 2 },
            prefetches: PrefetchCounters {
                taken: 9,
                refused: 4,
                released: 8,
                loaded_blocks: 20,
                hits: 16,
                kept_blocks: 2,
            },
            last_errors: vec!["/data is full".to_owned()],
            ..ServerStatus::default()
        }
    }

    /// A partition whose servers are in these states.
    pub fn partition(name: &str, servers: Vec<ServerCondition>) -> PartitionStatus {
        let line = |server: usize| format!("ahpfs_server = /data{server}\n");
        let lines: String = (0..servers.len()).map(line).collect();
        let description = Description::parse(&lines, Some(name)).expect("a description");
        let running = Running {
            host: "here".to_owned(),
            pid: 1,
            unix: "/run/s".to_owned(),
            tcp: None,
            started: Stamp(0),
        };
        let running = (0..servers.len() as u16).map(|server| (ServerId(server), running.clone())).collect();
        let entry = Entry {
            id: PartitionId(7),
            description,
            host: "here".to_owned(),
            created: Stamp(0),
            made: true,
            generation: 0,
            running,
            abandoned: Default::default(),
            ports: Vec::new(),
            epoch: pario_types::Epoch(0),
            joining: 0,
            origin: Vec::new(),
        };
        PartitionStatus { entry, servers }
    }
}
