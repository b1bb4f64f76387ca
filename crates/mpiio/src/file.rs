//! An open file: its state, its pointers, and the accesses in progress on it.
//!
//! Several threads may call every function here at once (MPI_THREAD_MULTIPLE). Each lock is held for a few
//! instructions, never during an access and never while another lock is taken.

use parking_lot::{Mutex, RwLock};
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use pario_buffer::BounceBuffer;
use pario_file_backend::StorageFacts;
use pario_hints::Hints;
use pario_mpi_host::{Host, TypeHandle};
use pario_partition_file::ClientCache;
use pario_posix::PlainOpenOptions;
use pario_trace::{FileStats, TracedFile};
use pario_two_phase::CostHistory;
use pario_types::{AccessTuning, ErrorKind};

use crate::access::{Direction, Positioning};
use crate::amode::Amode;
use crate::data_shipping::ShippingSession;
use crate::error::{Error, Result};
use crate::file_group::FileGroup;
use crate::file_name::FileName;
use crate::file_view::FileView;
use crate::in_flight::{InFlight, InFlightGuard};
use crate::io_thread::Completion;
use crate::settings::CollectiveSettings;
use crate::shared_counter::SharedCounter;
use crate::storage::Storage;

/// An open file on one rank.
pub struct MpiFile {
    pub(crate) group: Arc<FileGroup>,
    amode: Amode,
    raw_amode: i32,
    pub(crate) path: PathBuf,
    storage: LazyStorage,
    facts: StorageFacts,
    file_view: RwLock<Arc<FileView>>,
    pub(crate) types: Mutex<ViewTypes>,
    /// The individual file pointer, in etypes.
    pointer: Mutex<i64>,
    pub(crate) shared: SharedCounter,
    settings: FileSettings,
    /// The measured costs of collective accesses.
    pub(crate) costs: Mutex<CostHistory>,
    pub(crate) shipping: Mutex<Option<Arc<ShippingSession>>>,
    pub(crate) stats: FileStats,
    pub(crate) trace_id: TracedFile,
    pending: PendingAccesses,
    error_handler: AtomicUsize,
}

/// The hints of an open file, and the settings that follow from them.
struct FileSettings {
    hints: RwLock<Hints>,
    /// The tuning of accesses, derived from hints, view and atomic mode whenever one of them changes.
    tuning: RwLock<AccessTuning>,
    collective: RwLock<Arc<CollectiveSettings>>,
}

/// The accesses of an open file that have started and not ended.
#[derive(Default)]
struct PendingAccesses {
    split: Mutex<Option<Split>>,
    /// The first failure of a nonblocking access, until sync or close reports it.
    deferred_error: Mutex<Option<ErrorKind>>,
    in_flight: Arc<InFlight>,
}

/// The datatypes of the view in force, for MPI_File_get_view. The file frees derived ones.
pub(crate) struct ViewTypes {
    pub etype: TypeHandle,
    pub filetype: TypeHandle,
}

/// A split collective access in progress.
pub(crate) struct Split {
    pub direction: Direction,
    pub positioning: Positioning,
    pub base: usize,
    pub completion: Arc<Completion>,
    /// The host memory that the access fills in place of GPU memory.
    pub copy: Option<Arc<BounceBuffer>>,
}

/// The arguments of [`File::new`].
pub(crate) struct Parts {
    pub group: Arc<FileGroup>,
    pub amode: Amode,
    pub raw_amode: i32,
    pub path: PathBuf,
    pub storage: LazyStorage,
    pub facts: StorageFacts,
    pub collective: Arc<CollectiveSettings>,
    pub shared: SharedCounter,
    pub hints: Hints,
    /// The start of the individual pointer.
    pub start: i64,
}

impl MpiFile {
    pub(crate) fn new(parts: Parts) -> MpiFile {
        let byte = parts.group.host.byte();
        let sole = parts.group.size == 1 && parts.amode.unique_open;
        let stagger = (parts.group.rank, parts.group.size);
        let tuning =
            AccessTuning { atomic: false, sole, peers_sieve: false, stagger, ..by_hints(&parts.hints) };
        MpiFile {
            facts: parts.facts,
            costs: Mutex::default(),
            shipping: Mutex::new(None),
            stats: FileStats::default(),
            trace_id: TracedFile::new(&parts.path),
            group: parts.group,
            amode: parts.amode,
            raw_amode: parts.raw_amode,
            path: parts.path,
            storage: parts.storage,
            file_view: RwLock::new(Arc::new(FileView::bytes())),
            types: Mutex::new(ViewTypes { etype: byte, filetype: byte }),
            pointer: Mutex::new(parts.start),
            shared: parts.shared,
            settings: FileSettings {
                hints: RwLock::new(parts.hints),
                tuning: RwLock::new(tuning),
                collective: RwLock::new(parts.collective),
            },
            pending: PendingAccesses::default(),
            error_handler: AtomicUsize::new(0),
        }
    }

    /// A word in which the crate `capi` keeps the file's error handler.
    pub fn error_handler_word(&self) -> &AtomicUsize {
        &self.error_handler
    }

    /// The file's name in traces.
    pub fn trace_id(&self) -> &TracedFile {
        &self.trace_id
    }

    /// The mode bits as the program passed them.
    pub fn raw_amode(&self) -> i32 {
        self.raw_amode
    }

    /// Whether atomic mode is on.
    pub fn atomicity(&self) -> bool {
        self.tuning().atomic
    }

    /// The communicator of the file's ranks.
    pub fn comm(&self) -> pario_mpi_host::Comm {
        self.group.comm()
    }

    pub(crate) fn host(&self) -> &'static Host {
        self.group.host
    }

    pub(crate) fn amode(&self) -> Amode {
        self.amode
    }

    /// The storage of the file. Opens it if it is not open yet.
    pub(crate) fn storage(&self) -> Result<&Storage> {
        self.storage.get()
    }

    /// The storage of the file, if it is open.
    pub(crate) fn opened(&self) -> Option<&Storage> {
        self.storage.opened()
    }

    /// Whether the file is on a partition.
    pub(crate) fn is_on_partition(&self) -> bool {
        self.storage.is_on_partition()
    }

    /// The parsed name of the file.
    pub(crate) fn name(&self) -> &FileName {
        &self.storage.name
    }

    /// The facts about the file's storage.
    pub(crate) fn facts(&self) -> StorageFacts {
        self.facts
    }

    /// The settings of collective accesses in force.
    pub(crate) fn collective(&self) -> Arc<CollectiveSettings> {
        self.settings.collective.read().clone()
    }

    pub(crate) fn file_view(&self) -> Arc<FileView> {
        self.file_view.read().clone()
    }

    pub(crate) fn set_file_view(&self, file_view: FileView) {
        *self.file_view.write() = Arc::new(file_view);
        *self.pointer.lock() = 0;
    }

    pub(crate) fn hints<T>(&self, f: impl FnOnce(&Hints) -> T) -> T {
        f(&self.settings.hints.read())
    }

    pub(crate) fn change_hints(&self, f: impl FnOnce(&mut Hints)) {
        let mut hints = self.settings.hints.write();
        f(&mut hints);
        let AccessTuning { read_buffer, write_buffer, sieve_read, sieve_write, .. } = by_hints(&hints);
        let collective = Arc::new(CollectiveSettings::new(&hints, &self.facts, &self.group));
        *self.settings.collective.write() = collective;
        drop(hints);
        self.retune(|now| AccessTuning { read_buffer, write_buffer, sieve_read, sieve_write, ..now });
        self.retune_agent();
    }

    /// Records how many ranges of the prefetch hint were taken.
    pub(crate) fn note_taken(&self, taken: usize) {
        self.settings.hints.write().set_access_taken(taken);
    }

    /// The tuning of accesses in force.
    pub(crate) fn tuning(&self) -> AccessTuning {
        *self.settings.tuning.read()
    }

    pub(crate) fn retune(&self, f: impl FnOnce(AccessTuning) -> AccessTuning) {
        let mut tuning = self.settings.tuning.write();
        *tuning = f(*tuning);
    }

    /// The individual pointer, in etypes.
    pub(crate) fn individual_pointer(&self) -> i64 {
        *self.pointer.lock()
    }

    pub(crate) fn set_individual_pointer(&self, etypes: i64) {
        *self.pointer.lock() = etypes;
    }

    /// Returns the individual pointer and advances it.
    pub(crate) fn fetch_add_individual(&self, etypes: u64) -> Result<i64> {
        let mut pointer = self.pointer.lock();
        let start = *pointer;
        *pointer = start.checked_add_unsigned(etypes).ok_or(BEYOND)?;
        Ok(start)
    }

    /// Returns the shared pointer and advances it.
    pub(crate) fn fetch_add_shared(&self, etypes: u64) -> Result<i64> {
        let start = self.shared.fetch_add(etypes)?;
        i64::try_from(start).map_err(|_| BEYOND)
    }

    /// Returns the start of this rank's part in an access in rank order, and advances the shared pointer by the sum.
    /// Collective.
    pub(crate) fn fetch_add_ordered(&self, etypes: u64) -> Result<i64> {
        let (before, total) = self.group.exscan_and_sum(etypes)?;
        let [start] = self.group.root_bcast(|| Ok([self.shared.fetch_add(total)?]))?;
        start.checked_add(before).and_then(|at| i64::try_from(at).ok()).ok_or(BEYOND)
    }

    pub(crate) fn set_split(&self, split: Split) {
        *self.pending.split.lock() = Some(split);
    }

    /// Takes the split access in progress if `check` accepts it.
    pub(crate) fn take_split(&self, check: impl FnOnce(&Split) -> Result<()>) -> Result<Split> {
        let mut split = self.pending.split.lock();
        match split.as_ref() {
            Some(active) => check(active)?,
            None => {
                return Err(Error::Usage(
                    ErrorKind::UnsupportedOperation,
                    "no split collective access is under way on this file",
                ));
            }
        }
        Ok(split.take().expect("checked above"))
    }

    pub(crate) fn no_split(&self) -> Result<()> {
        match self.pending.split.lock().as_ref() {
            None => Ok(()),
            Some(_) => Err(Error::Usage(
                ErrorKind::UnsupportedOperation,
                "a split collective access is under way on this file; end it first",
            )),
        }
    }

    /// Records the first failure of a nonblocking access for the next sync or close.
    pub(crate) fn record_deferred_error(&self, kind: ErrorKind) {
        self.pending.deferred_error.lock().get_or_insert(kind);
    }

    pub(crate) fn take_deferred_error(&self) -> Result<()> {
        match self.pending.deferred_error.lock().take() {
            Some(kind) => Err(Error::Deferred(kind)),
            None => Ok(()),
        }
    }

    /// Counts one access as in progress until the guard is dropped.
    pub(crate) fn begin_access(&self) -> InFlightGuard {
        self.pending.in_flight.begin()
    }

    /// Waits until no access is in progress.
    pub(crate) fn quiesce(&self) {
        self.pending.in_flight.wait();
    }
}

const BEYOND: Error = Error::Usage(ErrorKind::Arg, "the file pointer would lie beyond the largest file");

/// The tuning that the hints ask for, with defaults for the rest.
fn by_hints(hints: &Hints) -> AccessTuning {
    AccessTuning {
        read_buffer: hints.ind_rd_buffer_size() as usize,
        write_buffer: hints.ind_wr_buffer_size() as usize,
        sieve_read: hints.ds_read(),
        sieve_write: hints.ds_write(),
        ..AccessTuning::default()
    }
}

/// Storage that may be opened later. With the hint `romio_no_indep_rw` a rank that is not an aggregator opens the file
/// at its first access.
pub(crate) struct LazyStorage {
    name: FileName,
    how: PlainOpenOptions,
    cache: Option<Arc<ClientCache>>,
    start: u32,
    network_buffer: u64,
    storage: OnceLock<Storage>,
}

impl LazyStorage {
    pub fn new(
        name: FileName,
        how: PlainOpenOptions,
        start: u32,
        network_buffer: u64,
        storage: Option<Storage>,
        cache: Option<Arc<ClientCache>>,
    ) -> LazyStorage {
        let lazy = LazyStorage { name, how, start, network_buffer, cache, storage: OnceLock::new() };
        if let Some(storage) = storage {
            lazy.storage.get_or_init(|| storage);
        }
        lazy
    }

    pub fn get(&self) -> Result<&Storage> {
        if let Some(storage) = self.storage.get() {
            return Ok(storage);
        }
        let storage = Storage::open(&self.name, &self.how, self.start, None)?;
        storage.set_client_cache(self.cache.clone());
        storage.set_network_buffer(self.network_buffer);
        Ok(self.storage.get_or_init(|| storage))
    }

    pub fn is_on_partition(&self) -> bool {
        matches!(self.name, FileName::Partition { .. })
    }

    /// The storage, if it is open.
    pub fn opened(&self) -> Option<&Storage> {
        self.storage.get()
    }
}
