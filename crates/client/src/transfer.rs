//! Moving bytes between the user's memory and all servers of a file at the same time.
//!
//! Each server has a lane. Requests go out to all lanes before answers are waited for, and nothing starts a
//! thread. Programs that access a file together begin with different servers if they are told to
//! ([`File::set_start`](crate::File::set_start)), or all of them would besiege the first.
//!
//! **The end of the file.** A byte that a server has below its local end lies within the file. If others are
//! asked for, sending stops, the servers are asked how far they reach, and what may lie beyond the end is
//! read again below the size that came out: bytes are only ever counted that were read after it was certain
//! that the file has them.
//!
//! **Copies.** What several servers keep is read from one of them, and from another if that one fails; it is written to
//! all of them under a lock ([`crate::copies`]).

use std::ops::Range;
use std::time::Instant;

use pario_types::ServerId;

use crate::copies::to_lock;
use crate::error::{Error, Result};
use crate::lane::Lane;
use crate::memory::{Access, Memory};
use crate::open::Open;
use crate::plan::{Chunk, Place};

/// Does the whole access: how many leading bytes of it there were.
pub(crate) fn transfer(open: &Open, memory: Memory<'_, '_>, ahead: u16) -> Result<usize> {
    let mut access = Access { memory, ceiling: None, unsure: false, ahead };
    let mut from = Place::default();
    loop {
        let ceiling = access.ceiling.unwrap_or(u64::MAX);
        let planned = access.memory.plan(&open.layout, &|set| open.pick(set), from, ceiling);
        if planned.shares.iter().all(Vec::is_empty) {
            break;
        }
        from = planned.next;
        match planned.copied.is_empty() {
            true => carry_all(open, planned.shares, &mut access)?,
            false => write_copies(open, planned.shares, planned.copied, &mut access)?,
        }
    }
    Ok(access.memory.leading(access.ceiling.unwrap_or(u64::MAX)))
}

/// Writes what goes to several servers, at a time when nobody else does. Should it turn out that somebody could, it is written
/// again.
fn write_copies(
    open: &Open,
    shares: Vec<Vec<Chunk>>,
    copied: Vec<Range<u64>>,
    access: &mut Access<'_, '_>,
) -> Result<()> {
    let begun = Instant::now();
    let copied = to_lock(copied);
    loop {
        let lock = open.lock_copies(&copied, true)?;
        let carried = carry_all(open, shares.clone(), access);
        let held = open.unlock_copies(lock, carried.is_ok());
        carried?;
        if held? {
            return Ok(());
        }
        if begun.elapsed() > open.core.options.deadline {
            return Err(Error::Contended { file: open.file, waited: begun.elapsed() });
        }
    }
}

/// Moves planned chunks, asking for the file's size if that is needed.
fn carry_all(open: &Open, shares: Vec<Vec<Chunk>>, access: &mut Access<'_, '_>) -> Result<()> {
    let mut left: Work = open.layout.holders().zip(shares).collect();
    left.retain(|(_, chunks)| !chunks.is_empty());
    let writes: Vec<ServerId> = match access.memory.is_read() {
        true => Vec::new(),
        false => left.iter().map(|(server, _)| *server).collect(),
    };
    let marks: Vec<_> = writes.iter().map(|server| open.will_write(*server)).collect();
    let wary = access.memory.is_read() && open.layout.has_copies();
    if wary && access.ceiling.is_some() {
        open.read_furthest(&mut left, |chunk| access.memory.offset_of(chunk));
    }
    let begun = Instant::now();
    let mut outcome = Ok(());
    while outcome.is_ok() && !left.is_empty() {
        // From then on a server that fails is waited for, and told about.
        let hopeful = access.memory.is_read() && begun.elapsed() < open.core.options.deadline;
        outcome = carry(open, std::mem::take(&mut left), hopeful, access).and_then(|remaining| {
            left = remaining;
            if access.unsure && wary && open.read_furthest(&mut left, |chunk| access.memory.offset_of(chunk))
            {
                access.unsure = false;
            }
            if access.unsure {
                let size = open.ask_size()?;
                (access.ceiling, access.unsure) = (Some(size), false);
                left.iter_mut().for_each(|(_, chunks)| access.memory.clip(chunks, size));
                left.retain(|(_, chunks)| !chunks.is_empty());
            }
            Ok(())
        });
    }
    marks.into_iter().for_each(|mark| open.has_written(mark));
    outcome
}

/// Servers, and what is to be moved between memory and them.
pub(crate) type Work = Vec<(ServerId, Vec<Chunk>)>;

/// Moves chunks until all are done, or it has to be asked how large the file is, or a server fails that others can stand
/// in for, if these are `hopeful`: then those that are left, each with the server that it is to be had from.
fn carry(open: &Open, mut work: Work, hopeful: bool, access: &mut Access<'_, '_>) -> Result<Work> {
    // Turns are taken in this order, each once.
    work = merged(work);
    let mut lanes = Vec::with_capacity(work.len());
    let mut stranded = Vec::new();
    for (server, chunks) in work {
        let spare = hopeful && open.have_others(server, &chunks, |chunk| access.memory.offset_of(chunk));
        match Lane::hold(&open.core, server, open.file, spare) {
            Ok(lane) => lanes.push((lane, chunks)),
            Err(_) if spare => {
                open.core.link(server)?.is_down_now();
                stranded.extend(chunks);
            }
            Err(error) => return Err(error),
        }
    }
    // Only now that all can be reached: a write that not all servers can hear of is heard of by none.
    let (mut lanes, chunks): (Vec<_>, Vec<_>) = lanes.into_iter().unzip();
    lanes.iter_mut().zip(chunks).for_each(|(lane, chunks)| lane.begin(chunks, access));
    let servers: Vec<ServerId> = lanes.iter().map(Lane::server).collect();
    lanes.rotate_left(first_visited(&servers, open.visits_first()));
    let mut failure = None;
    let mut waiting = true;
    while waiting {
        let mut sending = failure.is_none();
        while sending && !access.unsure {
            sending = false;
            for lane in lanes.iter_mut().filter(|lane| !lane.has_failed()) {
                sending |= lane.send(access)?;
            }
        }
        waiting = false;
        for lane in lanes.iter_mut().filter(|lane| lane.is_waiting()) {
            waiting = true;
            // What the others answer is taken in as well, so that their connections can go on being used.
            if let Err(error) = lane.receive(access) {
                failure.get_or_insert(error);
            }
        }
    }
    if let Some(error) = failure {
        return Err(error);
    }
    let mut left = Vec::new();
    for lane in &mut lanes {
        let remaining = lane.take_remaining();
        match lane.has_failed() {
            true => stranded.extend(remaining),
            false => left.push((lane.server(), remaining)),
        }
    }
    left.extend(open.read_elsewhere(stranded, |chunk| access.memory.offset_of(chunk)));
    Ok(merged(left))
}

/// Each server once, and only those that have something to do.
fn merged(mut work: Work) -> Work {
    work.sort_by_key(|(server, _)| *server);
    work.dedup_by(|(server, more), (before, chunks)| {
        let same = server == before;
        if same {
            chunks.append(more);
        }
        same
    });
    work.retain(|(_, chunks)| !chunks.is_empty());
    work
}

/// With which of these servers, which are in order, an access begins that would like to begin with a certain one: if that
/// is not among them, with the next.
pub(crate) fn first_visited(servers: &[ServerId], wanted: ServerId) -> usize {
    servers.iter().position(|server| *server >= wanted).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_begin_where_they_should_or_right_after() {
        let servers = [1, 2, 5].map(ServerId);
        let first = |wanted| first_visited(&servers, ServerId(wanted));
        assert_eq!([0, 1, 2, 3, 5, 6].map(first), [0, 0, 1, 2, 2, 0]);
        assert_eq!(first_visited(&[], ServerId(3)), 0);
    }
}
