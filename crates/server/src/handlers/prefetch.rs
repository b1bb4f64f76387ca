//! Prefetches of ranges, which the prefetcher thread loads.

use pario_wire::message::{Reply, Request};

use super::{Context, TaskStep, check_file, done, wrong_family};
use crate::error::Result;
use crate::pool::pieces::check_ranges;

pub(super) fn handle(context: &Context<'_>, request: &Request) -> Result<TaskStep> {
    let (tier, origin) = (&context.core.tier, context.origin);
    match request {
        Request::Prefetch { file, ranges } => {
            let file = check_file(*file)?;
            check_ranges(ranges)?;
            // The server would not notice the end of a client that is connected to another server.
            let taken = if origin.direct { tier.prefetch(origin.client, file, ranges) } else { 0 };
            done(Reply::Prefetched { taken })
        }
        Request::CancelPrefetch { file, ranges } => {
            tier.prefetches.cancel(origin.client, *file, ranges);
            done(Reply::Done)
        }
        _ => wrong_family(),
    }
}
