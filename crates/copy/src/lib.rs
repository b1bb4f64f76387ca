//! Parallel copies of files and trees into, out of and within partitions.
//!
//! The caller names what to copy as pairs of [`Endpoint`]s ([`pairs`] makes them from what a user wrote) and calls
//! [`copy`]. A walk over the sources (`tree_walk`) queues files for worker threads (`workers`); each file is copied in
//! chunks by any number of them (`file_copy`). Whether an endpoint is on this host or in a partition matters only in
//! `endpoint` and `open_file`.
//!
//! The crate also has what every command on files of partitions needs: [`Location`], the notation of paths, and
//! [`Connections`], which finds partitions in the registry and connects to each of them once; and it lists, sums up, removes and
//! renames files.
#![forbid(unsafe_code)]

mod connections;
mod disk_usage;
mod endpoint;
mod error;
mod file_copy;
mod glob;
mod listing;
mod location;
mod names;
mod open_file;
mod pairs;
mod plan_placement;
mod range_set;
mod rate_limit;
mod resume_state;
mod stage;
mod tree_walk;
mod workers;

pub use connections::Connections;
pub use disk_usage::{DiskUsage, disk_usage};
pub use endpoint::{Endpoint, FileInfo, FileKind};
pub use error::Error;
pub use glob::{GlobPattern, ListedName};
pub use listing::{DirectoryListing, ListOptions, ListedFile, list_directories};
pub use location::{Location, PartitionPath, join};
pub use names::{check_same_partition, is_directory, remove, rename};
pub use pairs::{CopyPair, pairs};
pub use plan_placement::PlanPlacement;
pub use stage::{stage_in, stage_out};
pub use workers::CopyOutcome;

use endpoint::NewFileLayout;
use file_copy::CopyContext;
use pario_types::Progress;
use rate_limit::RateLimit;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tree_walk::TreeWalk;
use workers::Workers;

/// The default size of a chunk.
pub const DEFAULT_CHUNK: u64 = 4 << 20;

/// How files are copied.
#[derive(Debug)]
pub struct CopyOptions {
    /// Copy directories with everything in them.
    pub recursive: bool,
    /// Within directories, also copy what links to directories lead to.
    pub follow_links: bool,
    /// Continue interrupted copies, and skip files that are copied already.
    pub resume: bool,
    /// Sync each copy before it gets its name.
    pub sync: bool,
    /// Bytes that a thread copies at a time.
    pub chunk: u64,
    /// The number of threads; by default the number of cores, at most 8.
    pub threads: Option<NonZeroUsize>,
    /// The most bytes per second, by all threads together.
    pub rate_limit: Option<u64>,
    /// The stripe size of new files in a partition; 0: the partition's.
    pub stripe_size: u64,
    /// The number of servers that new files in a partition are striped over; 0: all.
    pub stripe_count: u16,
    /// The plan that places new files in a partition.
    pub placement: Option<PlanPlacement>,
}

impl Default for CopyOptions {
    fn default() -> CopyOptions {
        CopyOptions {
            recursive: false,
            follow_links: false,
            resume: false,
            sync: false,
            chunk: DEFAULT_CHUNK,
            threads: None,
            rate_limit: None,
            stripe_size: 0,
            stripe_count: 0,
            placement: None,
        }
    }
}

/// Watches a copy, and may stop it. Threads call it at the same time.
pub trait CopyObserver: Progress {
    /// A file or directory could not be copied.
    fn failed(&self, error: &Error);

    /// Whether the copy is to stop: files that are not complete by then fail.
    fn is_interrupted(&self) -> bool;
}

/// Copies each source to its target, and returns when all of it was tried.
pub fn copy(pairs: Vec<CopyPair>, options: CopyOptions, observer: &dyn CopyObserver) -> CopyOutcome {
    let cores = pario_runtime::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = options.threads.map_or(cores.min(8), NonZeroUsize::get);
    let context = CopyContext {
        layout: NewFileLayout { stripe: options.stripe_size, count: options.stripe_count, table: None },
        rate_limit: options.rate_limit.map(RateLimit::new),
        moved: AtomicU64::new(0),
        options,
        observer,
    };
    let workers = Workers::new(&context);
    let mut walk = TreeWalk::new(&workers, &context);
    pario_runtime::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| workers.run());
        }
        for pair in pairs {
            if !walk.copy(pair) {
                break;
            }
        }
        observer.total_known();
        workers.no_more_files();
    });
    let directories = walk.finish();
    let mut outcome = workers.into_outcome();
    outcome.directories = directories;
    outcome.moved_bytes = context.moved.load(Relaxed);
    outcome
}
