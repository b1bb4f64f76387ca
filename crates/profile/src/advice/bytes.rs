//! Which bytes of a file are used more than once, and by whom.

use crate::profile::{Profile, ProfiledAccess};
use crate::sweep::sweep;

/// The bytes of a file by how often they are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// Bytes that any process used.
    pub used: u64,
    /// The bytes that several processes used.
    pub shared: u64,
    /// Bytes read, again and again if so.
    pub read: u64,
    /// The same, but repeated reads of one process count once.
    pub read_once_each: u64,
    /// The same, but repeated reads of any process count once.
    pub read_once: u64,
}

/// For each file of the profile.
pub fn overlaps(profile: &Profile) -> Vec<Overlap> {
    let mut overlaps = vec![Overlap::default(); profile.files.len()];
    let swept = sweep(profile, false);
    for (overlap, runs) in overlaps.iter_mut().zip(&swept.files) {
        for run in runs {
            overlap.used += run.length;
            if swept.groups[run.group as usize].users.len() > 1 {
                overlap.shared += run.length;
            }
        }
    }
    let mut reads: Vec<&ProfiledAccess> =
        profile.accesses.iter().filter(|access| !access.is_write()).collect();
    reads.sort_unstable_by_key(|access| (access.file(), access.process, access.offset));
    each_once(
        &reads,
        |access| (access.file(), access.process),
        |file, bytes| overlaps[file].read_once_each += bytes,
    );
    reads.sort_unstable_by_key(|access| (access.file(), access.offset));
    each_once(&reads, |access| (access.file(), 0), |file, bytes| overlaps[file].read_once += bytes);
    for access in reads {
        let overlap = &mut overlaps[access.file() as usize];
        overlap.read = overlap.read.saturating_add(access.end - access.offset);
    }
    overlaps
}

/// The bytes of sorted accesses, those of one key each once.
fn each_once(
    sorted: &[&ProfiledAccess],
    key: impl Fn(&ProfiledAccess) -> (u32, u32),
    mut add: impl FnMut(usize, u64),
) {
    let mut current = None;
    let mut done = 0;
    for access in sorted {
        if current != Some(key(access)) {
            (current, done) = (Some(key(access)), 0);
        }
        let from = access.offset.max(done);
        if from < access.end {
            add(access.file() as usize, access.end - from);
            done = access.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn bytes_are_counted_as_one_would_by_hand(
            rows in prop::collection::vec((0u32..3, 0u32..2, 0u64..40, 1u64..12, any::<bool>()), 1..30)
        ) {
            let accesses: Vec<ProfiledAccess> = rows
                .iter()
                .map(|&(process, file, offset, len, write)| ProfiledAccess::new(process, file, offset, offset + len, write, 0))
                .collect();
            let process = |label: u32| pario_placement::PlannedProcess { label: label.to_string(), node: String::new() };
            let processes = (0..3).map(process).collect();
            let profile = Profile { processes, files: vec!["f".into(), "g".into()], accesses, idle: 0 };
            for (file, overlap) in overlaps(&profile).into_iter().enumerate() {
                let mut wanted = Overlap::default();
                for at in 0..60 {
                    let here = |a: &&ProfiledAccess| a.file() as usize == file && a.offset <= at && at < a.end;
                    let users: BTreeSet<u32> = profile.accesses.iter().filter(here).map(|a| a.process).collect();
                    let reads = || profile.accesses.iter().filter(here).filter(|a| !a.is_write());
                    wanted.used += u64::from(!users.is_empty());
                    wanted.shared += u64::from(users.len() > 1);
                    wanted.read += reads().count() as u64;
                    wanted.read_once_each += reads().map(|a| a.process).collect::<BTreeSet<_>>().len() as u64;
                    wanted.read_once += u64::from(reads().next().is_some());
                }
                prop_assert_eq!(overlap, wanted);
            }
        }
    }
}
