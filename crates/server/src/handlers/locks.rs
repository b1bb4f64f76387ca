//! Byte-range locks.

use pario_types::FileId;
use pario_wire::message::{ByteRange, Reply, Request};

use super::{Context, TaskState, TaskStep, check_file, done, wrong_family};
use crate::error::Result;

pub(super) fn handle(context: &Context<'_>, request: &Request, state: &mut TaskState) -> Result<TaskStep> {
    let (locks, client) = (&context.core.locks, context.origin.client);
    match request {
        Request::Lock { file, range, exclusive } => lock(context, state, *file, *range, *exclusive),
        Request::TryLock { file, ranges, exclusive } => {
            done(Reply::Locked { lock: locks.try_lock(client, check_file(*file)?, ranges, *exclusive)? })
        }
        Request::Unlock { lock } => {
            locks.unlock(client, *lock)?;
            done(Reply::Done)
        }
        _ => wrong_family(),
    }
}

fn lock(
    context: &Context<'_>,
    state: &mut TaskState,
    file: FileId,
    range: ByteRange,
    exclusive: bool,
) -> Result<TaskStep> {
    let locks = &context.core.locks;
    let number = match state.lock {
        Some(number) => number,
        None => locks.request(context.origin.client, check_file(file)?, range, exclusive)?,
    };
    state.lock = Some(number);
    if !locks.is_granted(number)? {
        return Ok(TaskStep::Retry);
    }
    state.lock = None;
    done(Reply::Locked { lock: number })
}
