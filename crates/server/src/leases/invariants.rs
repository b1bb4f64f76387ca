//! The invariants of the lease table, which hold whenever no thread holds its lock. Tests and simulations check it.

use std::time::Duration;

use pario_runtime::time::Instant;
use pario_types::ClientId;

use super::lease_table::{Holder, LeaseTable, Team};

/// How long after its time the check for mailboxes that did not yield may still be ahead: a server that stands still, or whose thread
/// pauses, is late.
const LATEST_CHECK: Duration = Duration::from_secs(30);

/// Checks the leases of this server in simulations.
#[cfg(pario_simulation)]
pub(super) fn watch(leases: &std::sync::Arc<super::Leases>) {
    use pario_runtime::simulation::invariants::{Depth, watch};
    watch("leases", leases, |leases, depth| {
        let check = |both: &(LeaseTable, super::log::LeaseLog)| {
            both.0.check_invariants(Instant::now())?;
            both.0.check_recorded()?;
            both.0.check_gates(&leases.gates)?;
            if depth == Depth::Idle { both.0.check_idle() } else { Ok(()) }
        };
        leases.table.inspect(check).unwrap_or(Ok(()))
    });
}

impl LeaseTable {
    /// Teams, mailboxes, recalls and locks agree. The lock manager sees to it that two teams have no common bytes.
    pub fn check_invariants(&self, now: Instant) -> Result<(), String> {
        self.manager.check_invariants()?;
        self.check_teams()?;
        self.check_recalls(now)?;
        self.check_tickets()?;
        for (holder, file) in self.manager.cached_files() {
            let Holder::Team(team) = holder else {
                return Err(format!("{holder:?} has a lease on {file:?}"));
            };
            if !self.leased.contains(&file) {
                return Err(format!("{team:?} has a lease on {file:?}, which counts as one without leases"));
            }
            if !self.teams.get(&team).is_some_and(|members| members.files.contains(&file)) {
                return Err(format!("{team:?} has a lease on {file:?} that is not among its files"));
            }
        }
        match self.leased.iter().find(|file| self.manager.is_idle(**file)) {
            None => Ok(()),
            Some(file) => Err(format!("{file:?} counts as leased without any lock")),
        }
    }

    fn check_teams(&self) -> Result<(), String> {
        for (team, members) in &self.teams {
            let is_there = |client| self.mailboxes.get(client).is_some_and(|mailbox| mailbox.team == *team);
            if members.mailboxes.is_empty() {
                return Err(format!("{team:?} has no mailbox"));
            }
            if let Some(client) = members.mailboxes.iter().find(|client| !is_there(**client)) {
                return Err(format!("{team:?} has the mailbox of {client:?}, which does not exist"));
            }
        }
        let is_lost = |team: Team, client: ClientId| {
            !self.teams.get(&team).is_some_and(|members| members.mailboxes.contains(&client))
        };
        match self.mailboxes.iter().find(|(client, mailbox)| is_lost(mailbox.team, *client)) {
            None => Ok(()),
            Some((client, mailbox)) => Err(format!("{:?} does not have {client:?}", mailbox.team)),
        }
    }

    /// Every recall waits for a mailbox of its team, and its time is watched.
    fn check_recalls(&self, now: Instant) -> Result<(), String> {
        for (number, recall) in &self.recalls {
            let wrong = |why: &str| Err(format!("recall {number} {why}: {recall:?}"));
            let Some(members) = self.teams.get(&recall.team()) else {
                return wrong("is of a team that does not exist");
            };
            if recall.owing.is_empty() || !recall.owing.is_subset(&members.mailboxes) {
                return wrong("waits for no mailbox of its team");
            }
            let is_valid = recall.owing.iter().any(|client| self.mailboxes.is_valid(*client));
            if is_valid && self.next_check.is_none_or(|check| check > recall.due) {
                return wrong("is not watched");
            }
        }
        if !self.overdue.is_empty() && self.next_check.is_none() {
            return Err(format!("the mailboxes of {:?} are to be cut off, and nobody does it", self.overdue));
        }
        match self.next_check.filter(|check| now > *check + LATEST_CHECK) {
            None => Ok(()),
            Some(check) => Err(format!("mailboxes should have been checked {:?} ago", now - check)),
        }
    }

    /// All changes are in the log, so that a successor knows them.
    #[cfg(pario_simulation)]
    fn check_recorded(&self) -> Result<(), String> {
        let changed = &self.changed;
        if changed.mailboxes.is_empty() && changed.leases.is_empty() {
            Ok(())
        } else {
            Err(format!("a successor would not know of {changed:?}"))
        }
    }

    /// A file with leases has a closed gate, and no other file has closed one.
    #[cfg(pario_simulation)]
    fn check_gates(&self, gates: &super::gates::Gates) -> Result<(), String> {
        if let Some(file) = self.leased.iter().find(|file| !gates.is_closed(**file)) {
            return Err(format!("the gate of {file:?} is open, but it has leases"));
        }
        let (closed, leased) = (gates.closed(), self.leased.len() as u64);
        if closed == leased {
            Ok(())
        } else {
            Err(format!("{leased} files have leases, {closed} gates are closed"))
        }
    }
}
