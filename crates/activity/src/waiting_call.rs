//! Which ranks a collective call waits for, in words.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::call_name::CallName;
use crate::record::CollectiveCall;
use crate::snapshot::{FileSnapshot, ProcessSnapshot};

/// The call that opens a file. The host's MPI may wait in it.
pub const OPEN: CallName = CallName::new("MPI_File_open");

/// A rank of this host, and its record if it can be read.
#[derive(Clone, Debug)]
pub struct RankSnapshot {
    /// The rank in the group.
    pub rank: u32,
    /// Its record.
    pub process: Option<ProcessSnapshot>,
}

impl RankSnapshot {
    /// The number of calls that the rank has begun or ended. It grows while the rank makes calls.
    pub fn calls(&self) -> Option<u64> {
        self.process.as_ref().map(|process| process.begun + process.ended)
    }

    fn file(&self, group: u64) -> Option<&FileSnapshot> {
        self.process.as_ref()?.group(group)
    }
}

/// A collective call that waits, and the ranks of this host.
#[derive(Clone, Copy, Debug)]
pub struct WaitingCall<'a> {
    /// The group of ranks.
    pub group: u64,
    /// The number of its ranks.
    pub size: u32,
    /// The call.
    pub call: CollectiveCall,
    /// The ranks of the group on this host.
    pub ranks: &'a [RankSnapshot],
}

impl WaitingCall<'_> {
    /// The ranks that have not begun the call.
    fn missing(&self) -> impl Iterator<Item = (usize, &RankSnapshot)> {
        let is_missing = |rank: &RankSnapshot| {
            rank.file(self.group).is_some_and(|file| file.collectives < self.call.number)
        };
        self.ranks.iter().enumerate().filter(move |(_, rank)| is_missing(rank))
    }

    /// The ranks that have begun the call or a later one.
    fn arrived(&self) -> impl Iterator<Item = (u32, &ProcessSnapshot, &FileSnapshot)> {
        self.ranks.iter().filter_map(|rank| {
            let file = rank.file(self.group).filter(|file| file.collectives >= self.call.number)?;
            Some((rank.rank, rank.process.as_ref()?, file))
        })
    }

    /// Whether a missing rank is in another access, or has made a call since the last look.
    pub fn is_slow_io(&self, moving: impl Fn(usize) -> bool) -> bool {
        self.missing().any(|(index, rank)| {
            let in_access = |process: &ProcessSnapshot| {
                process.is_in_call() && process.wait().is_none() && process.call != OPEN
            };
            moving(index) || rank.process.as_ref().is_some_and(in_access)
        })
    }

    /// The rank of this host that prints the line: the one that has waited longest.
    pub fn reporter(&self) -> Option<u32> {
        let waiting = self.arrived().filter_map(|(rank, _, file)| Some((file.waiting_since?, rank)));
        waiting.min().map(|(_, rank)| rank)
    }

    /// The function that most ranks of this call are in.
    fn usual_call(&self) -> CallName {
        let count = |name: CallName| self.in_this_call().filter(|(_, _, file)| file.call == name).count();
        let names = self.in_this_call().map(|(_, _, file)| file.call);
        // Of several with the same count, `max_by_key` takes the last.
        names.collect::<Vec<_>>().into_iter().rev().max_by_key(|name| count(*name)).unwrap_or(self.call.name)
    }

    /// The ranks whose last collective call is this one.
    fn in_this_call(&self) -> impl Iterator<Item = (u32, &ProcessSnapshot, &FileSnapshot)> {
        self.arrived().filter(|(_, _, file)| file.collectives == self.call.number)
    }

    /// The line, or `None` if no rank is missing as far as this host knows. `elsewhere`: the other hosts, if a rank must be
    /// missing there unless one is missing here.
    pub fn describe(&self, waited: Duration, path: &str, elsewhere: &[String]) -> Option<String> {
        let usual = self.usual_call();
        let differs = |file: &FileSnapshot| file.collectives == self.call.number && file.call != usual;
        let same: Vec<u32> =
            self.arrived().filter(|(_, _, file)| !differs(file)).map(|(rank, ..)| rank).collect();
        let others = self.arrived().filter(|(_, _, file)| differs(file));
        let others = others.map(|(rank, process, file)| {
            let verb = if process.is_in_call() { "is in" } else { "was in" };
            format!("rank {rank} (process {}) {verb} {} instead", process.pid, file.call)
        });
        let missing =
            self.missing().filter_map(|(_, rank)| Some(last_seen(rank.rank, rank.process.as_ref()?)));
        let mut clauses: Vec<String> = others.chain(missing).collect();
        if clauses.is_empty() {
            if elsewhere.is_empty() {
                return None;
            }
            clauses.push(format!("ranks on other nodes are not there ({})", elsewhere.join(", ")));
        }
        let unknown: Vec<u32> =
            self.ranks.iter().filter(|rank| rank.file(self.group).is_none()).map(|rank| rank.rank).collect();
        if !unknown.is_empty() {
            clauses.push(format!("nothing is known of {}", list(&unknown)));
        }
        let (seconds, have) = (waited.as_secs(), if same.len() == 1 { "has" } else { "have" });
        let since = clock_time(waited);
        let sizes = self.sizes(usual);
        Some(format!(
            "{} of {} {have} waited {seconds} s in {usual} on {path} (since {since}{sizes}): {}",
            list(&same),
            self.size,
            clauses.join("; ")
        ))
    }

    /// How many bytes the ranks access, where they differ.
    fn sizes(&self, usual: CallName) -> String {
        let mut sizes: Vec<(u64, Vec<u32>)> = Vec::new();
        for (rank, _, file) in self.in_this_call().filter(|(_, _, file)| file.call == usual) {
            let Some(bytes) = file.bytes else { continue };
            match sizes.iter_mut().find(|(size, _)| *size == bytes) {
                Some((_, ranks)) => ranks.push(rank),
                None => sizes.push((bytes, vec![rank])),
            }
        }
        if sizes.len() < 2 {
            return String::new();
        }
        let part = |(bytes, ranks): &(u64, Vec<u32>)| format!(", {} with {bytes} bytes", list(ranks));
        let (shown, more) = sizes.split_at(sizes.len().min(MOST_SIZES));
        let more = if more.is_empty() { "" } else { ", others with other numbers" };
        shown.iter().map(part).collect::<String>() + more
    }
}

/// The number of different sizes that a line mentions.
const MOST_SIZES: usize = 4;

/// Where a missing rank was last seen.
fn last_seen(rank: u32, process: &ProcessSnapshot) -> String {
    let who = format!("rank {rank} (process {}) is not there: ", process.pid);
    let on = |path: &str| if path.is_empty() { String::new() } else { format!(" on {path}") };
    match process.wait() {
        Some(file) => format!("{who}it waits in {}{}", file.call, on(&file.path)),
        None if process.is_in_call() => format!("{who}it is in {}{}", process.call, on(&process.path)),
        None => format!("{who}its last MPI-IO call, {}{}, has ended", process.call, on(&process.path)),
    }
}

/// The ranks in words, neighbours as ranges.
fn list(ranks: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *rank => *last = *rank,
            _ => ranges.push((*rank, *rank)),
        }
    }
    let part = |(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    };
    let words: Vec<String> = ranges.iter().map(part).collect();
    format!("{} {}", if ranks.len() == 1 { "rank" } else { "ranks" }, words.join(", "))
}

/// The time of day that long ago, in UTC.
fn clock_time(ago: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let second = now.saturating_sub(ago).as_secs() % 86400;
    format!("{:02}:{:02}:{:02} UTC", second / 3600, second / 60 % 60, second % 60)
}

/// A line for every collective call of these processes that waits for a rank.
pub fn waiting_calls(processes: &[ProcessSnapshot]) -> Vec<String> {
    let mut groups: Vec<u64> =
        processes.iter().flat_map(|process| process.files.iter().map(|file| file.group)).collect();
    groups.sort_unstable();
    groups.dedup();
    groups.into_iter().filter_map(|group| waiting_call_of(group, processes)).collect()
}

fn waiting_call_of(group: u64, processes: &[ProcessSnapshot]) -> Option<String> {
    let members: Vec<(&ProcessSnapshot, &FileSnapshot)> =
        processes.iter().filter_map(|process| Some((process, process.group(group)?))).collect();
    let (_, first) = members
        .iter()
        .filter(|(_, file)| file.waiting_since.is_some())
        .max_by_key(|(_, file)| file.collectives)?;
    let mut ranks: Vec<RankSnapshot> = members
        .iter()
        .map(|(process, file)| RankSnapshot { rank: file.rank, process: Some((*process).clone()) })
        .collect();
    ranks.sort_by_key(|rank| rank.rank);
    let call = CollectiveCall { number: first.collectives, name: first.call };
    let since = members.iter().filter_map(|(_, file)| file.waiting_since).min()?;
    let waited = crate::now().saturating_sub(since);
    WaitingCall { group, size: first.ranks, call, ranks: &ranks }.describe(waited, &first.path, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: CallName = CallName::new("MPI_File_write_at_all");
    const SYNC: CallName = CallName::new("MPI_File_sync");

    fn rank(rank: u32, collectives: u64, call: CallName, bytes: u64, waits: Option<u64>) -> RankSnapshot {
        let file = FileSnapshot {
            group: 7,
            rank,
            ranks: 4,
            collectives,
            call,
            bytes: Some(bytes),
            waiting_since: waits.map(Duration::from_secs),
            path: "/out".into(),
        };
        let begun = 9;
        let ended = if waits.is_some() { 8 } else { 9 };
        let process = ProcessSnapshot {
            pid: 100 + rank,
            rank,
            ranks: 4,
            begun,
            ended,
            call,
            path: "/out".into(),
            files: vec![file],
            ..ProcessSnapshot::default()
        };
        RankSnapshot { rank, process: Some(process) }
    }

    fn waiting_call(ranks: &[RankSnapshot]) -> WaitingCall<'_> {
        WaitingCall { group: 7, size: 4, call: CollectiveCall { number: 3, name: WRITE }, ranks }
    }

    fn line(ranks: &[RankSnapshot]) -> Option<String> {
        waiting_call(ranks).describe(Duration::from_secs(60), "/out", &[])
    }

    #[test]
    fn a_line_says_who_is_missing_and_who_differs() {
        let ranks = [
            rank(0, 3, WRITE, 10, Some(50)),
            rank(1, 2, SYNC, 0, None),
            rank(2, 3, WRITE, 20, Some(40)),
            rank(3, 3, SYNC, 0, Some(45)),
        ];
        let text = line(&ranks).unwrap();
        assert!(
            text.starts_with("ranks 0, 2 of 4 have waited 60 s in MPI_File_write_at_all on /out (since ")
        );
        assert!(text.contains(" UTC, rank 0 with 10 bytes, rank 2 with 20 bytes): "), "{text}");
        assert!(text.contains("rank 3 (process 103) is in MPI_File_sync instead; "), "{text}");
        let last =
            "rank 1 (process 101) is not there: its last MPI-IO call, MPI_File_sync on /out, has ended";
        assert!(text.ends_with(last), "{text}");
        assert_eq!(waiting_call(&ranks).reporter(), Some(2));
    }

    #[test]
    fn ranks_that_are_all_there_are_no_news() {
        let mut ranks: Vec<_> = (0..4).map(|number| rank(number, 3, WRITE, 10, Some(50))).collect();
        assert_eq!(line(&ranks), None);
        // One is busy with the I/O of the call, and one has begun a later call.
        ranks[1] = rank(1, 3, WRITE, 10, None);
        ranks[2] = rank(2, 4, SYNC, 10, None);
        assert_eq!(line(&ranks), None);
        let nodes = ["b".to_owned(), "c".to_owned()];
        let text = waiting_call(&ranks).describe(Duration::from_secs(60), "/out", &nodes).unwrap();
        assert!(text.ends_with(": ranks on other nodes are not there (b, c)"), "{text}");
    }

    #[test]
    fn a_rank_in_another_access_is_slow_and_not_missing() {
        let mut ranks = [rank(0, 3, WRITE, 10, Some(50)), rank(1, 2, WRITE, 10, None)];
        assert!(!waiting_call(&ranks).is_slow_io(|_| false));
        assert!(waiting_call(&ranks).is_slow_io(|index| index == 1), "it makes calls");
        assert!(!waiting_call(&ranks).is_slow_io(|index| index == 0));
        let process = ranks[1].process.as_mut().unwrap();
        process.ended -= 1;
        process.call = CallName::new("MPI_File_read_at");
        assert!(waiting_call(&ranks).is_slow_io(|_| false), "it is in an access");
        ranks[1].process.as_mut().unwrap().call = OPEN;
        assert!(!waiting_call(&ranks).is_slow_io(|_| false), "it waits in an open");
        assert!(line(&ranks).unwrap().contains("it is in MPI_File_open"));
    }

    #[test]
    fn ranks_are_listed_as_ranges() {
        assert_eq!(list(&[5]), "rank 5");
        assert_eq!(list(&[0, 1, 2, 5, 7, 8]), "ranks 0-2, 5, 7-8");
    }
}
