//! Accesses to data wait for leases: other teams give up the bytes first.

use pario_wire::message::{AcquireIntent, ByteSelection, Request};

use super::{Context, TaskState, check_file};
use crate::error::Result;
use crate::leases::{AccessGuard, AccessedBytes};
use crate::pool::pieces::Pieces;

/// Whether no other team has a lease on the bytes that the request accesses next. A request that accesses no data is always admitted.
pub(super) fn is_admitted(context: &Context<'_>, request: &Request, state: &mut TaskState) -> Result<bool> {
    let core = context.core;
    if let Some(access) = &mut state.access {
        return Ok(access.is_granted() || pario_runtime::is_planted("recall-skipped"));
    }
    let span;
    let (file, accessed) = match request {
        Request::Acquire { file, blocks, .. } => (*file, AccessedBytes::Blocks(blocks)),
        Request::Read { file, what } | Request::Write { file, what } => {
            let block = u64::from(core.tier.pool.geometry().block);
            if state.pieces.is_none() {
                state.pieces = Pieces::of(what, &core.views, core.config.server, block)?;
            }
            span = match &state.pieces {
                Some(pieces) => pieces.span(),
                // The view is unknown: the reply says so, and the request accesses nothing.
                None => return Ok(true),
            };
            match what {
                ByteSelection::Ranges(ranges) => (*file, AccessedBytes::Ranges(ranges)),
                ByteSelection::View { .. } => (*file, AccessedBytes::Ranges(&span)),
            }
        }
        Request::Truncate { file, end, .. } => (*file, AccessedBytes::RemovedFrom(*end)),
        Request::RemoveParts { files } => match files.get(state.removed) {
            Some(file) => (*file, AccessedBytes::RemovedFrom(0)),
            None => return Ok(true),
        },
        _ => return Ok(true),
    };
    let access =
        core.leases.begin_access(check_file(file)?, &accessed, is_change(request), context.origin)?;
    let access: &mut AccessGuard = state.access.insert(access);
    Ok(access.is_granted() || pario_runtime::is_planted("recall-skipped"))
}

/// Whether a process that was cut off may not execute the request.
fn is_change(request: &Request) -> bool {
    match request {
        Request::Acquire { intent, .. } => *intent != AcquireIntent::Read,
        request => matches!(request, Request::Write { .. }),
    }
}
