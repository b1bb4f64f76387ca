//! Reads and writes of data: by messages, and by slots of the pool for clients that have mapped it.

use pario_cache::LEDGER_WORDS;
use pario_types::FileId;
use pario_wire::message::{AcquireIntent, BlockRange, ByteSelection, Reply, Request};

use super::{Buffers, Context, TaskState, TaskStep, admission, check_file, done, wrong_family};
use crate::error::{Error, Result};
use crate::leases::AccessGuard;
use crate::pool::{BATCH, PinnedPiece, TransferBuffer, TransferStep};

/// Reads of at least so many bytes, in at most so many ranges, are sent straight from the pool.
const MIN_PINNED_BYTES: usize = 64 << 10;
const MAX_PINNED_RANGES: usize = 16;

const _: () = assert!(BATCH <= LEDGER_WORDS as usize);

pub(super) fn handle(
    context: &Context<'_>,
    request: &Request,
    state: &mut TaskState,
    buffers: Buffers<'_>,
) -> Result<TaskStep> {
    match request {
        Request::Acquire { file, intent, blocks, ahead } => {
            acquire(context, state, *file, *intent, blocks, *ahead)
        }
        Request::Read { file, what } => read(context, state, *file, what, buffers.reply),
        Request::Write { file, what } => write(context, state, *file, what, buffers),
        Request::End { file } => done(Reply::End { end: context.core.tier.end(check_file(*file)?)? }),
        _ => wrong_family(),
    }
}

fn acquire(
    context: &Context<'_>,
    state: &TaskState,
    file: FileId,
    intent: AcquireIntent,
    blocks: &[BlockRange],
    ahead: u16,
) -> Result<TaskStep> {
    let (tier, counters) = (&context.core.tier, &context.core.counters);
    let ledger = context.origin.ledger.ok_or(Error::NotLocal)?;
    let requested = blocks.iter().map(|run| run.first..run.first.saturating_add(run.count.into()));
    let _prefetched = tier.prefetches.take_loaded(context.origin.client, file, requested);
    let mut slots = tier.acquire(check_file(file)?, intent, blocks, ledger, counters)?;
    let count: u64 = blocks.iter().map(|run| u64::from(run.count)).sum();
    let is_file_unleased = state.access.as_ref().is_some_and(AccessGuard::is_file_unleased);
    if ahead > 0 && is_file_unleased && slots.len() as u64 == count {
        tier.acquire_ahead(file, intent, ahead, &mut slots, counters);
    }
    if is_file_unleased {
        tier.announce(file, &slots);
    }
    if slots.is_empty() && !blocks.is_empty() {
        return Ok(TaskStep::Retry);
    }
    done(Reply::Slots(slots))
}

fn read(
    context: &Context<'_>,
    state: &mut TaskState,
    file: FileId,
    what: &ByteSelection,
    reply: &mut [u8],
) -> Result<TaskStep> {
    let core = context.core;
    check_file(file)?;
    if state.pieces.is_none() {
        return done(Reply::NoView);
    }
    let buffer = TransferBuffer::Out(&mut reply[state.moved..]);
    let (step, moved) = transfer(context, state, file, what, buffer);
    state.moved += moved;
    match step? {
        TransferStep::Complete => {}
        TransferStep::Blocked => return Ok(TaskStep::Retry),
        // The reply has space for exactly the bytes that the request names.
        TransferStep::BufferUsedUp => return Err(Error::BadRequest("payload")),
    }
    core.counters.read_bytes.add(state.moved as u64);
    done(Reply::Data { end: core.tier.end(file)? })
}

fn write(
    context: &Context<'_>,
    state: &mut TaskState,
    file: FileId,
    what: &ByteSelection,
    buffers: Buffers<'_>,
) -> Result<TaskStep> {
    let payload = buffers.payload;
    check_file(file)?;
    if state.pieces.is_none() {
        return done(Reply::NoView);
    }
    let (step, moved) = transfer(context, state, file, what, TransferBuffer::In(payload.bytes()));
    state.moved += moved;
    payload.consume(moved);
    match step? {
        TransferStep::Complete => {}
        TransferStep::Blocked => return Ok(TaskStep::Retry),
        TransferStep::BufferUsedUp if payload.is_last() => return Err(Error::BadRequest("payload")),
        TransferStep::BufferUsedUp => {
            // No other client waits for bytes that this client has not sent.
            state.access = None;
            return Ok(TaskStep::NeedPayload);
        }
    }
    context.core.counters.written_bytes.add(state.moved as u64);
    done(Reply::Done)
}

/// Moves bytes between the buffer and the pool; also how many bytes it moved.
fn transfer(
    context: &Context<'_>,
    state: &mut TaskState,
    file: FileId,
    what: &ByteSelection,
    buffer: TransferBuffer<'_>,
) -> (Result<TransferStep>, usize) {
    let core = context.core;
    let Some(pieces) = &mut state.pieces else { return (Err(Error::BadRequest("view")), 0) };
    let _prefetched = match what {
        ByteSelection::Ranges(ranges) => core.tier.take_prefetched(context.origin.client, file, ranges),
        ByteSelection::View { .. } => core.tier.take_prefetched(context.origin.client, file, &pieces.span()),
    };
    let mut moved = 0;
    let step = core.tier.transfer(file, pieces, buffer, &mut moved, &core.counters);
    (step, moved)
}

/// Pins the blocks of a large read, which the session sends without a copy. `None` if the read is small or a block cannot be pinned.
pub(super) fn pin_reply(
    context: &Context<'_>,
    request: &Request,
    state: &mut TaskState,
) -> Option<(Reply, Vec<PinnedPiece>)> {
    let Request::Read { file, what: ByteSelection::Ranges(ranges) } = request else { return None };
    let bytes = request.reply_payload();
    let is_large = ranges.len() <= MAX_PINNED_RANGES && bytes as usize >= MIN_PINNED_BYTES;
    // An error occurs again in `Task::run`, which replies with it.
    if !is_large || state.moved > 0 || !admission::is_admitted(context, request, state).ok()? {
        return None;
    }
    let core = context.core;
    let _prefetched = core.tier.take_prefetched(context.origin.client, *file, ranges);
    let mut pieces = Vec::new();
    for range in ranges {
        if !core.tier.pin_all(*file, range.at, range.len, &mut pieces, &core.counters).ok()? {
            return None;
        }
    }
    let end = core.tier.end(*file).ok()?;
    core.counters.read_bytes.add(bytes);
    Some((Reply::Data { end }, pieces))
}
