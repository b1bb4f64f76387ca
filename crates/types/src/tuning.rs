//! Settings of independent accesses: data sieving, scratch memory, locking and guided prefetch.

/// Whether to use an optimisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Toggle {
    /// Always use it where it is possible.
    Enable,
    /// Never use it.
    Disable,
    /// Use it where it is estimated to be cheaper.
    #[default]
    Automatic,
}

impl Toggle {
    /// The name in hints.
    pub const fn name(self) -> &'static str {
        match self {
            Toggle::Enable => "enable",
            Toggle::Disable => "disable",
            Toggle::Automatic => "automatic",
        }
    }
}

/// The settings of one independent access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessTuning {
    /// The most bytes of scratch memory that a read may use.
    pub read_buffer: usize,
    /// The most bytes of scratch memory that a write may use.
    pub write_buffer: usize,
    /// Data sieving of reads: read a window with its gaps instead of each piece.
    pub sieve_read: Toggle,
    /// Data sieving of writes: read, modify and write a window instead of writing each piece.
    pub sieve_write: Toggle,
    /// MPI atomic mode: other accesses in atomic mode see all of the request or none of it.
    pub atomic: bool,
    /// No other process has the file open for writing. Threads of this process may share the open file.
    pub sole: bool,
    /// Some process that has the file open may sieve its writes. If it is true for one process, it must be true
    /// for all of them.
    pub peers_sieve: bool,
    /// The index of this process among those that make the same kind of access now, and their number.
    pub stagger: (u32, u32),
}

impl Default for AccessTuning {
    fn default() -> AccessTuning {
        AccessTuning {
            read_buffer: 4 << 20,
            write_buffer: 512 << 10,
            sieve_read: Toggle::Automatic,
            sieve_write: Toggle::Automatic,
            atomic: false,
            sole: false,
            peers_sieve: true,
            stagger: (0, 1),
        }
    }
}

/// The bounds of guided prefetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefetchLimits {
    /// Bytes of a block; at least 1.
    pub block: u64,
    /// The most ranges that are prefetched at a time.
    pub max_pre: usize,
    /// The number of ranges that are accessed before more are prefetched; 0 turns guided prefetch off.
    pub max_acc: usize,
}

impl PrefetchLimits {
    /// Guided prefetch is off: ordinary read-ahead does everything.
    pub const OFF: PrefetchLimits = PrefetchLimits { block: 1, max_pre: 0, max_acc: 0 };
}
