//! The execution of requests, in one module for each family of requests.
//!
//! A [`Task`] is a request that is being executed. A worker calls [`Task::run`], which never waits: it returns the reply, or says
//! when to call it again. Requests that access data first wait until other teams have given up their leases on the bytes
//! ([`admission`]).

mod administration;
mod admission;
mod data;
mod leases;
mod locks;
mod namespace;
mod prefetch;
mod replicas;
mod shared;
mod storage;
mod truncation;

use std::sync::atomic::Ordering;
use std::time::Duration;

use pario_cache::{LedgerId, PoolTruncation};
use pario_runtime::time::Instant;
use pario_types::{ClientId, FileId, RequestId};
use pario_wire::message::{Reply, Request};

use crate::background::flusher::SyncSweep;
use crate::background::shutdown::ShutdownRequest;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::leases::{AccessGuard, LeaseRequest};
use crate::pool::PinnedPiece;
use crate::pool::pieces::Pieces;
use crate::sessions::payload::Payload;

/// A request whose blocks stay in use by others fails after this time.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Stands for a session in requests of the server itself: no session has this number.
const NO_SESSION: u64 = u64::MAX;

/// How long the server waits before it executes a step of its own request again.
const RETRY: Duration = Duration::from_millis(1);

/// A request that is being executed.
pub(crate) struct Task {
    request: Request,
    state: TaskState,
}

/// How far a request is. Each family of requests uses some of the fields.
struct TaskState {
    started: Instant,
    /// Bytes of the payload that are moved, and where the others lie.
    moved: usize,
    pieces: Option<Pieces>,
    /// How many files are removed.
    removed: usize,
    truncation: Option<PoolTruncation>,
    sync: Option<SyncSweep>,
    /// A requested lock that is not granted yet.
    lock: Option<u64>,
    /// The access to data, as far as leases of others are concerned.
    access: Option<AccessGuard>,
    lease: Option<LeaseRequest>,
    shutdown: Option<ShutdownRequest>,
}

/// The client that sent a request, and how the request arrived.
pub(crate) struct RequestOrigin {
    pub client: ClientId,
    pub id: RequestId,
    /// The connection on which the request arrived.
    pub session: u64,
    /// Whether the connection is the client's own, and not that of a server that forwards the request.
    pub is_own_session: bool,
    /// Whether the connection is the client's own and ends with the client.
    pub direct: bool,
    /// The client's ledger, if it has mapped the pool.
    pub ledger: Option<LedgerId>,
}

/// The result of a step of a task.
pub(crate) enum TaskStep {
    Done(Reply),
    /// The task continues when more of its payload has arrived.
    NeedPayload,
    /// The task can continue at once, but other sessions may run in between.
    Yield,
    /// A resource is in use: the caller runs the task again after a moment.
    Retry,
    /// There is nothing to reply yet: the caller runs the task again at this time, or when the session is woken.
    WaitUntil(Instant),
}

/// The server's state and the origin of the request, for its handler.
struct Context<'a> {
    core: &'a Core,
    origin: &'a RequestOrigin,
}

/// The payload of a request, and the buffer for that of its reply.
struct Buffers<'a> {
    payload: &'a mut Payload,
    reply: &'a mut [u8],
}

impl Task {
    pub fn new(request: Request) -> Task {
        let state = TaskState {
            started: Instant::now(),
            moved: 0,
            pieces: None,
            removed: 0,
            truncation: None,
            sync: None,
            lock: None,
            access: None,
            lease: None,
            shutdown: None,
        };
        Task { request, state }
    }

    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Bytes of payload in the reply if the request succeeds.
    pub fn reply_payload(&self) -> usize {
        self.request.reply_payload() as usize
    }

    /// How long the task may wait for others.
    pub fn timeout(&self, core: &Core) -> Duration {
        match self.request {
            // The client receives the reason before its own deadline.
            Request::Lock { .. } => (core.config.deadline * 4 / 5).min(TIMEOUT),
            _ => TIMEOUT,
        }
    }

    /// Abandons the task. The error says what the task was waiting for.
    pub fn abandon(&mut self, core: &Core) -> Error {
        if let Some(number) = self.state.lock.take() {
            let holders = core.locks.holders_on_file_of(number);
            let holders: Vec<String> =
                holders.into_iter().map(|client| core.describe_client(client)).collect();
            core.locks.cancel(number);
            return Error::LockHeld(holders.join(", "));
        }
        let state = &mut self.state;
        let leased =
            state.lease.is_some() || state.access.as_mut().is_some_and(|access| !access.is_granted());
        if leased { Error::Leased } else { Error::Busy }
    }

    /// Executes a request of the server itself, which has no payload.
    pub fn run_locally(mut self, core: &Core, timeout: Duration) -> Result<()> {
        let origin = RequestOrigin {
            client: core.peers.client(),
            id: RequestId(0),
            session: NO_SESSION,
            is_own_session: false,
            direct: false,
            ledger: None,
        };
        loop {
            match self.step(core, &origin, &mut Payload::default(), &mut [])? {
                TaskStep::Done(Reply::Failed(failure)) => return Err(Error::Elsewhere(failure)),
                TaskStep::Done(_) => return Ok(()),
                _ if self.state.started.elapsed() >= timeout || core.stop.load(Ordering::Acquire) => {
                    return Err(self.abandon(core));
                }
                TaskStep::Yield => {}
                _ => pario_runtime::thread::sleep(RETRY),
            }
        }
    }

    /// If this is a `Shutdown`: what keeps the server from ending before the reply is sent.
    pub fn take_shutdown_request(&mut self) -> Option<ShutdownRequest> {
        self.state.shutdown.take()
    }

    /// For a large read: its blocks, all of them pinned, and the reply that they belong to. `None` if they have to be copied.
    pub fn pin_reply(&mut self, core: &Core, origin: &RequestOrigin) -> Option<(Reply, Vec<PinnedPiece>)> {
        data::pin_reply(&Context { core, origin }, &self.request, &mut self.state)
    }

    /// Executes a step of the task. `payload` is that of the request, `reply` the buffer for that of the reply.
    pub fn run(
        &mut self,
        core: &Core,
        origin: &RequestOrigin,
        payload: &mut Payload,
        reply: &mut [u8],
    ) -> TaskStep {
        self.step(core, origin, payload, reply)
            .unwrap_or_else(|error| TaskStep::Done(Reply::Failed(error.to_failure())))
    }

    fn step(
        &mut self,
        core: &Core,
        origin: &RequestOrigin,
        payload: &mut Payload,
        reply: &mut [u8],
    ) -> Result<TaskStep> {
        let context = Context { core, origin };
        let Task { request, state } = self;
        if !admission::is_admitted(&context, request, state)? {
            return Ok(TaskStep::Retry);
        }
        dispatch(&context, request, state, Buffers { payload, reply })
    }
}

/// Calls the handler of the request's family.
fn dispatch(
    context: &Context<'_>,
    request: &Request,
    state: &mut TaskState,
    buffers: Buffers<'_>,
) -> Result<TaskStep> {
    use Request::*;
    match request {
        Acquire { .. } | Read { .. } | Write { .. } | End { .. } => {
            data::handle(context, request, state, buffers)
        }
        Sync { .. } | Arrange { .. } | RemoveParts { .. } | ListParts { .. } => {
            storage::handle(context, request, state)
        }
        VerifyBlocks { .. } | AcceptBlocks { .. } => storage::handle(context, request, state),
        Truncate { .. } | Fence { .. } | AbortTruncate { .. } => truncation::handle(context, request, state),
        Prefetch { .. } | CancelPrefetch { .. } => prefetch::handle(context, request),
        PutView { .. } | Counter { .. } => shared::handle(context, request, &buffers),
        Lock { .. } | TryLock { .. } | Unlock { .. } => locks::handle(context, request, state),
        MarkDivergent { .. } | ListDivergent { .. } | MarkEqual { .. } | Disconnect { .. } => {
            replicas::handle(context, request)
        }
        JoinTeam { .. } | Lease { .. } | ReleaseLeases { .. } => leases::handle(context, request, state),
        PollRecalls { .. } | Yield { .. } | CloseMailbox => leases::handle(context, request, state),
        Ping | StorageSpace | Status | SetServers { .. } | Shutdown => {
            administration::handle(context, request, state)
        }
        PutTable { .. } | GetTable { .. } => namespace::handle_table(context, request, buffers),
        Lookup { .. } | Open { .. } | Close { .. } | Reopen { .. } | MakeDirectory { .. } => {
            namespace::handle(context, request)
        }
        RemoveDirectory { .. } | Unlink { .. } | Rename { .. } | ReadDirectory { .. } => {
            namespace::handle(context, request)
        }
        SetAttributes { .. } | BeginTruncate { .. } | EndTruncate { .. } => {
            namespace::handle(context, request)
        }
        ReportSize { .. } | ListInodes { .. } => namespace::handle(context, request),
    }
}

/// The result of a task that is complete.
fn done(reply: Reply) -> Result<TaskStep> {
    Ok(TaskStep::Done(reply))
}

/// The result of a task that is complete, or has to be run again.
fn done_or_retry(is_done: bool) -> Result<TaskStep> {
    Ok(if is_done { TaskStep::Done(Reply::Done) } else { TaskStep::Retry })
}

/// For a request that belongs to another family.
fn wrong_family() -> Result<TaskStep> {
    Err(Error::BadRequest("kind"))
}

/// Checks the file id of a request about data.
fn check_file(file: FileId) -> Result<FileId> {
    if file == FileId(0) { Err(Error::BadRequest("file id")) } else { Ok(file) }
}
