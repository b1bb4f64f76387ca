//! The numbers of a plan by name: `--set` changes them, and a failing history is reduced by making them smaller.
//!
//! A number that is added to the plan and makes a history smaller when it shrinks belongs into [`SETTINGS`].

use std::time::Duration;

use crate::plan::{Ending, FaultKind, KINDS, Plan};

/// The largest share of a kind of fault.
const MOST_SHARE: u64 = 100;

/// How a setting is reduced.
#[derive(Clone, Copy)]
pub enum SettingKind {
    /// A smaller number makes a smaller history.
    Number,
    /// Each bit leaves one of so many calls or faults out.
    Skipped(fn(&Plan) -> u64),
    /// It is not reduced.
    Fixed,
}

/// A number of a plan.
pub struct Setting {
    pub name: &'static str,
    /// Its smallest value.
    pub least: u64,
    pub kind: SettingKind,
    get: fn(&Plan) -> u64,
    set: fn(&mut Plan, u64),
}

/// Defines a setting that is a field of the plan.
macro_rules! field {
    ($name:literal, $field:ident, $least:literal) => {
        Setting {
            name: $name,
            least: $least,
            kind: SettingKind::Number,
            get: |plan| plan.$field as u64,
            set: |plan, value| plan.$field = value as _,
        }
    };
}

/// Defines a setting that is true or false.
macro_rules! flag {
    ($name:literal, $field:ident) => {
        Setting {
            name: $name,
            least: 0,
            kind: SettingKind::Number,
            get: |plan| plan.$field.into(),
            set: |plan, value| plan.$field = value > 0,
        }
    };
}

/// Defines a setting for the calls of a client that are left out.
macro_rules! skipped_calls {
    ($name:literal, $index:literal) => {
        Setting {
            name: $name,
            least: 0,
            kind: SettingKind::Skipped(|plan| plan.calls.into()),
            get: |plan| plan.skipped_calls[$index],
            set: |plan, value| plan.skipped_calls[$index] = value,
        }
    };
}

/// Everything that can be set, in the order in which it is reduced.
pub const SETTINGS: &[Setting] = &[
    field!("clients", clients, 1),
    field!("faults", fault_count, 0),
    field!("calls", calls, 1),
    field!("servers", servers, 1),
    field!("hosts", hosts, 1),
    field!("files", files, 1),
    flag!("managed", managed),
    flag!("tier1", tier1),
    Setting {
        name: "ending",
        least: 0,
        kind: SettingKind::Number,
        get: |plan| plan.ending as u64,
        set: set_ending,
    },
    field!("workers", workers, 1),
    field!("length", limit, 9000),
    field!("stripe", stripe, 512),
    field!("slots", slots, 16),
    field!("switch-one-in", switch_one_in, 1),
    field!("stall-one-site-in", stall_one_site_in, 0),
    field!("stall-one-in", stall_one_in, 1),
    flag!("faults-at-stalls", faults_at_stalls),
    field!("stall-within", stall_within, 0),
    flag!("long-stalls", long_stalls),
    field!("stall-of", stall_of, 0),
    field!("looks-before-ending", looks_before_ending, 0),
    flag!("one-team", is_one_team),
    flag!("truncates", truncates),
    flag!("syncs", syncs),
    flag!("drops", drops),
    flag!("slow-copies", slow_copies),
    flag!("names", names),
    flag!("locks", locks),
    flag!("views", views),
    flag!("threads", threads),
    flag!("prefetches", prefetches),
    flag!("placed", placed),
    Setting {
        name: "skip-faults",
        least: 0,
        kind: SettingKind::Skipped(|plan| plan.fault_count.into()),
        get: |plan| plan.skipped_faults,
        set: |plan, value| plan.skipped_faults = value,
    },
    skipped_calls!("skip-calls-1", 0),
    skipped_calls!("skip-calls-2", 1),
    skipped_calls!("skip-calls-3", 2),
    Setting {
        name: "fault-interval",
        least: 1,
        kind: SettingKind::Fixed,
        get: |plan| plan.fault_interval.as_micros() as u64,
        set: |plan, value| plan.fault_interval = Duration::from_micros(value),
    },
    Setting {
        name: "longest-pause",
        least: 1,
        kind: SettingKind::Fixed,
        get: |plan| plan.longest_pause.as_micros() as u64,
        set: |plan, value| plan.longest_pause = Duration::from_micros(value),
    },
    Setting {
        name: "schedule",
        least: 0,
        kind: SettingKind::Fixed,
        get: |plan| plan.schedule,
        set: |plan, value| plan.schedule = value,
    },
];

fn set_ending(plan: &mut Plan, value: u64) {
    plan.ending = match value {
        0 => Ending::Nothing,
        1 => Ending::Down,
        2 => Ending::HostsLost,
        _ => Ending::PowerLost,
    };
}

/// The value of a setting, or the share of a kind of fault.
pub fn get(plan: &Plan, name: &str) -> Option<u64> {
    if let Some(kind) = fault_kind(name) {
        return Some(
            plan.faults.iter().find(|(one, _)| *one == kind).map_or(0, |(_, share)| (*share).into()),
        );
    }
    SETTINGS.iter().find(|setting| setting.name == name).map(|setting| (setting.get)(plan))
}

fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.name).chain(KINDS.iter().map(|(_, name)| *name))
}

/// All settings of a plan, as `--set` takes them.
pub fn describe(plan: &Plan) -> String {
    let words = names().filter_map(|name| Some(format!("{name}={}", get(plan, name)?)));
    words.collect::<Vec<_>>().join(",")
}

/// The settings of a plan that differ from those of another, as `--set` takes them.
pub fn changes(from: &Plan, to: &Plan) -> String {
    let changed = names().filter(|name| get(from, name) != get(to, name));
    let words = changed.filter_map(|name| Some(format!("{name}={}", get(to, name)?)));
    words.collect::<Vec<_>>().join(",")
}

/// Changes a setting, or the share of a kind of fault.
pub fn set(plan: &mut Plan, name: &str, value: u64) -> Result<(), String> {
    if let Some(kind) = fault_kind(name) {
        plan.faults.retain(|(one, _)| *one != kind);
        if value > 0 {
            plan.faults.push((kind, value.min(MOST_SHARE) as u32));
        }
        return Ok(());
    }
    let setting = SETTINGS.iter().find(|setting| setting.name == name);
    let setting = setting.ok_or_else(|| format!("there is no setting `{name}`"))?;
    (setting.set)(plan, value.max(setting.least));
    Ok(())
}

fn fault_kind(name: &str) -> Option<FaultKind> {
    KINDS.iter().find(|(_, one)| *one == name).map(|(kind, _)| *kind)
}
