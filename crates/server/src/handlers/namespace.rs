//! Requests about names, which the metadata server executes.

use pario_wire::message::{Reply, Request};

use super::{Buffers, Context, TaskStep, done, wrong_family};
use crate::error::{Error, Result};

pub(super) fn handle(context: &Context<'_>, request: &Request) -> Result<TaskStep> {
    let metadata = context.core.metadata.as_ref().ok_or(Error::NotMetadata)?;
    done(metadata.apply(context.origin.client, context.origin.id, request)?)
}

/// Tables by which files are placed.
pub(super) fn handle_table(
    context: &Context<'_>,
    request: &Request,
    buffers: Buffers<'_>,
) -> Result<TaskStep> {
    let metadata = context.core.metadata.as_ref().ok_or(Error::NotMetadata)?;
    match request {
        Request::PutTable { table } => {
            metadata.put_table(*table, buffers.payload.bytes())?;
            done(Reply::Done)
        }
        Request::GetTable { table } => {
            metadata.copy_table(*table, buffers.reply)?;
            done(Reply::Data { end: table.len.into() })
        }
        _ => wrong_family(),
    }
}
