//! The plan file, version 1: TOML, one line per chunk.
//!
//! ```text
//! version = 1
//! from = "pario-trace"
//! processes = [
//!   { label = "0", node = "n1" },
//! ]
//! groups = [
//!   { users = [0], writers = [0] },
//! ]
//!
//! [[file]]
//! name = "out.dat"
//! chunks = [
//!   { offset = 0, length = 4096, placement = "local", home = 0, group = 0, order = 0, read = 0, written = 4096, moved = 0 },
//! ]
//! ```
//!
//! Processes and groups are numbered from 0 in the order of the file. Only `local` has a `home`. `node` is left out where
//! it is unknown. Unknown keys are refused, so that a typing error is not ignored.

use crate::lines;
use crate::{
    Chunk, Error, GroupId, Placement, PlacementPlan, PlannedFile, PlannedProcess, ProcessGroup, ProcessId,
};
use serde::Deserialize;
use std::fmt::Write;

pub(crate) const VERSION: i64 = 1;

const HEAD: &str = "\
# Where the bytes of a program's files are best kept; made by 'pario plan'.
# placement: local (with its home), duplicate (a copy with each user), broadcast (the same, and the one who
# writes updates all), central (shared storage). order: by the time of first use.
# read, written: bytes in the profile. moved: how many of them still go between nodes.
";

impl PlacementPlan {
    /// Returns the text of the plan file.
    pub fn to_text(&self) -> String {
        let mut text = String::from(HEAD);
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "version = {VERSION}\nfrom = {}\n\nprocesses = [", quoted(&self.from))?;
        for PlannedProcess { label, node } in &self.processes {
            let node = if node.is_empty() { String::new() } else { format!(", node = {}", quoted(node)) };
            writeln!(text, "  {{ label = {}{node} }},", quoted(label))?;
        }
        text.push_str("]\n\ngroups = [\n");
        for ProcessGroup { users, writers } in &self.groups {
            writeln!(text, "  {{ users = [{}], writers = [{}] }},", numbers(users), numbers(writers))?;
        }
        text.push_str("]\n");
        for PlannedFile { name, chunks } in &self.files {
            writeln!(text, "\n[[file]]\nname = {}\nchunks = [", quoted(name))?;
            for chunk in chunks {
                let Chunk { offset, length, placement, group, order, read, written, moved } = chunk;
                write!(
                    text,
                    "  {{ offset = {offset}, length = {length}, placement = \"{}\"",
                    placement.word()
                )?;
                if let Placement::Local(home) = placement {
                    write!(text, ", home = {}", home.0)?;
                }
                let group = group.0;
                write!(text, ", group = {group}, order = {order}, read = {read}, written = {written}")?;
                writeln!(text, ", moved = {moved} }},")?;
            }
            text.push_str("]\n");
        }
        Ok(())
    }

    /// Reads a plan file; everything in it is checked.
    pub fn from_text(text: &str) -> Result<PlacementPlan, Error> {
        let raw = match lines::read(text) {
            Some(raw) => raw,
            None => toml::from_str(text)
                .map_err(|e| other_version(text).unwrap_or_else(|| Error::Text(one_line(&e))))?,
        };
        if raw.version != VERSION {
            return Err(Error::Version(raw.version));
        }
        let processes =
            raw.processes.into_iter().map(|RawProcess { label, node }| PlannedProcess { label, node });
        let groups = raw.groups.into_iter().map(|RawGroup { users, writers }| ProcessGroup {
            users: users.into_iter().map(ProcessId).collect(),
            writers: writers.into_iter().map(ProcessId).collect(),
        });
        let files: Result<Vec<PlannedFile>, Error> = raw.file.into_iter().map(RawFile::into_file).collect();
        PlacementPlan {
            from: raw.from,
            processes: processes.collect(),
            groups: groups.collect(),
            files: files?,
        }
        .checked()
    }
}

#[derive(Deserialize)]
struct Version {
    version: i64,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPlan {
    version: i64,
    from: String,
    processes: Vec<RawProcess>,
    groups: Vec<RawGroup>,
    #[serde(default)]
    pub file: Vec<RawFile>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawProcess {
    label: String,
    #[serde(default)]
    node: String,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawGroup {
    users: Vec<u32>,
    writers: Vec<u32>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawFile {
    name: String,
    pub chunks: Vec<RawChunk>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawChunk {
    pub offset: u64,
    pub length: u64,
    pub placement: String,
    pub home: Option<u32>,
    pub group: u32,
    pub order: u64,
    pub read: u64,
    pub written: u64,
    pub moved: u64,
}

/// Returns the error of a plan that cannot be read, if it is its version: another version may have other keys.
fn other_version(text: &str) -> Option<Error> {
    let Version { version } = toml::from_str(text).ok()?;
    (version != VERSION).then_some(Error::Version(version))
}

impl RawFile {
    fn into_file(self) -> Result<PlannedFile, Error> {
        let chunks: Result<Vec<Chunk>, Error> = self.chunks.into_iter().map(RawChunk::into_chunk).collect();
        Ok(PlannedFile { name: self.name, chunks: chunks? })
    }
}

impl RawChunk {
    fn into_chunk(self) -> Result<Chunk, Error> {
        let RawChunk { offset, length, placement, home, group, order, read, written, moved } = self;
        let placement = match (placement.as_str(), home) {
            ("local", Some(home)) => Placement::Local(ProcessId(home)),
            ("duplicate", None) => Placement::Duplicate,
            ("broadcast", None) => Placement::Broadcast,
            ("central", None) => Placement::Central,
            _ => return Err(Error::Placement(placement)),
        };
        Ok(Chunk { offset, length, placement, group: GroupId(group), order, read, written, moved })
    }
}

fn numbers(list: &[ProcessId]) -> String {
    list.iter().map(|process| process.0.to_string()).collect::<Vec<_>>().join(", ")
}

/// A string as TOML writes it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn one_line(error: &toml::de::Error) -> String {
    error.to_string().lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan(names: Vec<String>, lengths: Vec<(u64, u64, u8)>) -> PlacementPlan {
        let processes =
            ["0", "1"].map(|label| PlannedProcess { label: label.to_owned(), node: String::new() }).into();
        let both = vec![ProcessId(0), ProcessId(1)];
        let group = |writers: &[u32]| ProcessGroup {
            users: both.clone(),
            writers: writers.iter().copied().map(ProcessId).collect(),
        };
        let groups = vec![group(&[]), group(&[1]), group(&[0, 1])];
        let mut order = 0;
        let file = |name| {
            let mut at = 0;
            let chunks = lengths.iter().map(|&(gap, length, kind)| {
                let (placement, group) = match kind {
                    0 => (Placement::Duplicate, 0),
                    1 => (Placement::Broadcast, 1),
                    2 => (Placement::Central, 2),
                    _ => (Placement::Local(ProcessId(1)), 2),
                };
                let offset = at + gap;
                order += 1;
                let order = order - 1;
                at = offset + length;
                let (read, written, moved) = (length, gap, 0);
                Chunk { offset, length, placement, group: GroupId(group), order, read, written, moved }
            });
            PlannedFile { name, chunks: chunks.collect() }
        };
        let from = if names.len() == 1 { "trace" } else { "a \"trace\"\n" }.to_owned();
        let files = names.into_iter().map(file).collect();
        PlacementPlan { from, processes, groups, files }
    }

    proptest! {
        #[test]
        fn a_plan_survives_its_file(
            names in prop::collection::vec(any::<String>(), 0..4),
            lengths in prop::collection::vec((0u64..1 << 50, 1u64..1 << 50, 0u8..4), 0..20),
        ) {
            let plan = plan(names, lengths);
            let text = plan.to_text();
            prop_assert!(lines::read(&text).is_none_or(|raw| Some(raw) == toml::from_str(&text).ok()));
            prop_assert_eq!(PlacementPlan::from_text(&text), Ok(plan));
        }

        #[test]
        fn no_text_panics(text in ".{0,200}", at in 0usize..900, c in any::<char>()) {
            let _ = PlacementPlan::from_text(&text);
            let mut good: Vec<char> = plan(vec!["f".to_owned()], vec![(0, 8, 3), (1, 8, 0)]).to_text().chars().collect();
            let at = at % good.len();
            good[at] = c;
            let text: String = good.into_iter().collect();
            let _ = PlacementPlan::from_text(&text);
            if let Some(raw) = lines::read(&text) {
                prop_assert_eq!(Some(raw), toml::from_str(&text).ok());
            }
        }
    }

    #[test]
    fn inconsistent_plans_are_refused_in_one_line() {
        let good = plan(vec!["f".to_owned()], vec![(0, 8, 3), (1, 8, 0)]).to_text();
        assert!(PlacementPlan::from_text(&good).is_ok());
        assert!(lines::read(&good).is_some(), "what is written is read quickly");
        let wrong = [
            ("version = 1", "version = 2"),
            ("version = 1", "version = 1\nextra = 3"),
            ("offset = 9", "offset = 7"),
            ("length = 8", "length = 0"),
            ("length = 8", "length = 9223372036854775807"),
            ("home = 1", "home = 2"),
            (", home = 1", ""),
            ("\"duplicate\"", "\"broadcast\""),
            ("\"duplicate\"", "\"copied\""),
            ("group = 2", "group = 3"),
            ("order = 1", "order = 0"),
            ("order = 1", "order = 2"),
            ("users = [0, 1], writers = [1]", "users = [0, 1], writers = [1, 0]"),
            ("users = [0, 1], writers = [1]", "users = [0, 2], writers = []"),
            ("users = [0, 1], writers = [1]", "users = [], writers = []"),
        ];
        for (old, new) in wrong {
            assert!(good.contains(old), "{old}");
            let line = PlacementPlan::from_text(&good.replacen(old, new, 1)).unwrap_err().to_string();
            assert!(!line.contains('\n'), "{line}");
        }
    }
}
