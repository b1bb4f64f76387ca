//! The way to real servers.
//!
//! A team has three sets of connections besides the program's own. Data goes by two that have joined the team, so that
//! it recalls nothing of the team's: reads may wait until others have given up what they have, and what is to be given up
//! to others is stored by the other, or two programs would wait for each other. Recalls come by the third, so that nothing
//! that is waited for keeps them from being heard. Leases are asked for by the program's own connections, whose accesses
//! recall as anybody's do.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pario_layout::Striping;
use pario_types::ServerId;
use pario_wire::greeting::Role;
use pario_wire::{Reply, Request, message};

use super::door::{Door, Heard, Mailbox, Recall};
use crate::core::{Core, Membership, succeeded, unexpected};
use crate::error::{Cause, Result};
use crate::file::File;
use crate::open::Open;

/// How long a server is asked to wait for a recall.
const POLL: Duration = Duration::from_secs(10);

/// How long the end of a mailbox may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// A team's connections.
pub(crate) struct Team {
    team: u128,
    reading: Arc<Core>,
    staging: Arc<Core>,
    post: Arc<Core>,
}

impl Team {
    pub fn new(core: &Core, team: u128) -> Result<Team> {
        // It never moves data, and so needs no place in the servers' pools.
        let post = Arc::new(core.sibling(Role::Tool, None)?);
        let membership = Membership { team, mailbox: post.client };
        let reading = Arc::new(core.sibling(core.options.role, Some(membership))?);
        let staging = Arc::new(core.sibling(core.options.role, Some(membership))?);
        Ok(Team { team, reading, staging, post })
    }
}

/// A file at its servers.
pub(crate) struct Servers {
    /// As the program has it open.
    file: File,
    /// The same by the team's connections.
    read: File,
    staged: File,
    is_near: bool,
    team: Arc<Team>,
}

impl Servers {
    pub fn new(file: &File, team: Arc<Team>) -> Servers {
        let alias = |core| File::new(Open::alias(core, file.open()));
        let (read, staged) = (alias(&team.reading), alias(&team.staging));
        Servers { file: file.clone(), read, staged, is_near: file.is_near(), team }
    }
}

impl Door for Servers {
    fn striping(&self) -> Striping {
        self.file.striping()
    }

    fn deadline(&self) -> Duration {
        self.file.open().core.options.deadline
    }

    fn may_access(&self, write: bool) -> Result<()> {
        if write { self.file.open().writes() } else { self.file.open().reads() }
    }

    fn is_near(&self) -> bool {
        self.is_near
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
        // For whoever syncs or closes the program's file it is as if it had written.
        let written = (0..).zip(places).filter_map(|(place, written)| written.then_some(place));
        let marks: Vec<_> = written.map(|place| open.begin_write(place)).collect();
        let outcome = self.staged.write_vectored_at(segments);
        marks.into_iter().for_each(|mark| open.has_written(mark));
        open.touch();
        outcome
    }

    fn size(&self) -> Result<u64> {
        self.read.len()
    }

    fn read_straight(&self, bytes: &mut [u8], offset: u64) -> Result<usize> {
        self.file.read_at(bytes, offset)
    }

    fn write_straight(&self, segments: &[(u64, &[u8])]) -> Result<()> {
        self.file.write_vectored_at(segments)
    }

    fn lease(&self, server: ServerId, range: Range<u64>) -> Result<Vec<Range<u64>>> {
        let ranges = vec![message::Range { at: range.start, len: range.end - range.start }];
        let request = Request::Lease { team: self.team.team, file: self.file.id(), ranges };
        match self.file.open().core.call(server, &request)? {
            Reply::Leased { extents } => Ok(extents.iter().map(local).collect()),
            reply => Err(unexpected(server, &request, &reply)),
        }
    }

    fn mailbox(&self, server: ServerId) -> Box<dyn Mailbox> {
        Box::new(PostBox { team: Arc::clone(&self.team), server })
    }
}

/// A connection that is a mailbox. Only [`attach`](Mailbox::attach) makes it anew: who loses it does not know whether he
/// still has his leases.
struct PostBox {
    /// With it the team stays the same, as long as blocks are kept that it left here.
    team: Arc<Team>,
    server: ServerId,
}

impl PostBox {
    fn poll(&self, anew: bool, wait: Duration) -> Result<Heard> {
        let request = Request::Recalls { team: self.team.team, anew, wait_ms: wait.as_millis() as u32 };
        let asked = Instant::now();
        match self.ask(&request, wait)? {
            Reply::Recalled { recalls, good_ms } => {
                let each = |one: message::Recall| Recall {
                    number: one.number,
                    file: one.file,
                    range: local(&one.range),
                };
                let good_until = asked + Duration::from_millis(good_ms.into());
                Ok(Heard { recalls: recalls.into_iter().map(each).collect(), good_until })
            }
            reply => Err(unexpected(self.server, &request, &reply)),
        }
    }

    /// Asks on the connection that there is, or not at all.
    fn ask(&self, request: &Request, wait: Duration) -> Result<Reply> {
        let since = Instant::now();
        let deadline = since + wait + self.team.post.options.deadline;
        let mut held = self.team.post.hold(self.server, deadline)?;
        if !held.is_connected() {
            return Err(self.team.post.unreachable(self.server, since, Cause::NoAddress));
        }
        let sent = held.send(self.team.post.next_request(), request, &[], deadline);
        match sent.and_then(|()| held.receive(&mut [], deadline)) {
            Ok(reply) => succeeded(self.server, reply),
            Err(error) => {
                held.hang_up();
                Err(self.team.post.unreachable(self.server, since, Cause::Transport(error)))
            }
        }
    }
}

impl Mailbox for PostBox {
    fn attach(&mut self, anew: bool) -> Result<Heard> {
        let since = Instant::now();
        let deadline = since + self.team.post.options.deadline;
        let mut held = self.team.post.hold(self.server, deadline)?;
        held.hang_up();
        held.connect(since, deadline)?;
        drop(held);
        self.poll(anew, Duration::ZERO)
    }

    fn recalls(&mut self) -> Result<Heard> {
        self.poll(false, POLL)
    }

    fn give_up(&mut self, number: u64, gone: Range<u64>) -> Result<()> {
        let gone = message::Range { at: gone.start, len: gone.end - gone.start };
        let request = Request::Yield { number, gone };
        match self.ask(&request, Duration::ZERO)? {
            Reply::Done => Ok(()),
            reply => Err(unexpected(self.server, &request, &reply)),
        }
    }
}

impl Drop for PostBox {
    fn drop(&mut self) {
        let deadline = Instant::now() + FAREWELL;
        let Ok(mut held) = self.team.post.hold(self.server, deadline) else { return };
        if held.is_connected() {
            // Who does not hear it finds out when others want something.
            let sent = held.send(self.team.post.next_request(), &Request::Leave, &[], deadline);
            let _ = sent.and_then(|()| held.receive(&mut [], deadline));
        }
        held.hang_up();
    }
}

fn local(range: &message::Range) -> Range<u64> {
    range.at..range.at.saturating_add(range.len)
}
