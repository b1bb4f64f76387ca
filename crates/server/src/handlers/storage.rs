//! Local parts in the store: syncs, removals, lists and checks of blocks.

use pario_layout::units;
use pario_types::FileId;
use pario_wire::message::{ByteRange, LocalPart, Reply, Request};

use super::{Context, TaskState, TaskStep, check_file, done, wrong_family};
use crate::background::flusher::SyncProgress;
use crate::error::Result;
use crate::pool::pieces::check_ranges;

/// The largest number of blocks that one `VerifyBlocks` reads.
const MAX_VERIFIED: u64 = 1024;

/// The largest number of parts in one reply.
const MAX_LISTED: u32 = 10_000;

pub(super) fn handle(context: &Context<'_>, request: &Request, state: &mut TaskState) -> Result<TaskStep> {
    match request {
        Request::Sync { file, durable } => sync(context, state, *file, *durable),
        Request::Arrange { file, ranges } => arrange(context, *file, ranges),
        Request::RemoveParts { files } => remove(context, state, files),
        Request::ListParts { after, most } => list(context, *after, *most),
        Request::VerifyBlocks { file, from, most } => verify(context, state, *file, *from, *most),
        Request::AcceptBlocks { file, blocks } => {
            context.core.tier.store.accept(check_file(*file)?, blocks)?;
            done(Reply::Done)
        }
        _ => wrong_family(),
    }
}

fn sync(context: &Context<'_>, state: &mut TaskState, file: FileId, durable: bool) -> Result<TaskStep> {
    let is_skipped = pario_runtime::is_planted("sync-without-flush");
    if !is_skipped && let Some(step) = flush(context, state, file)? {
        return Ok(step);
    }
    let store = &context.core.tier.store;
    let stored = match (durable, file) {
        // After a sync that failed, a close fails until the medium has what the sync should have stored.
        (false, file) => store.sync_failure(file),
        (true, FileId(0)) => store.sync_all(),
        (true, file) => store.sync(file),
    };
    // Also after a sync that failed: it may have dropped records of the journal, which only a sync of its own notices.
    let named = match &context.core.metadata {
        Some(metadata) if durable => metadata.sync(),
        _ => Ok(()),
    };
    stored?;
    named?;
    done(Reply::Done)
}

/// Writes a batch of dirty blocks of the file to the store. `None` when none are left.
fn flush(context: &Context<'_>, state: &mut TaskState, file: FileId) -> Result<Option<TaskStep>> {
    let tier = &context.core.tier;
    let sweep = state.sync.get_or_insert_with(|| tier.start_sync(file));
    Ok(match tier.sync(sweep, &context.core.counters)? {
        SyncProgress::Done => None,
        SyncProgress::Advanced => Some(TaskStep::Yield),
        SyncProgress::Blocked => Some(TaskStep::Retry),
    })
}

fn arrange(context: &Context<'_>, file: FileId, ranges: &[ByteRange]) -> Result<TaskStep> {
    check_ranges(ranges)?;
    let tier = &context.core.tier;
    let ranges = ranges.iter().map(|range| range.at..range.at + range.len);
    let blocks = units(ranges, u64::from(tier.pool.geometry().block));
    tier.store.arrange(check_file(file)?, &blocks)?;
    done(Reply::Done)
}

/// Removes the next file; one in each step, because each waits for its own leases.
fn remove(context: &Context<'_>, state: &mut TaskState, files: &[FileId]) -> Result<TaskStep> {
    let core = context.core;
    if let Some(file) = files.get(state.removed) {
        if !core.tier.remove(check_file(*file)?, &mut state.truncation)? {
            return Ok(TaskStep::Retry);
        }
        core.tier.note_freed(&core.counters);
        core.locks.file_removed(*file);
        state.removed += 1;
        state.access = None;
    }
    if state.removed < files.len() {
        return Ok(TaskStep::Yield);
    }
    core.tier.store.reclaim()?;
    done(Reply::Done)
}

fn list(context: &Context<'_>, after: FileId, most: u32) -> Result<TaskStep> {
    let most = most.clamp(1, MAX_LISTED) as usize;
    let parts = context.core.tier.store.list(after, most)?;
    let more = parts.len() == most;
    let parts = parts.into_iter().map(|part| LocalPart { file: part.file, end: part.end }).collect();
    done(Reply::Parts { parts, more })
}

/// Dirty blocks are flushed first: their old versions in the store are not what a reader sees.
fn verify(
    context: &Context<'_>,
    state: &mut TaskState,
    file: FileId,
    from: u64,
    most: u64,
) -> Result<TaskStep> {
    if let Some(step) = flush(context, state, file)? {
        return Ok(step);
    }
    let found = context.core.tier.store.verify(check_file(file)?, from, most.clamp(1, MAX_VERIFIED))?;
    context.core.counters.damaged.add(found.damaged.len() as u64);
    done(Reply::Verified { damaged: found.damaged, next: found.next })
}
