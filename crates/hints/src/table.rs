//! The table of hints. To add a hint, add an entry here and, if Pario uses the hint, a typed getter in `getters.rs`.
//! Running the tests of this crate with `UPDATE_DOCS=1` regenerates the user's page.
//!
//! The status of an entry says what the hint does today: `Active` hints change what Pario does. `Accepted` hints are
//! checked, stored and returned; their text says what they are stored for.

use crate::hint_type::{HintType, HintValue, TextFormat};
use crate::schedule::Schedule;
use pario_types::{MAX_NETWORK_BUFFER, PartitioningMethod, Strategy, Toggle};
use std::borrow::Cow;

/// The origin of a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintFamily {
    /// Reserved by the MPI standard.
    Mpi,
    /// From ROMIO, the MPI-IO implementation of MPICH.
    Romio,
    /// From IBM's MPI-IO for GPFS.
    Ibm,
    /// Pario's own.
    Pario,
}

/// The effect of a hint today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintStatus {
    /// The hint is used.
    Active,
    /// The hint is checked, stored and returned, and has no other effect.
    Accepted,
}

/// One hint.
#[derive(Debug)]
pub struct HintEntry {
    /// The index in the table.
    pub id: HintId,
    /// The canonical name.
    pub name: &'static str,
    /// Other names of the hint.
    pub aliases: &'static [&'static str],
    /// The origin of the hint.
    pub family: HintFamily,
    /// The type and range of the value.
    pub kind: HintType,
    /// The default. `None`: the hint is unset unless a source sets it.
    pub default: Option<&'static HintValue>,
    /// The effect of the hint today.
    pub status: HintStatus,
    /// Whether the hint can be set only at open; later values are ignored.
    pub fixed_at_open: bool,
    /// Whether programs must pass the same value on all ranks.
    pub same_on_all_ranks: bool,
    /// Whether the hint is only reported to programs.
    pub read_only: bool,
    /// The meaning of the hint, in a paragraph.
    pub doc: &'static str,
}

impl HintFamily {
    /// All families, in the table's order.
    pub const ALL: [HintFamily; 4] = [HintFamily::Mpi, HintFamily::Romio, HintFamily::Ibm, HintFamily::Pario];

    /// A heading for the family.
    pub fn title(self) -> &'static str {
        match self {
            HintFamily::Mpi => "Reserved by the MPI standard",
            HintFamily::Romio => "ROMIO",
            HintFamily::Ibm => "IBM (MPI-IO for GPFS)",
            HintFamily::Pario => "Pario",
        }
    }
}

impl HintStatus {
    /// The name of the status in tables.
    pub fn word(self) -> &'static str {
        match self {
            HintStatus::Active => "active",
            HintStatus::Accepted => "accepted",
        }
    }
}

/// All hints, by origin.
pub fn table() -> &'static [HintEntry] {
    &TABLE
}

/// The hint with this name or alias. Names are case-sensitive, as info keys are.
pub fn find(name: &str) -> Option<&'static HintEntry> {
    TABLE.iter().find(|e| e.name == name || e.aliases.contains(&name))
}

/// The name or alias of a hint that differs from `name` in at most two letters, for error messages.
pub fn suggest(name: &str) -> Option<&'static str> {
    let names = TABLE.iter().flat_map(|entry| entry.aliases.iter().copied().chain([entry.name]));
    let near = names.map(|known| (strsim::levenshtein(known, name), known));
    near.filter(|(distance, _)| *distance <= 2).min().map(|(_, known)| known)
}

impl HintId {
    pub(crate) fn entry(self) -> &'static HintEntry {
        &TABLE[self as usize]
    }
}

/// Generates the ids and the table from one list, so that they cannot differ.
macro_rules! hints {
    ($($id:ident: $name:literal, $family:ident, $kind:expr, $status:ident;
        $($field:ident = $value:expr),*; $doc:literal;)*) => {
        /// A hint.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "each is the entry of that name in the table")]
        pub enum HintId { $($id),* }

        static TABLE: [HintEntry; [$(HintId::$id),*].len()] = [$(HintEntry {
            $($field: $value,)*
            ..plain(HintId::$id, $name, HintFamily::$family, $kind, HintStatus::$status, $doc)
        }),*];
    };
}

const fn plain(
    id: HintId,
    name: &'static str,
    family: HintFamily,
    kind: HintType,
    status: HintStatus,
    doc: &'static str,
) -> HintEntry {
    let (fixed_at_open, same_on_all_ranks, read_only) = (false, false, false);
    HintEntry {
        id,
        name,
        aliases: &[],
        family,
        kind,
        default: None,
        status,
        fixed_at_open,
        same_on_all_ranks,
        read_only,
        doc,
    }
}

/// A positive number of nodes, ranks or servers, up to more than any machine has.
const SOME: HintType = HintType::Count { min: 1, max: 1 << 30 };
/// The size of a buffer in memory.
const BUFFER: HintType = HintType::Size { min: 1, max: 4 << 30 };
/// The size of a part of a file.
const EXTENT: HintType = HintType::Size { min: 1, max: 1 << 40 };

/// The partitioning of file domains.
const PARTITIONING: HintType = HintType::Word(&[
    "auto",
    PartitioningMethod::Even.name(),
    PartitioningMethod::Aligned.name(),
    PartitioningMethod::StaticCyclic.name(),
    PartitioningMethod::GroupCyclic.name(),
]);
/// A percentage of the blocks in a cache.
const PERCENT: HintType = HintType::Count { min: 0, max: 100 };
/// A number of blocks to prefetch.
const PREFETCHES: HintType = HintType::Count { min: 0, max: 1024 };

/// The strategies of data access.
const STRATEGY: HintType = HintType::Word(&[
    Strategy::Auto.name(),
    Strategy::Independent.name(),
    Strategy::TwoPhase.name(),
    Strategy::DataShipping.name(),
    Strategy::ClientDirected.name(),
    Strategy::ServerDirected.name(),
]);
/// The schedules of accesses to several servers.
const SCHEDULE: HintType =
    HintType::Word(&[Schedule::Staggered.name(), Schedule::Fixed.name(), Schedule::Random.name()]);

static AUTOMATIC: HintValue = HintValue::Toggle(Toggle::Automatic);
static NO: HintValue = HintValue::Switch(false);
static AUTO: HintValue = HintValue::Word("auto");
static QUARTER: HintValue = HintValue::Count(25);
static HALF: HintValue = HintValue::Count(50);
static MIB: HintValue = HintValue::Size(1 << 20);
static MIB_64: HintValue = HintValue::Size(64 << 20);
static STAGGERED: HintValue = HintValue::Word(Schedule::Staggered.name());
static FOUR: HintValue = HintValue::Count(4);
static HALF_MIB: HintValue = HintValue::Size(512 << 10);
static MIB_4: HintValue = HintValue::Size(4 << 20);
static MIB_16: HintValue = HintValue::Size(16 << 20);
static ONE_PER_NODE: HintValue = HintValue::Text(Cow::Borrowed("*:1"));

hints! {
    AccessStyle: "access_style", Mpi,
        HintType::Words(&["read_once", "write_once", "read_mostly", "write_mostly", "sequential",
            "reverse_sequential", "random"]), Accepted;;
        "How the file will be accessed until it is closed or the hint is changed. Kept for read-ahead and \
         caching; no effect on plain files today.";
    CollectiveBuffering: "collective_buffering", Mpi, HintType::Boolean, Active;
        same_on_all_ranks = true;
        "Whether collective calls may collect data at a few ranks (aggregators) before they access the file. \
         false disables collective buffering for reads and for writes, except where romio_cb_read or \
         romio_cb_write is set. true leaves the choice to these two hints.";
    CbBlockSize: "cb_block_size", Mpi, EXTENT, Accepted;
        same_on_all_ranks = true;
        "The unit in which aggregators access the file in collective buffering. Kept for programs that read \
         it back. Pario uses the lock unit of the file system, which striping_unit can set.";
    CbBufferSize: "cb_buffer_size", Mpi, BUFFER, Active;
        same_on_all_ranks = true, default = Some(&MIB_16);
        "The largest number of bytes that each aggregator accesses at once in collective buffering. An access \
         that needs more is done in rounds.";
    CbNodes: "cb_nodes", Mpi, SOME, Active;
        same_on_all_ranks = true, fixed_at_open = true;
        "The number of ranks that are aggregators in collective buffering. There are fewer if cb_config_list \
         allows fewer. Unset means as many as cb_config_list allows, or, if the number of I/O servers is \
         known, the largest allowed number that divides the number of servers or is a multiple of it.";
    Chunked: "chunked", Mpi, HintType::Numbers, Accepted;
        same_on_all_ranks = true;
        "The dimensions of the array in the file, for a file that is read and written in subarrays. Kept \
         for layout decisions; no effect on plain files today.";
    ChunkedItem: "chunked_item", Mpi, HintType::Numbers, Accepted;
        same_on_all_ranks = true;
        "The size in bytes of an array element, for the hint chunked. Kept with it; no effect on plain \
         files today.";
    ChunkedSize: "chunked_size", Mpi, HintType::Numbers, Accepted;
        same_on_all_ranks = true;
        "The dimensions of the subarrays, for the hint chunked. Kept with it; no effect on plain files \
         today.";
    Filename: "filename", Mpi, HintType::Text(TextFormat::Any), Active;
        read_only = true;
        "The name under which the file was opened. It is returned for an open file. As the standard demands, \
         a value that a program passes is ignored.";
    FilePerm: "file_perm", Mpi, HintType::Mode, Active;
        same_on_all_ranks = true, fixed_at_open = true;
        "The permissions, in octal, of a file that the open creates, before the umask. Unset means 0666. It \
         has no effect on a file that exists.";
    IoNodeList: "io_node_list", Mpi, HintType::Text(TextFormat::Nodes), Accepted;
        same_on_all_ranks = true, fixed_at_open = true;
        "The nodes whose storage should hold the file. Kept for files on partitions; no effect on plain \
         files.";
    NbProc: "nb_proc", Mpi, SOME, Accepted;
        same_on_all_ranks = true, fixed_at_open = true;
        "The number of ranks that will typically access the file, given when it is created. Kept for layout \
         decisions; no effect on plain files today.";
    NumIoNodes: "num_io_nodes", Mpi, SOME, Accepted;
        same_on_all_ranks = true, fixed_at_open = true;
        "The number of I/O nodes of the system, given when the file is created. Kept for files on partitions; \
         no effect on plain files.";
    StripingFactor: "striping_factor", Mpi, SOME, Active;
        same_on_all_ranks = true, fixed_at_open = true, aliases = &["stripe_count"];
        "The number of storage devices over which the file is striped. A new file on Lustre is created with \
         it. On every file system it replaces the number of I/O servers that the file system reports, which \
         collective buffering uses. Unset leaves both to the file system.";
    StripingUnit: "striping_unit", Mpi, EXTENT, Active;
        same_on_all_ranks = true, fixed_at_open = true, aliases = &["stripe_size"];
        "The stripe size: the number of consecutive bytes of the file on one storage device. A new file on \
         Lustre is created with it. On every file system it replaces the lock unit that the file system \
         reports, which collective buffering uses. Unset leaves both to the file system.";

    CbConfigList: "cb_config_list", Romio, HintType::Text(TextFormat::NodeCounts), Active;
        same_on_all_ranks = true, fixed_at_open = true, default = Some(&ONE_PER_NODE);
        "The nodes on which aggregators may run, and how many on each: items such as node7:2, where * means \
         any node or any number, and a node without a number means one aggregator. The first item that \
         matches a node counts, and items further left are preferred. If neither this hint nor cb_nodes is \
         set, Pario may use more than one rank of a node if that is faster. A list that allows no rank at all \
         counts as *:1.";
    CbRead: "romio_cb_read", Romio, HintType::Toggle, Active;
        same_on_all_ranks = true, default = Some(&AUTOMATIC);
        "Whether collective reads use collective buffering: always, never, or if it is expected to be faster. \
         While it is not set, collective_buffering, IBM_largeblock_io and IBM_sparse_access can disable it, \
         and romio_no_indep_rw can enable it. A pario_strategy other than auto takes precedence.";
    CbWrite: "romio_cb_write", Romio, HintType::Toggle, Active;
        same_on_all_ranks = true, default = Some(&AUTOMATIC);
        "Whether collective writes use collective buffering: always, never, or if it is expected to be \
         faster. While it is not set, collective_buffering, IBM_largeblock_io and IBM_sparse_access can \
         disable it, and romio_no_indep_rw can enable it. A pario_strategy other than auto takes precedence.";
    NoIndepRw: "romio_no_indep_rw", Romio, HintType::Boolean, Active;
        same_on_all_ranks = true, fixed_at_open = true, default = Some(&NO);
        "A promise that the program makes only collective calls. true enables collective buffering for reads \
         and writes, unless another hint disables it. Ranks that are not aggregators then open the file only \
         when they need it.";
    DsRead: "romio_ds_read", Romio, HintType::Toggle, Active;
        default = Some(&AUTOMATIC);
        "Whether a read of noncontiguous pieces reads contiguous parts of the file and copies the pieces out \
         of them (data sieving): always, never, or if it is expected to be faster.";
    DsWrite: "romio_ds_write", Romio, HintType::Toggle, Active;
        default = Some(&AUTOMATIC);
        "Whether a write of noncontiguous pieces reads contiguous parts of the file, copies the pieces into \
         them and writes them back under a lock (data sieving): always, never, or if it is expected to be \
         faster.";
    IndRdBufferSize: "ind_rd_buffer_size", Romio, BUFFER, Active;
        default = Some(&MIB_4);
        "The largest number of bytes that data sieving reads at once. A larger buffer means fewer reads and \
         more memory per rank.";
    IndWrBufferSize: "ind_wr_buffer_size", Romio, BUFFER, Active;
        default = Some(&HALF_MIB);
        "The largest number of bytes that data sieving reads, changes and writes back at once. A larger \
         buffer means fewer accesses, and locks that are held longer.";
    StartIodevice: "start_iodevice", Romio, HintType::Count { min: 0, max: 1 << 30 }, Active;
        same_on_all_ranks = true, fixed_at_open = true;
        "The storage device, counted from 0, that stores the first stripe of a new file on Lustre. Unset \
         leaves it to the file system. No effect elsewhere.";

    IoBufferSize: "IBM_io_buffer_size", Ibm, EXTENT, Active;
        same_on_all_ranks = true;
        "The size of the blocks that I/O agents own in data shipping, rounded up to whole blocks of the file \
         system. Unset means 16 blocks. See pario_strategy.";
    LargeblockIo: "IBM_largeblock_io", Ibm, HintType::Boolean, Active;
        same_on_all_ranks = true, default = Some(&NO);
        "Whether accesses are so large that independent access is faster. true disables data shipping, even \
         if pario_strategy asks for it, and disables collective buffering for reads or writes whose romio_cb_ \
         hint is not set.";
    SparseAccess: "IBM_sparse_access", Ibm, HintType::Boolean, Active;
        same_on_all_ranks = true, default = Some(&NO);
        "Whether the accesses of one collective call are so far apart that merging them does not pay. true \
         disables collective buffering for reads or writes whose romio_cb_ hint is not set.";

    AccessDone: "pario_access_done", Pario, HintType::Extents, Active;;
        "Ranges of pario_access_ranges that the rank no longer needs, so that other ranges can be taken. Each \
         range must be written as in pario_access_ranges. The hint takes effect each time an info object with \
         it is passed, before a pario_access_ranges in the same object. Closing the file releases all ranges.";
    AccessRanges: "pario_access_ranges", Pario, HintType::Extents, Active;;
        "Ranges of the file that this rank will access soon, in absolute bytes and in order of access, such \
         as 0+64k,1M+4096. Pario prefetches them in the background: on a partition into the caches of the \
         servers, elsewhere into the page cache. The hint takes effect each time an info object with it is \
         passed. Not all ranges may be taken, see pario_access_taken. The MPI library may limit the length of \
         a value: to 255 characters in Open MPI.";
    AccessTaken: "pario_access_taken", Pario, HintType::Count { min: 0, max: 1 << 30 }, Active;
        read_only = true;
        "The number of ranges of the last pario_access_ranges that were taken, from the first on. It is \
         returned for an open file. The other ranges were refused because a limit was reached. The program \
         can pass them again after it has released some with pario_access_done.";
    Agents: "pario_agents", Pario, HintType::Ranks, Active;
        same_on_all_ranks = true, fixed_at_open = true;
        "The ranks that are I/O agents in data shipping, such as 0,2,0,1. They own blocks cyclically in this \
         order, and a rank that occurs twice owns twice as many. Ranks on which the file is not open are \
         skipped. Unset means the aggregators.";
    CloseSync: "pario_close_sync", Pario, HintType::OnOff, Active;
        default = Some(&NO);
        "Whether close forces the data to storage first, as a call of MPI_File_sync would. Close takes \
         longer, and a crash of the machine after it loses nothing.";
    FdPartition: "pario_fd_partition", Pario, PARTITIONING, Active;
        same_on_all_ranks = true, default = Some(&AUTO);
        "How collective buffering partitions the accessed region into file domains of the aggregators. even: \
         contiguous parts of equal size. aligned: contiguous parts with boundaries at the lock unit of the \
         file system. static-cyclic: blocks of that unit, assigned cyclically. group-cyclic: the same within \
         groups of as many aggregators as there are I/O servers. auto: by the file system. It applies to \
         writes, and to reads unless pario_fd_partition_read is set.";
    FdPartitionRead: "pario_fd_partition_read", Pario, PARTITIONING, Active;
        same_on_all_ranks = true;
        "As pario_fd_partition, for reads only. Unset means the value of pario_fd_partition, whose auto means \
         even or aligned for reads.";
    MaxAcc: "pario_max_acc", Pario, PREFETCHES, Active;
        default = Some(&FOUR), aliases = &["max_acc"];
        "The number of prefetched blocks that an I/O agent reads before it releases them and requests more. 0 \
         disables guided prefetch. On local file systems guided prefetch is off unless this hint is set. See \
         pario_max_pre.";
    MaxPre: "pario_max_pre", Pario, PREFETCHES, Active;
        default = Some(&FOUR), aliases = &["max_pre"];
        "The number of blocks that guided prefetch requests ahead of an I/O agent's reads. It applies to \
         independent reads of irregular pieces in data shipping; for regular pieces the read-ahead of the \
         file system suffices. Blocks are stripes of the partition, or stripes or blocks of the file system, \
         at least 64 KiB.";
    NetworkBuffer: "pario_network_buffer", Pario,
        HintType::Size { min: 4096, max: MAX_NETWORK_BUFFER }, Active;
        default = Some(&MIB), fixed_at_open = true;
        "The most bytes of data in one message between this rank and a server of a partition. A larger access \
         is sent in several messages, of which a few are under way at a time. It does not concern servers on \
         the same host, whose cache the rank accesses without messages. No effect on plain files.";
    Schedule: "pario_schedule", Pario, SCHEDULE, Active;
        default = Some(&STAGGERED), fixed_at_open = true;
        "The server of a partition with which a rank begins an access to several servers. staggered: each \
         rank begins with another server, so that not all ranks send their first request to the same one. \
         fixed: all ranks begin with the first server. random: each rank draws its first server when it opens \
         the file.";
    Strategy: "pario_strategy", Pario,
        STRATEGY, Active;
        same_on_all_ranks = true, default = Some(&AUTO);
        "How data moves between ranks and file. independent: each rank accesses the file by itself. \
         two-phase: collective calls go through aggregators. data-shipping: all calls go through I/O agents \
         that own the blocks of the file cyclically, see IBM_io_buffer_size and pario_agents. auto: chosen by \
         file and access, within the hints on collective buffering. Files on partitions have two more \
         strategies. server-directed: each rank accesses the servers, whose cache merges the pieces. \
         client-directed: collective calls go to a cache in the memory of the ranks, from which whole blocks \
         are written to the servers in the background, see pario_tier1. On a partition auto measures which \
         strategy is faster. On a plain file server-directed and client-directed mean auto, and a line on \
         standard error says so.";
    Tier1: "pario_tier1", Pario, HintType::Toggle, Active;
        same_on_all_ranks = true, fixed_at_open = true, default = Some(&AUTOMATIC);
        "Whether collective calls on a file of a partition may cache blocks in the memory of the ranks: \
         always, never (client-directed then means two-phase), or if the servers are on other hosts. Other \
         programs always read the latest data, because the servers recall cached blocks first. Cached data is \
         on the servers after a sync or a close, and is lost if its rank dies before. If the partition file \
         says tier1 = off, the hint is always disable.";
    Tier1High: "pario_tier1_high", Pario, PERCENT, Active;
        same_on_all_ranks = true, fixed_at_open = true, default = Some(&HALF);
        "The high watermark: the percentage of dirty blocks in a rank's cache above which they are written to \
         the servers at once. Below it a block is written when it has not changed for a moment.";
    Tier1Low: "pario_tier1_low", Pario, PERCENT, Active;
        same_on_all_ranks = true, fixed_at_open = true, default = Some(&QUARTER);
        "The low watermark: the percentage of dirty blocks down to which they are written at once. See \
         pario_tier1_high.";
    Tier1Size: "pario_tier1_size", Pario, BUFFER, Active;
        same_on_all_ranks = true, fixed_at_open = true, default = Some(&MIB_64);
        "The memory of each rank for the cache of pario_tier1, for all its files together. If files ask for \
         different sizes, the largest counts.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_entry_is_at_the_index_of_its_id() {
        for (index, entry) in table().iter().enumerate() {
            assert_eq!(entry.id as usize, index);
        }
    }

    #[test]
    fn names_and_aliases_are_distinct_and_fit_an_info_key() {
        let mut seen = HashSet::new();
        for name in table().iter().flat_map(|e| e.aliases.iter().chain([&e.name])) {
            assert!(seen.insert(name), "{name} twice");
            assert!(name.len() < 36, "{name}: Open MPI's info keys hold 35 characters");
        }
    }

    #[test]
    fn every_default_is_a_value_of_its_hint() {
        for entry in table() {
            if let Some(value) = entry.default {
                assert_eq!(
                    entry.kind.parse(&entry.kind.format(value)).as_ref(),
                    Some(value),
                    "{}",
                    entry.name
                );
            }
        }
    }

    #[test]
    fn every_choice_of_a_hint_has_a_type() {
        let words = |name: &str| match find(name).map(|entry| entry.kind) {
            Some(HintType::Word(words)) => words,
            other => panic!("{name}: {other:?}"),
        };
        assert!(words("pario_strategy").iter().copied().eq(Strategy::ALL.map(Strategy::name)));
        assert!(words("pario_schedule").iter().copied().eq(Schedule::ALL.map(Schedule::name)));
        for hint in ["pario_fd_partition", "pario_fd_partition_read"] {
            assert!(
                words(hint)[1..].iter().copied().eq(PartitioningMethod::ALL.map(PartitioningMethod::name))
            );
        }
    }

    #[test]
    fn a_mistyped_name_gets_a_suggestion() {
        assert_eq!(suggest("cb_node"), Some("cb_nodes"));
        assert_eq!(suggest("stripe_cuont"), Some("stripe_count"));
        assert_eq!(suggest("nothing_like_it"), None);
    }

    #[test]
    fn hints_are_grouped_by_family() {
        let order: Vec<_> =
            table().iter().map(|e| HintFamily::ALL.iter().position(|&f| f == e.family)).collect();
        assert!(order.is_sorted());
    }

    #[test]
    fn accepted_hints_say_what_they_are_stored_for() {
        for entry in table().iter().filter(|e| e.status == HintStatus::Accepted) {
            assert!(entry.doc.contains("Kept "), "{}", entry.name);
        }
    }
}
