//! A wrapper around any store that fails or delays calls on purpose.
//!
//! Rules select the calls that fail and the error; all other calls are passed on. The wrapped store is not changed, so the
//! effects before a failure can be examined with [`FaultyStore::inner`].

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use pario_runtime::sync::{Mutex, MutexGuard};
use pario_types::FileId;

use crate::error::{Error, Result, StoreAction};
use crate::{CorruptByte, PartInfo, Store, StoreSpace, VerifyReport};

/// A call on a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreCall {
    /// [`Store::read`]
    Read,
    /// [`Store::write`]
    Write,
    /// [`Store::arrange`]
    Arrange,
    /// [`Store::end`]
    End,
    /// [`Store::set_end`]
    SetEnd,
    /// [`Store::fence`]
    Fence,
    /// [`Store::reserve`]
    Reserve,
    /// [`Store::remove`]
    Remove,
    /// [`Store::sync`] and [`Store::sync_all`]
    Sync,
    /// [`Store::list`]
    List,
    /// [`Store::verify`]
    Verify,
    /// [`Store::accept`]
    Accept,
    /// [`Store::room`]
    Room,
}

impl StoreCall {
    fn action(self) -> StoreAction {
        match self {
            StoreCall::Read | StoreCall::Verify => StoreAction::Read,
            StoreCall::Write | StoreCall::Accept | StoreCall::Fence => StoreAction::Write,
            StoreCall::Arrange => StoreAction::Create,
            StoreCall::End | StoreCall::Room => StoreAction::Inspect,
            StoreCall::SetEnd | StoreCall::Reserve => StoreAction::Resize,
            StoreCall::Remove => StoreAction::Remove,
            StoreCall::Sync => StoreAction::Sync,
            StoreCall::List => StoreAction::List,
        }
    }
}

/// A store that fails or delays calls on purpose.
pub struct FaultyStore<S> {
    inner: S,
    /// The minimum time of every block that is read or written, one after the other.
    delay: Duration,
    busy: Mutex<()>,
    plan: Mutex<FaultPlan>,
}

#[derive(Default)]
struct FaultPlan {
    rules: Vec<FaultRule>,
    /// The number of calls.
    calls: u64,
}

struct FaultRule {
    /// The operation; `None`: all.
    call: Option<StoreCall>,
    /// The number of calls that succeed first.
    after: u64,
    /// The number of calls that then fail.
    times: u64,
    errno: i32,
    /// The number of blocks of a write that are written all the same.
    blocks: usize,
}

impl<S: Store> FaultyStore<S> {
    /// Wraps a store without faults.
    pub fn new(inner: S) -> FaultyStore<S> {
        FaultyStore { inner, delay: Duration::ZERO, busy: Mutex::default(), plan: Mutex::default() }
    }

    /// The same with a minimum time for every block that is read or written, one after the other.
    pub fn slow(inner: S, delay: Duration) -> FaultyStore<S> {
        FaultyStore { delay, ..FaultyStore::new(inner) }
    }

    /// The wrapped store.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// After `after` such calls (`None`: of any operation), `times` of them fail with this error number.
    pub fn fail(&self, call: Option<StoreCall>, after: u64, times: u64, errno: i32) {
        self.plan().rules.push(FaultRule { call, after, times, errno, blocks: 0 });
    }

    /// After `after` writes, one writes only its first blocks and fails for lack of space.
    pub fn short_write(&self, after: u64, blocks: usize) {
        let rule = FaultRule { call: Some(StoreCall::Write), after, times: 1, errno: libc::ENOSPC, blocks };
        self.plan().rules.push(rule);
    }

    /// After `after` calls of any operation everything fails, as if the process were killed.
    pub fn stop(&self, after: u64) {
        self.fail(None, after, u64::MAX, libc::EIO);
    }

    /// Removes all rules.
    pub fn clear_faults(&self) {
        self.plan().rules.clear();
    }

    /// The number of calls, including failed ones.
    pub fn calls(&self) -> u64 {
        self.plan().calls
    }

    /// Whether a call may proceed; if not, the number of its blocks that do, and the error.
    fn check_fault(&self, call: StoreCall) -> std::result::Result<(), (usize, Error)> {
        let mut plan = self.plan();
        plan.calls += 1;
        let mut failure = None;
        // Every rule counts every call, so that no rule delays another.
        for rule in plan.rules.iter_mut().filter(|rule| rule.call.is_none_or(|only| only == call)) {
            if rule.after > 0 {
                rule.after -= 1;
            } else if rule.times > 0 {
                rule.times = if rule.times == u64::MAX { u64::MAX } else { rule.times - 1 };
                failure.get_or_insert((rule.blocks, rule.errno));
            }
        }
        let path = PathBuf::from("a faulty store");
        match failure {
            None => Ok(()),
            Some((blocks, errno)) => Err((blocks, Error::Io { action: call.action(), path, errno })),
        }
    }

    fn simulate_delay(&self, blocks: usize) {
        if !self.delay.is_zero() {
            let _busy = self.busy.lock();
            pario_runtime::thread::sleep(
                self.delay.saturating_mul(u32::try_from(blocks).unwrap_or(u32::MAX)),
            );
        }
    }

    fn allow(&self, call: StoreCall) -> Result<()> {
        self.check_fault(call).map_err(|(_, error)| error)
    }

    fn plan(&self) -> MutexGuard<'_, FaultPlan> {
        self.plan.lock()
    }
}

impl<S: Store> Store for FaultyStore<S> {
    fn block_size(&self) -> usize {
        self.inner.block_size()
    }

    fn read(&self, file: FileId, first: u64, blocks: &mut [&mut [u8]]) -> Result<()> {
        self.allow(StoreCall::Read)?;
        self.simulate_delay(blocks.len());
        self.inner.read(file, first, blocks)
    }

    fn write(&self, file: FileId, first: u64, blocks: &[&[u8]], end: u64) -> Result<()> {
        self.simulate_delay(blocks.len());
        match self.check_fault(StoreCall::Write) {
            Ok(()) => self.inner.write(file, first, blocks, end),
            Err((some, error)) => {
                self.inner.write(file, first, &blocks[..some.min(blocks.len())], end)?;
                Err(error)
            }
        }
    }

    fn arrange(&self, file: FileId, runs: &[Range<u64>]) -> Result<()> {
        self.allow(StoreCall::Arrange)?;
        self.inner.arrange(file, runs)
    }

    fn contiguous_blocks(&self, file: FileId, first: u64, most: u64) -> Result<u64> {
        self.inner.contiguous_blocks(file, first, most)
    }

    fn end(&self, file: FileId) -> Result<u64> {
        self.allow(StoreCall::End)?;
        self.inner.end(file)
    }

    fn set_end(&self, file: FileId, end: u64, cut: u64) -> Result<bool> {
        self.allow(StoreCall::SetEnd)?;
        self.inner.set_end(file, end, cut)
    }

    fn fence(&self, file: FileId, cut: u64) -> Result<bool> {
        self.allow(StoreCall::Fence)?;
        self.inner.fence(file, cut)
    }

    fn last_truncation(&self, file: FileId) -> Result<u64> {
        self.inner.last_truncation(file)
    }

    fn reserve(&self, file: FileId, blocks: Range<u64>) -> Result<()> {
        self.allow(StoreCall::Reserve)?;
        self.inner.reserve(file, blocks)
    }

    fn remove(&self, file: FileId) -> Result<()> {
        self.allow(StoreCall::Remove)?;
        self.inner.remove(file)
    }

    fn reclaim(&self) -> Result<()> {
        self.inner.reclaim()
    }

    fn sync(&self, file: FileId) -> Result<()> {
        self.allow(StoreCall::Sync)?;
        self.inner.sync(file)
    }

    fn sync_all(&self) -> Result<()> {
        self.allow(StoreCall::Sync)?;
        self.inner.sync_all()
    }

    fn sync_failure(&self, file: FileId) -> Result<()> {
        self.inner.sync_failure(file)
    }

    fn list(&self, after: FileId, most: usize) -> Result<Vec<PartInfo>> {
        self.allow(StoreCall::List)?;
        self.inner.list(after, most)
    }

    fn verify(&self, file: FileId, from: u64, most: u64) -> Result<VerifyReport> {
        self.allow(StoreCall::Verify)?;
        self.inner.verify(file, from, most)
    }

    fn accept(&self, file: FileId, blocks: &[u64]) -> Result<()> {
        self.allow(StoreCall::Accept)?;
        self.inner.accept(file, blocks)
    }

    fn room(&self) -> Result<StoreSpace> {
        self.allow(StoreCall::Room)?;
        self.inner.room()
    }

    fn highest_file_id(&self) -> FileId {
        self.inner.highest_file_id()
    }

    fn unverified(&self) -> u64 {
        self.inner.unverified()
    }
}

impl<S: CorruptByte> CorruptByte for FaultyStore<S> {
    fn flip_byte(&self, file: FileId, at: u64) -> Result<()> {
        self.inner.flip_byte(file, at)
    }
}
