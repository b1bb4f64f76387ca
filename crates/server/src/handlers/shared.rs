//! State that clients share through a server: views and counters.

use pario_wire::message::{Reply, Request};

use super::{Buffers, Context, TaskStep, done, wrong_family};
use crate::error::Result;

pub(super) fn handle(context: &Context<'_>, request: &Request, buffers: &Buffers<'_>) -> Result<TaskStep> {
    let (core, origin) = (context.core, context.origin);
    match request {
        Request::PutView { hash, .. } => {
            core.views.put(*hash, buffers.payload.bytes())?;
            done(Reply::Done)
        }
        Request::Counter { key, change } => {
            let before = core.shared_counters.change(origin.client, origin.id, *key, *change)?;
            done(Reply::Counted { before })
        }
        _ => wrong_family(),
    }
}
