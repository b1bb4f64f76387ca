//! Moves bytes between the program's memory and all servers of a file at the same time.
//!
//! Each server has a pipeline. Requests go to all servers before any reply is awaited, without threads. Programs that access a
//! file together can start with different servers ([`File::set_start`](crate::File::set_start)), so that not all of them
//! load the first one.
//!
//! **The end of the file.** A byte below a server's local end lies within the file. If a read asks for other bytes, it stops
//! sending, asks all servers for their local ends, and reads the doubtful bytes again below the resulting size. So only bytes
//! count that were read after it was certain that the file has them.
//!
//! **Replicas.** Replicated bytes are read from one server, and from another one if that fails. They are written to all of
//! them under a lock ([`crate::replicas::selection`]).

use std::ops::Range;

use pario_runtime::time::Instant;
use pario_types::ServerId;

use crate::error::{Error, Result};
use crate::io::memory::{Access, Memory};
use crate::io::plan::{Chunk, SegmentPosition};
use crate::io::server_pipeline::ServerPipeline;
use crate::metadata::open_file::OpenFile;
use crate::replicas::selection::to_lock;

/// Performs the whole access; returns the number of its leading bytes that exist.
pub(crate) fn transfer(open: &OpenFile, memory: Memory<'_, '_>, ahead: u16) -> Result<usize> {
    let mut access = Access { memory, ceiling: None, needs_size: false, ahead };
    let mut from = SegmentPosition::default();
    loop {
        let ceiling = access.ceiling.unwrap_or(u64::MAX);
        let planned = access.memory.plan(&open.layout, &|set| open.pick(set), from, ceiling);
        if planned.shares.iter().all(Vec::is_empty) {
            break;
        }
        from = planned.next;
        match planned.copied.is_empty() {
            true => run_all_io(open, planned.shares, &mut access)?,
            false => write_replicas(open, planned.shares, planned.copied, &mut access)?,
        }
    }
    // The metadata server may have removed the file meanwhile: then what was read are not its bytes.
    open.core.check_not_gone(open.file)?;
    Ok(access.memory.leading(access.ceiling.unwrap_or(u64::MAX)))
}

/// Writes replicated bytes under a lock. If the lock was lost meanwhile, it writes them again.
fn write_replicas(
    open: &OpenFile,
    shares: Vec<Vec<Chunk>>,
    copied: Vec<Range<u64>>,
    access: &mut Access<'_, '_>,
) -> Result<()> {
    let begun = Instant::now();
    let copied = to_lock(copied);
    loop {
        let lock = open.lock_replicas(&copied, true)?;
        let outcome = run_all_io(open, shares.clone(), access);
        let guard = open.unlock_replicas(lock, outcome.is_ok());
        outcome?;
        if guard? {
            return Ok(());
        }
        if begun.elapsed() > open.core.options.deadline {
            return Err(Error::Contended { file: open.file, waited: begun.elapsed() });
        }
    }
}

/// Moves planned chunks, and asks for the file's size if that is needed.
fn run_all_io(open: &OpenFile, shares: Vec<Vec<Chunk>>, access: &mut Access<'_, '_>) -> Result<()> {
    let mut left: Work = open.layout.holders().zip(shares).collect();
    left.retain(|(_, chunks)| !chunks.is_empty());
    let writes: Vec<ServerId> = match access.memory.is_read() {
        true => Vec::new(),
        false => left.iter().map(|(server, _)| *server).collect(),
    };
    let marks: Vec<_> = writes.iter().map(|server| open.will_write(*server)).collect();
    let checks_replicas = access.memory.is_read() && open.layout.has_replicas();
    if checks_replicas && access.ceiling.is_some() {
        open.read_furthest(&mut left, |chunk| access.memory.offset_of(chunk));
    }
    let begun = Instant::now();
    let mut outcome = Ok(());
    while outcome.is_ok() && !left.is_empty() {
        // From then on a failing server is waited for, and its error is returned.
        let may_fail_over = access.memory.is_read() && begun.elapsed() < open.core.options.deadline;
        outcome = run_io(open, std::mem::take(&mut left), may_fail_over, access).and_then(|remaining| {
            left = remaining;
            if access.needs_size
                && checks_replicas
                && open.read_furthest(&mut left, |chunk| access.memory.offset_of(chunk))
            {
                access.needs_size = false;
            }
            if access.needs_size {
                let size = open.ask_size()?;
                (access.ceiling, access.needs_size) = (Some(size), false);
                left.iter_mut().for_each(|(_, chunks)| access.memory.clip(chunks, size));
                left.retain(|(_, chunks)| !chunks.is_empty());
            }
            Ok(())
        });
    }
    marks.into_iter().for_each(|mark| open.has_written(mark));
    outcome
}

/// Servers, and the chunks to move between memory and them.
pub(crate) type Work = Vec<(ServerId, Vec<Chunk>)>;

/// Moves chunks until all are done, or the file's size is needed, or a server fails that others can replace, if these are
/// `hopeful`. Then returns the remaining chunks, each with the server to read it from.
fn run_io(open: &OpenFile, mut work: Work, may_fail_over: bool, access: &mut Access<'_, '_>) -> Result<Work> {
    // The pipelines are served in this order, each once per turn.
    work = merged(work);
    let mut pipelines = Vec::with_capacity(work.len());
    let mut stranded = Vec::new();
    for (server, chunks) in work {
        let is_replaceable =
            may_fail_over && open.have_others(server, &chunks, |chunk| access.memory.offset_of(chunk));
        match ServerPipeline::acquire(open, server, is_replaceable) {
            Ok(pipeline) => pipelines.push((pipeline, chunks)),
            Err(_) if is_replaceable => {
                open.core.server_connection(server)?.mark_down();
                stranded.extend(chunks);
            }
            Err(error) => return Err(error),
        }
    }
    // Writes start only when all servers are connected: a write that cannot reach all servers reaches none.
    let (mut pipelines, chunks): (Vec<_>, Vec<_>) = pipelines.into_iter().unzip();
    pipelines.iter_mut().zip(chunks).for_each(|(pipeline, chunks)| pipeline.begin(chunks, access));
    let servers: Vec<ServerId> = pipelines.iter().map(ServerPipeline::server).collect();
    pipelines.rotate_left(starting_index(&servers, open.starting_server()));
    let mut failure = None;
    let mut waiting = true;
    while waiting {
        let mut sending = failure.is_none();
        while sending && !access.needs_size {
            sending = false;
            for pipeline in pipelines.iter_mut().filter(|pipeline| !pipeline.has_failed()) {
                sending |= pipeline.send(access)?;
            }
        }
        waiting = false;
        for pipeline in pipelines.iter_mut().filter(|pipeline| pipeline.is_waiting()) {
            waiting = true;
            // The replies of the others are received as well, so that their connections stay usable.
            if let Err(error) = pipeline.receive(access) {
                failure.get_or_insert(error);
            }
        }
    }
    if let Some(error) = failure {
        return Err(error);
    }
    let mut left = Vec::new();
    for pipeline in &mut pipelines {
        let remaining = pipeline.take_remaining();
        match pipeline.has_failed() {
            true => stranded.extend(remaining),
            false => left.push((pipeline.server(), remaining)),
        }
    }
    left.extend(open.read_elsewhere(stranded, |chunk| access.memory.offset_of(chunk)));
    Ok(merged(left))
}

/// Each server once, and only those with chunks.
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

/// Returns the server, of these in order, with which an access begins that prefers a certain one: that one or else the
/// next.
pub(crate) fn starting_index(servers: &[ServerId], wanted: ServerId) -> usize {
    servers.iter().position(|server| *server >= wanted).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_begin_with_the_given_server_or_the_next() {
        let servers = [1, 2, 5].map(ServerId);
        let first = |wanted| starting_index(&servers, ServerId(wanted));
        assert_eq!([0, 1, 2, 3, 5, 6].map(first), [0, 0, 1, 2, 2, 0]);
        assert_eq!(starting_index(&[], ServerId(3)), 0);
    }
}
