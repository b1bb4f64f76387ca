//! Truncations: on every server of the file, and their end on the metadata server.

use pario_types::{FileId, TruncationId};
use pario_wire::message::{Reply, Request};

use super::{Context, TaskState, TaskStep, check_file, done, done_or_retry, wrong_family};
use crate::error::{Error, Result};

pub(super) fn handle(context: &Context<'_>, request: &Request, state: &mut TaskState) -> Result<TaskStep> {
    match request {
        Request::Truncate { file, end, truncation } => truncate(context, state, *file, *end, *truncation),
        Request::Fence { file, truncation } => {
            done_or_retry(context.core.tier.fence(check_file(*file)?, *truncation)?)
        }
        Request::AbortTruncate { file, truncation } => {
            let metadata = context.core.metadata.as_ref().ok_or(Error::NotMetadata)?;
            let (client, id) = (context.origin.client, context.origin.id);
            done_or_retry(metadata.abort_truncate(client, id, *file, *truncation)?)
        }
        _ => wrong_family(),
    }
}

fn truncate(
    context: &Context<'_>,
    state: &mut TaskState,
    file: FileId,
    end: u64,
    truncation: TruncationId,
) -> Result<TaskStep> {
    let core = context.core;
    if end > i64::MAX as u64 {
        return Err(Error::BadRequest("end"));
    }
    if !core.tier.truncate(check_file(file)?, end, truncation, &mut state.truncation)? {
        return Ok(TaskStep::Retry);
    }
    core.tier.note_freed(&core.counters);
    done(Reply::Done)
}
