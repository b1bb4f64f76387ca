//! Leases of teams, and the mailboxes by which their processes receive recalls.

use std::time::Duration;

use pario_runtime::time::Instant;
use pario_types::FileId;
use pario_wire::message::{ByteRange, Reply, Request};

use super::{Context, TaskState, TaskStep, check_file, done, wrong_family};
use crate::error::Result;
use crate::leases::Team;
use crate::pool::pieces::check_ranges;

/// How long a poll for recalls waits at most.
const MAX_POLL: Duration = Duration::from_secs(10);

/// A poll waits at most this part of the time for which its reply is valid, so the next poll arrives before that time is over.
const POLLS_PER_VALIDITY: u32 = 3;

pub(super) fn handle(context: &Context<'_>, request: &Request, state: &mut TaskState) -> Result<TaskStep> {
    let (leases, origin) = (&context.core.leases, context.origin);
    match request {
        Request::JoinTeam { team, mailbox } => leases.join(Team(*team), *mailbox, origin)?,
        Request::Lease { team, file, ranges } => return lease(context, state, Team(*team), *file, ranges),
        Request::PollRecalls { team, anew, wait_ms } => {
            let wait = Duration::from_millis((*wait_ms).into());
            return poll_recalls(context, state, Team(*team), *anew, wait);
        }
        Request::Yield { number, gone } => leases.yielded(*number, *gone, origin)?,
        Request::CloseMailbox => leases.close_mailbox(origin)?,
        Request::ReleaseLeases { team, file } => leases.release(Team(*team), check_file(*file)?),
        _ => return wrong_family(),
    }
    done(Reply::Done)
}

fn lease(
    context: &Context<'_>,
    state: &mut TaskState,
    team: Team,
    file: FileId,
    ranges: &[ByteRange],
) -> Result<TaskStep> {
    check_ranges(ranges)?;
    let (core, file) = (context.core, check_file(file)?);
    // A lease waits until its blocks are not pinned. A client whose prefetched blocks are released reads them again.
    core.tier.prefetches.release_file(file);
    let begin = || core.leases.request_lease(team, file, ranges, context.origin);
    match state.lease.get_or_insert_with(begin).step(&core.tier.pool)? {
        Some(extents) => done(Reply::Leased { extents }),
        None => Ok(TaskStep::Retry),
    }
}

fn poll_recalls(
    context: &Context<'_>,
    state: &TaskState,
    team: Team,
    anew: bool,
    wait: Duration,
) -> Result<TaskStep> {
    let Some(recalls) = context.core.leases.poll_recalls(team, anew, context.origin)? else {
        return Ok(TaskStep::Retry);
    };
    // A mailbox that does not yield is cut off no sooner than that.
    let valid = context.core.config.grace;
    let until = state.started + wait.min(MAX_POLL).min(valid / POLLS_PER_VALIDITY);
    if recalls.is_empty() && Instant::now() < until {
        return Ok(TaskStep::WaitUntil(until));
    }
    done(Reply::Recalled { recalls, good_ms: u32::try_from(valid.as_millis()).unwrap_or(u32::MAX) })
}
