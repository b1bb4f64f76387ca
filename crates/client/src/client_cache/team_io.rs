//! I/O of a team with real servers.
//!
//! A team has three sets of connections besides the program's own. Two of them have joined the team, so that their accesses do
//! not recall the team's own leases: one reads, the other stages. They are separate because a read may wait until another
//! program gives up its leases, and that program may wait for what is being staged here. The third set receives recalls, so
//! that no wait delays a recall. Lease requests use the program's own connections, which recall the leases of others like any
//! access.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pario_layout::Striping;
use pario_runtime::time::Instant;
use pario_types::ServerId;
use pario_wire::greeting::Role;
use pario_wire::{Reply, Request, message};

use super::server_io::{Mailbox, MailboxReply, Recall, ServerIo};
use crate::client_core::{ClientCore, Membership, succeeded, unexpected};
use crate::error::{Cause, Result};
use crate::file::File;
use crate::metadata::open_file::OpenFile;

/// The time for which a server is asked to wait for a recall.
const POLL: Duration = Duration::from_secs(10);

/// The time limit for the end of a mailbox.
const DETACH_DEADLINE: Duration = Duration::from_secs(1);

/// A team's connections.
pub(crate) struct TeamConnections {
    team: u128,
    reading: Arc<ClientCore>,
    staging: Arc<ClientCore>,
    recalls: Arc<ClientCore>,
}

impl TeamConnections {
    pub fn new(core: &ClientCore, team: u128) -> Result<TeamConnections> {
        // It never moves data, and so needs no mapped pools.
        let recalls = Arc::new(core.sibling(Role::Tool, None)?);
        let membership = Membership { team, mailbox: recalls.client };
        let reading = Arc::new(core.sibling(core.options.role, Some(membership))?);
        let staging = Arc::new(core.sibling(core.options.role, Some(membership))?);
        Ok(TeamConnections { team, reading, staging, recalls })
    }
}

/// A file at its servers.
pub(crate) struct TeamIo {
    /// As opened by the program.
    file: File,
    /// The same file on the team's connections.
    read: File,
    staged: File,
    is_local: bool,
    team: Arc<TeamConnections>,
}

impl TeamIo {
    pub fn new(file: &File, team: Arc<TeamConnections>) -> TeamIo {
        let alias = |core| File::new(OpenFile::alias(core, file.open()));
        let (read, staged) = (alias(&team.reading), alias(&team.staging));
        TeamIo { file: file.clone(), read, staged, is_local: file.is_local(), team }
    }
}

impl ServerIo for TeamIo {
    fn striping(&self) -> Striping {
        self.file.striping()
    }

    fn deadline(&self) -> Duration {
        self.file.open().core.options.deadline
    }

    fn may_access(&self, write: bool) -> Result<()> {
        if write { self.file.open().writes() } else { self.file.open().reads() }
    }

    fn is_local(&self) -> bool {
        self.is_local
    }

    fn read(&self, segments: &mut [(u64, &mut [u8])]) -> Result<usize> {
        self.read.read_vectored_at(segments)
    }

    fn write(&self, segments: &[(u64, &[u8])]) -> Result<()> {
        let open = self.file.open();
        let mut places = vec![false; usize::from(self.striping().count())];
        for (offset, bytes) in segments {
            for share in self.striping().shares(*offset..*offset + bytes.len() as u64) {
                places[usize::from(self.striping().place(share.server).expect("a holder"))] = true;
            }
        }
        // A sync or close of the program's file treats these bytes as its own writes.
        let written = (0..).zip(places).filter_map(|(place, written)| written.then_some(place));
        let marks: Vec<_> = written.map(|place| open.begin_write(place)).collect();
        let outcome = self.staged.write_vectored_at(segments);
        marks.into_iter().for_each(|mark| open.has_written(mark));
        open.touch();
        outcome
    }

    fn report_loss(&self) {
        self.file.open().report_loss();
    }

    fn size(&self) -> Result<u64> {
        self.read.len()
    }

    fn read_direct(&self, bytes: &mut [u8], offset: u64) -> Result<usize> {
        self.file.read_at(bytes, offset)
    }

    fn write_direct(&self, segments: &[(u64, &[u8])]) -> Result<()> {
        self.file.write_vectored_at(segments)
    }

    fn lease(&self, server: ServerId, range: Range<u64>) -> Result<Vec<Range<u64>>> {
        let ranges = vec![message::ByteRange { at: range.start, len: range.end - range.start }];
        let request = Request::Lease { team: self.team.team, file: self.file.id(), ranges };
        match self.file.open().core.call(server, &request)? {
            Reply::Leased { extents } => Ok(extents.iter().map(local).collect()),
            reply => Err(unexpected(server, &request, &reply)),
        }
    }

    fn mailbox(&self, server: ServerId) -> Box<dyn Mailbox> {
        Box::new(ServerMailbox { team: Arc::clone(&self.team), server })
    }
}

/// A connection that is a mailbox. Only [`attach`](Mailbox::attach) reconnects it: a process that loses it does not know
/// whether it still has its leases.
struct ServerMailbox {
    /// It keeps the team's identity as long as the cache has blocks that the team left here.
    team: Arc<TeamConnections>,
    server: ServerId,
}

impl ServerMailbox {
    fn poll(&self, anew: bool, wait: Duration) -> Result<MailboxReply> {
        let request = Request::PollRecalls { team: self.team.team, anew, wait_ms: wait.as_millis() as u32 };
        let asked = Instant::now();
        match self.ask(&request, wait)? {
            Reply::Recalled { recalls, good_ms } => {
                let each = |one: message::LeaseRecall| Recall {
                    number: one.number,
                    file: one.file,
                    range: local(&one.range),
                };
                let good_until = asked + Duration::from_millis(good_ms.into());
                Ok(MailboxReply { recalls: recalls.into_iter().map(each).collect(), good_until })
            }
            reply => Err(unexpected(self.server, &request, &reply)),
        }
    }

    /// Sends a request on the existing connection, or not at all.
    fn ask(&self, request: &Request, wait: Duration) -> Result<Reply> {
        let since = Instant::now();
        let deadline = since + wait + self.team.recalls.options.deadline;
        let mut guard = self.team.recalls.acquire(self.server, deadline)?;
        if !guard.is_connected() {
            return Err(self.team.recalls.unreachable(self.server, since, Cause::NoAddress));
        }
        let sent = guard.send(self.team.recalls.next_request(), request, &[], deadline);
        match sent.and_then(|()| guard.receive(&mut [], deadline)) {
            Ok(reply) => succeeded(self.server, reply),
            Err(error) => {
                guard.disconnect();
                Err(self.team.recalls.unreachable(self.server, since, Cause::Transport(error)))
            }
        }
    }
}

impl Mailbox for ServerMailbox {
    fn attach(&mut self, anew: bool) -> Result<MailboxReply> {
        let since = Instant::now();
        let deadline = since + self.team.recalls.options.deadline;
        let mut guard = self.team.recalls.acquire(self.server, deadline)?;
        guard.disconnect();
        guard.connect(since, deadline)?;
        drop(guard);
        self.poll(anew, Duration::ZERO)
    }

    fn recalls(&mut self) -> Result<MailboxReply> {
        self.poll(false, POLL)
    }

    fn give_up(&mut self, number: u64, gone: Range<u64>) -> Result<()> {
        let gone = message::ByteRange { at: gone.start, len: gone.end - gone.start };
        let request = Request::Yield { number, gone };
        match self.ask(&request, Duration::ZERO)? {
            Reply::Done => Ok(()),
            reply => Err(unexpected(self.server, &request, &reply)),
        }
    }
}

impl Drop for ServerMailbox {
    fn drop(&mut self) {
        let deadline = Instant::now() + DETACH_DEADLINE;
        let Ok(mut guard) = self.team.recalls.acquire(self.server, deadline) else { return };
        if guard.is_connected() {
            // If the request is lost, the server notices when another client requests the range.
            let sent = guard.send(self.team.recalls.next_request(), &Request::CloseMailbox, &[], deadline);
            let _ = sent.and_then(|()| guard.receive(&mut [], deadline));
        }
        guard.disconnect();
    }
}

fn local(range: &message::ByteRange) -> Range<u64> {
    range.at..range.at.saturating_add(range.len)
}
