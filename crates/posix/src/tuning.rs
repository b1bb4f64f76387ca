//! What the caller may decide about an access.

/// Whether a method is to be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Toggle {
    /// Always, where it is possible at all.
    Enable,
    /// Never.
    Disable,
    /// Where it is the cheaper one.
    #[default]
    Auto,
}

/// The settings of one access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Most bytes of scratch memory for a read.
    pub read_buffer: usize,
    /// Most bytes of scratch memory for a write.
    pub write_buffer: usize,
    /// Reading across holes instead of piece by piece.
    pub sieve_read: Toggle,
    /// Reading, modifying and writing across holes instead of writing piece by piece.
    pub sieve_write: Toggle,
    /// The whole request happens at once for everybody else in atomic mode.
    pub atomic: bool,
    /// Nobody else can have the file open for writing. (Threads of this process through the same
    /// `PlainFile` are not "else".)
    pub sole: bool,
    /// Some process that has the file open may sieve its writes. Must be true for all of them if it is for one.
    pub peers_sieve: bool,
    /// This process's number among those that make the same kind of access now, and how many they are.
    pub stagger: (u32, u32),
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            read_buffer: 4 << 20,
            write_buffer: 512 << 10,
            sieve_read: Toggle::Auto,
            sieve_write: Toggle::Auto,
            atomic: false,
            sole: false,
            peers_sieve: true,
            stagger: (0, 1),
        }
    }
}
