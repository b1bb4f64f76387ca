//! Replicas that a writer or a loss of memory left divergent, and the end of such a writer's connection.

use pario_locks::LockExtent;
use pario_wire::message::{ByteRange, Reply, Request};

use super::{Context, TaskStep, check_file, done, done_or_retry, wrong_family};
use crate::error::Result;
use crate::locks::divergent_replicas::DivergentExtents;
use crate::locks::memory_losses::FileLosses;

pub(super) fn handle(context: &Context<'_>, request: &Request) -> Result<TaskStep> {
    let (core, origin) = (context.core, context.origin);
    match request {
        Request::MarkDivergent { lock } => {
            core.locks.mark_divergent(origin.client, *lock)?;
            done(Reply::Done)
        }
        Request::ListDivergent { file } => {
            let DivergentExtents { extents, clients } = core.locks.divergent(check_file(*file)?);
            let range =
                |extent: &LockExtent| ByteRange { at: extent.start(), len: extent.end() - extent.start() };
            let FileLosses { count: losses, unresolved } = core.locks.losses(*file);
            done(Reply::Divergent {
                ranges: extents.iter().map(range).collect(),
                clients,
                losses,
                unresolved,
            })
        }
        Request::MarkEqual { file, losses } => {
            core.locks.mark_equal(check_file(*file)?, *losses);
            done(Reply::Done)
        }
        // The session of this client executes the request, so it cannot be closed.
        Request::Disconnect { client } if *client == origin.client => done(Reply::Done),
        Request::Disconnect { client } => done_or_retry(core.try_disconnect(*client)),
        _ => wrong_family(),
    }
}
