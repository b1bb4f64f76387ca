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

use pario_units::ServerId;

use crate::error::Result;
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
        let (shares, next) = access.memory.plan(&open.striping, from, ceiling);
        if shares.iter().all(Vec::is_empty) {
            break;
        }
        carry_all(open, shares, &mut access)?;
        from = next;
    }
    Ok(access.memory.leading(access.ceiling.unwrap_or(u64::MAX)))
}

/// Moves planned chunks, asking for the file's size if that is needed.
fn carry_all(open: &Open, shares: Vec<Vec<Chunk>>, access: &mut Access<'_, '_>) -> Result<()> {
    let mut left: Vec<(ServerId, Vec<Chunk>)> = open.striping.holders().zip(shares).collect();
    left.retain(|(_, chunks)| !chunks.is_empty());
    let writes: Vec<ServerId> = match access.memory.is_read() {
        true => Vec::new(),
        false => left.iter().map(|(server, _)| *server).collect(),
    };
    let marks: Vec<_> = writes.iter().map(|server| open.will_write(*server)).collect();
    let mut outcome = Ok(());
    while outcome.is_ok() && !left.is_empty() {
        outcome = carry(open, std::mem::take(&mut left), access).and_then(|unsure| {
            left = unsure;
            if !left.is_empty() {
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

/// Moves chunks until all are done or it has to be asked how large the file is: then those that are left.
fn carry(
    open: &Open,
    mut work: Vec<(ServerId, Vec<Chunk>)>,
    access: &mut Access<'_, '_>,
) -> Result<Vec<(ServerId, Vec<Chunk>)>> {
    // Turns are taken in this order.
    work.sort_unstable_by_key(|(server, _)| *server);
    let mut lanes = Vec::with_capacity(work.len());
    for (server, chunks) in work {
        lanes.push(Lane::start(&open.core, server, open.file, chunks, access)?);
    }
    let servers: Vec<ServerId> = lanes.iter().map(Lane::server).collect();
    lanes.rotate_left(first_visited(&servers, open.visits_first()));
    let mut failure = None;
    let mut waiting = true;
    while waiting {
        let mut sending = failure.is_none();
        while sending && !access.unsure {
            sending = false;
            for lane in &mut lanes {
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
    match failure {
        Some(error) => Err(error),
        None => {
            let left = lanes.iter_mut().map(|lane| (lane.server(), lane.take_remaining()));
            Ok(left.filter(|(_, chunks)| !chunks.is_empty()).collect())
        }
    }
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
