//! Faults of processes and storage, while workers work and between rounds.

use std::fmt;

use crate::dice::Dice;

/// Kinds of faults that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Processes are killed.
    Kill,
    /// Processes are stopped for a while.
    Stop,
    /// Servers are told to end.
    Term,
    /// The partition goes down and up.
    Down,
    /// Storage is full for a while.
    Full,
    /// All memory is lost.
    Host,
    /// Stored files are lost or changed.
    Lost,
}

/// All of them with the names they have in options.
pub const KINDS: [(FaultKind, &str, &str); 7] = [
    (FaultKind::Kill, "kill", "kill -9 of servers, supervisors and clients, also in the middle of a call"),
    (FaultKind::Stop, "stop", "SIGSTOP and SIGCONT of servers and clients, for short and beyond deadlines"),
    (FaultKind::Term, "term", "SIGTERM of servers"),
    (
        FaultKind::Down,
        "down",
        "pario down and pario up, also while a client is stopped in the middle of a copy",
    ),
    (FaultKind::Full, "full", "storage that is full for a while (needs root)"),
    (FaultKind::Host, "host", "everything killed and all memory lost: what was synced or closed stays"),
    (FaultKind::Lost, "lost", "stored files removed, shortened or changed after a down"),
];

/// A fault while workers work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    KillServer {
        server: usize,
    },
    /// With its supervisor; started again by `pario up`.
    KillServerForGood {
        server: usize,
    },
    KillAllServers,
    KillClient {
        slot: usize,
    },
    StopServer {
        server: usize,
        millis: u64,
    },
    StopClient {
        slot: usize,
        millis: u64,
    },
    TermServer {
        server: usize,
    },
    DownUp,
    /// A client is stopped, which may be in the middle of a copy, until the partition was down and is up again.
    DownUpAround {
        slot: usize,
    },
    FullStorage {
        millis: u64,
    },
}

/// A fault after the workers have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Nothing,
    /// All memory is lost after a successful `pario down`, which has stored everything.
    Down,
    /// The same where servers had been killed before.
    KillThenDown,
    /// The same for servers that got SIGTERM.
    TermAll,
    HostLost,
    LostFiles,
}

impl Fault {
    /// A fault of one of these kinds.
    pub fn choose(dice: &mut Dice, kinds: &[FaultKind], servers: usize, slots: usize) -> Option<Fault> {
        let kinds: Vec<FaultKind> =
            kinds.iter().copied().filter(|kind| !matches!(kind, FaultKind::Host | FaultKind::Lost)).collect();
        if kinds.is_empty() {
            return None;
        }
        let (server, slot) = (dice.index(servers), dice.index(slots));
        let short = 5 + dice.below(400);
        Some(match dice.pick(&kinds) {
            FaultKind::Kill => match dice.below(8) {
                0 => Fault::KillServerForGood { server },
                1 => Fault::KillAllServers,
                2 | 3 => Fault::KillClient { slot },
                _ => Fault::KillServer { server },
            },
            // Beyond the deadline of calls, now and then.
            FaultKind::Stop => match dice.below(12) {
                0 => Fault::StopServer { server, millis: 5500 },
                1..=5 => Fault::StopServer { server, millis: short },
                _ => Fault::StopClient { slot, millis: short },
            },
            FaultKind::Term => Fault::TermServer { server },
            FaultKind::Down => match dice.below(3) {
                0 => Fault::DownUp,
                _ => Fault::DownUpAround { slot },
            },
            _ => Fault::FullStorage { millis: 100 + dice.below(900) },
        })
    }

    /// The kind that asks for it.
    pub fn kind(self) -> FaultKind {
        match self {
            Fault::KillServer { .. }
            | Fault::KillServerForGood { .. }
            | Fault::KillAllServers
            | Fault::KillClient { .. } => FaultKind::Kill,
            Fault::StopServer { .. } | Fault::StopClient { .. } => FaultKind::Stop,
            Fault::TermServer { .. } => FaultKind::Term,
            Fault::DownUp | Fault::DownUpAround { .. } => FaultKind::Down,
            Fault::FullStorage { .. } => FaultKind::Full,
        }
    }
}

impl Ending {
    /// An ending of one of these kinds.
    pub fn choose(dice: &mut Dice, kinds: &[FaultKind]) -> Ending {
        let endings = [
            (FaultKind::Down, Ending::Down),
            (FaultKind::Kill, Ending::KillThenDown),
            (FaultKind::Term, Ending::TermAll),
            (FaultKind::Host, Ending::HostLost),
            (FaultKind::Lost, Ending::LostFiles),
        ];
        let mut possible: Vec<Ending> =
            endings.iter().filter(|(kind, _)| kinds.contains(kind)).map(|(_, ending)| *ending).collect();
        possible.push(Ending::Nothing);
        dice.pick(&possible)
    }

    /// The kind that asks for it.
    pub fn kind(self) -> Option<FaultKind> {
        match self {
            Ending::Nothing => None,
            Ending::Down => Some(FaultKind::Down),
            Ending::KillThenDown => Some(FaultKind::Kill),
            Ending::TermAll => Some(FaultKind::Term),
            Ending::HostLost => Some(FaultKind::Host),
            Ending::LostFiles => Some(FaultKind::Lost),
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(KINDS.iter().find(|(kind, ..)| kind == self).map_or("", |(_, name, _)| name))
    }
}
