//! The report on ranks that a collective call waits for.
//!
//! When a call has waited for some time (`PARIO_ROLLCALL`), one of the waiting ranks of the node reads the records of
//! all ranks of the node (crate `activity`) and prints a line: which ranks are in the call, and where those that are
//! not were last seen. It prints another line after ten times that time. Slow I/O causes no line: a rank that has
//! begun the same call is not missing, and neither is one that is in another access to a file, or that has made a
//! call since the last look.
//!
//! A node knows only its own ranks. If all of these have come, and the wait is for the arguments of the others, so
//! that it cannot be for slow I/O, the first two nodes say that ranks on other nodes are missing.

use std::time::Duration;

use pario_activity::{CollectiveCall, ProcessSnapshot, RankSnapshot, WaitingCall};

use crate::env::{env, warn};
use crate::file_group::FileGroup;

/// The interval of the looks at the other ranks.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// One wait for other ranks that has taken long enough to be recorded.
pub(crate) struct MissingRanksWatch {
    call: CollectiveCall,
    since: Duration,
    /// The length of the wait at which the next line is due.
    due: Option<Duration>,
    /// The numbers of calls of each rank at the last look.
    seen: Option<Vec<Option<u64>>>,
}

impl MissingRanksWatch {
    /// Begins to watch a wait. `None` if the user wants no report, or if the calls of this rank are not recorded.
    pub fn begin(group: &FileGroup, call: Option<CollectiveCall>) -> Option<MissingRanksWatch> {
        let (call, file) = (call?, group.activity()?);
        let since = pario_activity::now();
        file.begin_wait(since);
        Some(MissingRanksWatch { call, since, due: env().missing_ranks_after, seen: None })
    }

    /// Looks at the other ranks if it is time to. `before_io`: no rank can be busy with the I/O of this call yet.
    pub fn look(&mut self, group: &FileGroup, before_io: bool) {
        let waited = pario_activity::now().saturating_sub(self.since);
        let Some(due) = self.due.filter(|due| waited + LOOK_INTERVAL >= *due) else { return };
        let ranks: Vec<RankSnapshot> = group
            .local_ranks()
            .map(|(rank, pid)| RankSnapshot { rank, process: ProcessSnapshot::of(pid) })
            .collect();
        let counts: Vec<Option<u64>> = ranks.iter().map(RankSnapshot::calls).collect();
        let before = self.seen.replace(counts.clone());
        if waited < due {
            return;
        }
        let waiting_call =
            WaitingCall { group: group.id(), size: group.size, call: self.call, ranks: &ranks };
        let moving = |rank: usize| before.as_ref().is_none_or(|before| before[rank] != counts[rank]);
        let interval = env().missing_ranks_after.unwrap_or(due);
        if waiting_call.is_slow_io(moving) {
            self.due = Some(waited + interval);
            return;
        }
        self.due = (due == interval).then_some(10 * interval);
        if let Some(line) = waiting_call.describe(waited, &path(group), &elsewhere(group, before_io))
            && waiting_call.reporter() == Some(group.rank)
        {
            warn(&line);
        }
    }

    /// Records the end of the wait.
    pub fn end(&self, group: &FileGroup) {
        if let Some(file) = group.activity() {
            file.end_wait(self.since);
        }
    }
}

/// The file that the group has open.
fn path(group: &FileGroup) -> String {
    let own = ProcessSnapshot::of(std::process::id());
    own.and_then(|own| Some(own.group(group.id())?.path.clone())).unwrap_or_default()
}

/// The other nodes, if this node may say that ranks are missing there.
fn elsewhere(group: &FileGroup, before_io: bool) -> Vec<String> {
    let mine = group.node_map().node_of[group.rank as usize];
    if !before_io || mine > 1 {
        return Vec::new();
    }
    let others = (0..).zip(&group.names).filter(|(node, _)| *node != mine);
    others.map(|(_, name)| name.clone()).collect()
}
