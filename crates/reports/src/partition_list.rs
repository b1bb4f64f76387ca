//! The list of partitions, and lines on pools with unsaved data and how to save it.

use crate::{Align, TextTable};
use pario_launch::pools::{HostPool, PoolState};
use pario_launch::{FoundPool, PartitionSurvey, SurveyedPartition};
use pario_types::{format_size, round_size};
use serde_json::{Value, json};

/// The list for people.
pub fn partition_list_text(survey: &PartitionSurvey) -> String {
    if survey.partitions.is_empty() {
        return "no partitions ('pario up FILE' creates one)\n".to_owned() + &unsaved(survey);
    }
    let unknown = survey.unasked.iter().map(|unasked| {
        format!(
            "unknown: {} cannot be asked whether servers of {} have left unsaved data there: {}\n",
            unasked.host, unasked.name, unasked.why
        )
    });
    table(survey) + &unsaved(survey) + &unknown.collect::<String>()
}

/// The list for programs.
pub fn partition_list_json(survey: &PartitionSurvey) -> Value {
    let unregistered = survey.unregistered_pools();
    let unregistered = unregistered.map(|pool| json!({ "state": "unregistered", "pool": pool_object(pool) }));
    let known = survey.partitions.iter().map(|partition| partition_object(survey, partition));
    known.chain(unregistered).collect()
}

fn table(survey: &PartitionSurvey) -> String {
    let head = ["NAME", "STATE", "SERVERS", "STRIPE", "CACHE", "METADATA ON"];
    let mut table = TextTable::with_head(&[Align::Left; 6], &head);
    for partition in &survey.partitions {
        let entry = &partition.entry;
        let structure = entry.description.structure();
        table.row(vec![
            entry.name().to_owned(),
            partition.state().to_owned(),
            entry.members().to_string(),
            format_size(structure.stripe_size),
            format_size(entry.description.settings().cache),
            entry.host_of(structure.metadata).unwrap_or_default().to_owned(),
        ]);
    }
    table.text(0)
}

fn partition_object(survey: &PartitionSurvey, partition: &SurveyedPartition) -> Value {
    let entry = &partition.entry;
    let mut value = json!(entry);
    value["state"] = json!(partition.state());
    value["unsaved"] = survey.pools_of(entry.id).map(pool_object).collect();
    let hosts = survey.unasked.iter().filter(|unasked| unasked.partition == entry.id);
    value["unasked"] = hosts.map(|unasked| json!({ "host": unasked.host, "why": unasked.why })).collect();
    value
}

fn pool_object(found: &FoundPool) -> Value {
    let mut value = json!(found.pool);
    value["host"] = json!(found.host);
    value
}

/// Lines about unsaved data and how to save it.
fn unsaved(survey: &PartitionSurvey) -> String {
    let mut text = String::new();
    for partition in &survey.partitions {
        let name = partition.entry.name();
        for found in survey.pools_of(partition.entry.id) {
            let contents = contents(found, name);
            text += &format!("unsaved: {contents}: 'pario up {name}' or 'pario down {name}' saves it\n");
        }
    }
    for found in survey.unregistered_pools() {
        text += &match &found.pool.owner {
            Some(owner) if !found.pool.is_orphaned() => format!(
                "unsaved: {}: 'PARIO_HOME={} pario down {}' saves it\n",
                contents(found, &owner.name),
                owner.home.display(),
                owner.name
            ),
            _ => orphaned_pool_text(found),
        };
    }
    text
}

/// A line on a pool of a partition that no registry knows.
pub fn orphaned_pool_text(found: &FoundPool) -> String {
    let id = found.pool.partition;
    let (name, directories) = match &found.pool.owner {
        Some(owner) => (owner.name.as_str(), owner.servers.join(" ")),
        None => ("an unknown partition", "DIRECTORIES".to_owned()),
    };
    format!(
        "orphaned pool: {} ({id}): 'pario up --adopt {directories}' saves it, 'pario clean --discard {id}' loses it\n",
        contents(found, name)
    )
}

/// How much data only this pool has, and of which server.
fn contents(found: &FoundPool, name: &str) -> String {
    let FoundPool { host, pool: HostPool { server, path, state, .. } } = found;
    let pool = format!("the pool of server {server} of {name} on {host}");
    let path = path.display();
    match state {
        PoolState::Left { unsaved, .. } => format!("{} in {pool}", round_size(*unsaved)),
        PoolState::Unreadable { why } => format!("{pool} cannot be read: {why}"),
        PoolState::Missing { .. } => format!("{pool} is gone: {path}"),
        PoolState::Lost => format!("{pool} is of another boot: {path}"),
        PoolState::Served => format!("{pool} is in use: {path}"),
    }
}
