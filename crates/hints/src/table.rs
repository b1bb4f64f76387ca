//! The one table of hints. Adding a hint is adding an entry here; the typed getter, if a room honours it,
//! goes beside the others in `typed.rs`, and the user's page is written anew by running this crate's tests
//! with `UPDATE_DOCS=1`.
//!
//! An entry says honestly what the hint does today: `Active` ones change what Pario does; `Accepted` ones
//! are checked, kept and returned, and their text says what they are kept for.

use pario_types::Toggle;

use crate::kind::{Form, Kind, Value};
use std::borrow::Cow;

/// Whose vocabulary a hint belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Reserved by the MPI standard.
    Mpi,
    /// ROMIO's, the MPI-IO of MPICH.
    Romio,
    /// IBM's, of MPI-IO for GPFS.
    Ibm,
    /// Pario's own.
    Pario,
}

/// What a hint does today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is honoured.
    Active,
    /// It is checked, kept and returned, and changes nothing else.
    Accepted,
}

/// One hint.
#[derive(Debug)]
pub struct Entry {
    /// Its place in the table.
    pub id: Id,
    /// Its canonical name.
    pub name: &'static str,
    /// Other names it answers to.
    pub aliases: &'static [&'static str],
    /// Whose it is.
    pub family: Family,
    /// Its type and range.
    pub kind: Kind,
    /// Its default. `None`: unset unless somebody sets it.
    pub default: Option<&'static Value>,
    /// What it does today.
    pub status: Status,
    /// Whether it counts at open only, so that setting it later is ignored.
    pub fixed_at_open: bool,
    /// Whether programs must pass the same value on all ranks.
    pub same_on_all_ranks: bool,
    /// Whether it is reported to programs but never taken from them.
    pub read_only: bool,
    /// What it means, in a paragraph.
    pub doc: &'static str,
}

impl Family {
    /// All families, in the table's order.
    pub const ALL: [Family; 4] = [Family::Mpi, Family::Romio, Family::Ibm, Family::Pario];

    /// A heading for the family.
    pub fn title(self) -> &'static str {
        match self {
            Family::Mpi => "Reserved by the MPI standard",
            Family::Romio => "ROMIO",
            Family::Ibm => "IBM (MPI-IO for GPFS)",
            Family::Pario => "Pario",
        }
    }
}

impl Status {
    /// The word for it in tables.
    pub fn word(self) -> &'static str {
        match self {
            Status::Active => "active",
            Status::Accepted => "accepted",
        }
    }
}

/// All hints: the MPI standard's, ROMIO's, IBM's, Pario's own.
pub fn table() -> &'static [Entry] {
    &TABLE
}

/// The hint of that name or alias. Names count upper and lower case, as info keys do.
pub fn find(name: &str) -> Option<&'static Entry> {
    TABLE.iter().find(|e| e.name == name || e.aliases.contains(&name))
}

impl Id {
    pub(crate) fn entry(self) -> &'static Entry {
        &TABLE[self as usize]
    }
}

/// Writes the list of ids and the table from one text, so that they cannot disagree.
macro_rules! hints {
    ($($id:ident: $name:literal, $family:ident, $kind:expr, $status:ident;
        $($field:ident = $value:expr),*; $doc:literal;)*) => {
        /// Which hint.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "each is the entry of that name in the table")]
        pub enum Id { $($id),* }

        static TABLE: [Entry; [$(Id::$id),*].len()] = [$(Entry {
            $($field: $value,)*
            ..plain(Id::$id, $name, Family::$family, $kind, Status::$status, $doc)
        }),*];
    };
}

const fn plain(
    id: Id,
    name: &'static str,
    family: Family,
    kind: Kind,
    status: Status,
    doc: &'static str,
) -> Entry {
    let (fixed_at_open, same_on_all_ranks, read_only) = (false, false, false);
    Entry {
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

/// Any positive number of things (nodes, ranks, servers); more than this no machine has.
const SOME: Kind = Kind::Count { min: 1, max: 1 << 30 };
/// A buffer that is held in memory.
const BUFFER: Kind = Kind::Size { min: 1, max: 4 << 30 };
/// A part of a file.
const EXTENT: Kind = Kind::Size { min: 1, max: 1 << 40 };

/// How a region is dealt out.
const PARTITIONING: Kind = Kind::Word(&["auto", "even", "aligned", "static-cyclic", "group-cyclic"]);
/// A share of the blocks in a cache.
const PERCENT: Kind = Kind::Count { min: 0, max: 100 };
/// A number of blocks to prefetch.
const PREFETCHES: Kind = Kind::Count { min: 0, max: 1024 };

static AUTOMATIC: Value = Value::Toggle(Toggle::Automatic);
static NO: Value = Value::Switch(false);
static AUTO: Value = Value::Word("auto");
static QUARTER: Value = Value::Count(25);
static HALF: Value = Value::Count(50);
static MIB_64: Value = Value::Size(64 << 20);
static STAGGERED: Value = Value::Word("staggered");
static FOUR: Value = Value::Count(4);
static HALF_MIB: Value = Value::Size(512 << 10);
static MIB_4: Value = Value::Size(4 << 20);
static MIB_16: Value = Value::Size(16 << 20);
static ONE_PER_NODE: Value = Value::Text(Cow::Borrowed("*:1"));

hints! {
    AccessStyle: "access_style", Mpi,
        Kind::Words(&["read_once", "write_once", "read_mostly", "write_mostly", "sequential",
            "reverse_sequential", "random"]), Accepted;;
        "How the file will be accessed until it is closed or the hint is changed. Kept for read-ahead and \
         caching; no effect on plain files today.";
    CollectiveBuffering: "collective_buffering", Mpi, Kind::Boolean, Active;
        same_on_all_ranks = true;
        "Whether collective calls may gather data at a few ranks (aggregators) before they access the file. \
         false does as romio_cb_read and romio_cb_write with disable, for whichever of the two is not set; \
         true leaves the choice to them.";
    CbBlockSize: "cb_block_size", Mpi, EXTENT, Accepted;
        same_on_all_ranks = true;
        "The unit in which aggregators access the file in collective buffering. Kept for programs that ask \
         for it back; Pario goes by the file system's lock unit, which striping_unit can set.";
    CbBufferSize: "cb_buffer_size", Mpi, BUFFER, Active;
        same_on_all_ranks = true, default = Some(&MIB_16);
        "The most that each aggregator takes of the file at once in collective buffering; an access that \
         needs more runs in rounds.";
    CbNodes: "cb_nodes", Mpi, SOME, Active;
        same_on_all_ranks = true, fixed_at_open = true;
        "How many ranks act as aggregators in collective buffering; there are fewer where cb_config_list \
         allows fewer. Unset means as many as it allows, or, where the number of I/O servers is known, the \
         largest such number that divides the number of servers or is a multiple of it.";
    Chunked: "chunked", Mpi, Kind::Numbers, Accepted;
        same_on_all_ranks = true;
        "The dimensions of the array in the file, for a file that is read and written in subarrays. Kept \
         for layout decisions; no effect on plain files today.";
    ChunkedItem: "chunked_item", Mpi, Kind::Numbers, Accepted;
        same_on_all_ranks = true;
        "The size in bytes of an array element, for the hint chunked. Kept with it; no effect on plain \
         files today.";
    ChunkedSize: "chunked_size", Mpi, Kind::Numbers, Accepted;
        same_on_all_ranks = true;
        "The dimensions of the subarrays, for the hint chunked. Kept with it; no effect on plain files \
         today.";
    Filename: "filename", Mpi, Kind::Text(Form::Any), Active;
        read_only = true;
        "The name the file was opened under. It is returned for an open file; a value that a program \
         passes is ignored, as the standard demands.";
    FilePerm: "file_perm", Mpi, Kind::Mode, Active;
        same_on_all_ranks = true, fixed_at_open = true;
        "The permissions, in octal, of a file that the open creates; the umask takes its bits away as \
         usual. Unset means 0666. It does nothing to a file that exists.";
    IoNodeList: "io_node_list", Mpi, Kind::Text(Form::Nodes), Accepted;
        same_on_all_ranks = true, fixed_at_open = true;
        "The nodes whose storage should hold the file. Kept for files on partitions; no effect on plain \
         files.";
    NbProc: "nb_proc", Mpi, SOME, Accepted;
        same_on_all_ranks = true, fixed_at_open = true;
        "How many ranks will typically access the file, as asked when it is created. Kept for layout \
         decisions; no effect on plain files today.";
    NumIoNodes: "num_io_nodes", Mpi, SOME, Accepted;
        same_on_all_ranks = true, fixed_at_open = true;
        "How many I/O nodes the system has, as asked when the file is created. Kept for files on \
         partitions; no effect on plain files.";
    StripingFactor: "striping_factor", Mpi, SOME, Active;
        same_on_all_ranks = true, fixed_at_open = true, aliases = &["stripe_count"];
        "Over how many storage devices the file is striped. A new file on Lustre is created so; everywhere \
         it is taken as the number of I/O servers in collective buffering, instead of what the file system \
         says. Unset leaves both to the file system.";
    StripingUnit: "striping_unit", Mpi, EXTENT, Active;
        same_on_all_ranks = true, fixed_at_open = true, aliases = &["stripe_size"];
        "How many consecutive bytes of the file go to one storage device before the next. A new file on \
         Lustre is created so; everywhere it is taken as the unit of locking in collective buffering, \
         instead of what the file system says. Unset leaves both to the file system.";

    CbConfigList: "cb_config_list", Romio, Kind::Text(Form::NodeCounts), Active;
        same_on_all_ranks = true, fixed_at_open = true, default = Some(&ONE_PER_NODE);
        "On which nodes aggregators may run and how many on each: items such as node7:2, with * for any \
         node or any number; a node alone means one. A node counts for the first item that names it, and \
         items further left are preferred. As long as neither this nor cb_nodes is set, Pario may use more \
         ranks of a node than the one that the default speaks of, where that is faster. A list that allows \
         no rank at all counts as *:1.";
    CbRead: "romio_cb_read", Romio, Kind::Toggle, Active;
        same_on_all_ranks = true, default = Some(&AUTOMATIC);
        "Whether collective reads use collective buffering: always, never, or where it pays. While it is \
         not set, collective_buffering, IBM_largeblock_io and IBM_sparse_access can disable and \
         romio_no_indep_rw can enable it. A pario_strategy other than auto counts more.";
    CbWrite: "romio_cb_write", Romio, Kind::Toggle, Active;
        same_on_all_ranks = true, default = Some(&AUTOMATIC);
        "Whether collective writes use collective buffering: always, never, or where it pays. While it is \
         not set, collective_buffering, IBM_largeblock_io and IBM_sparse_access can disable and \
         romio_no_indep_rw can enable it. A pario_strategy other than auto counts more.";
    NoIndepRw: "romio_no_indep_rw", Romio, Kind::Boolean, Active;
        same_on_all_ranks = true, fixed_at_open = true, default = Some(&NO);
        "A promise that the program makes collective calls only: true enables collective buffering for reads \
         and writes, unless another hint disables it, and lets ranks that are not aggregators leave the \
         file unopened until they need it.";
    DsRead: "romio_ds_read", Romio, Kind::Toggle, Active;
        default = Some(&AUTOMATIC);
        "Whether a read of scattered pieces reads whole stretches of the file and picks the pieces out of \
         them (data sieving): always, never, or where it pays.";
    DsWrite: "romio_ds_write", Romio, Kind::Toggle, Active;
        default = Some(&AUTOMATIC);
        "Whether a write of scattered pieces reads whole stretches of the file, puts the pieces into them \
         and writes them back under a lock (data sieving): always, never, or where it pays.";
    IndRdBufferSize: "ind_rd_buffer_size", Romio, BUFFER, Active;
        default = Some(&MIB_4);
        "The most that data sieving reads at once. A larger buffer means fewer reads of scattered pieces \
         and more memory per rank.";
    IndWrBufferSize: "ind_wr_buffer_size", Romio, BUFFER, Active;
        default = Some(&HALF_MIB);
        "The most that data sieving reads, changes and writes back at once. A larger buffer means fewer \
         accesses and a longer hold of the lock on the stretch.";
    StartIodevice: "start_iodevice", Romio, Kind::Count { min: 0, max: 1 << 30 }, Active;
        same_on_all_ranks = true, fixed_at_open = true;
        "The storage device, counted from 0, that gets the first stripe of a new file on Lustre; unset \
         leaves it to the file system. No effect elsewhere.";

    IoBufferSize: "IBM_io_buffer_size", Ibm, EXTENT, Active;
        same_on_all_ranks = true;
        "The unit in which the file is dealt out to I/O agents in data shipping, rounded up to whole blocks \
         of the file system; unset means 16 blocks. See pario_strategy.";
    LargeblockIo: "IBM_largeblock_io", Ibm, Kind::Boolean, Active;
        same_on_all_ranks = true, default = Some(&NO);
        "Whether accesses are so large that each rank had better make its own. true turns data shipping off, \
         even if pario_strategy asks for it, and disables collective buffering for reads or writes whose \
         romio_cb_ hint is not set.";
    SparseAccess: "IBM_sparse_access", Ibm, Kind::Boolean, Active;
        same_on_all_ranks = true, default = Some(&NO);
        "Whether the accesses of one collective call lie far apart, so that merging them does not pay. true \
         disables collective buffering for reads or writes whose romio_cb_ hint is not set.";

    AccessDone: "pario_access_done", Pario, Kind::Extents, Active;;
        "Ranges of pario_access_ranges that are done with, so that others can be taken; each as it was given. It \
         takes effect whenever an info with it is passed, before a pario_access_ranges beside it. Closing the file \
         gives up all.";
    AccessRanges: "pario_access_ranges", Pario, Kind::Extents, Active;;
        "Ranges of the file that this rank will access soon, in absolute bytes and in the order of need, such as \
         0+64k,1M+4096. They are got ready while the program does something else: on a partition in the caches of \
         its servers, elsewhere in the system's cache. It takes effect whenever an info with it is passed, and not \
         all may be taken, see pario_access_taken. An MPI library may limit how long a value is: 255 characters in \
         Open MPI.";
    AccessTaken: "pario_access_taken", Pario, Kind::Count { min: 0, max: 1 << 30 }, Active;
        read_only = true;
        "How many ranges of the last pario_access_ranges were taken, from the first on. It is returned for an open \
         file. The others were refused because too much is kept ready: pass them again after some are done.";
    Agents: "pario_agents", Pario, Kind::Ranks, Active;
        same_on_all_ranks = true, fixed_at_open = true;
        "Which ranks are I/O agents in data shipping, such as 0,2,0,1: blocks are dealt to them in this \
         order, and a rank that comes twice gets twice as many. Ranks that the file is not open on are passed \
         over. Unset means the aggregators.";
    CloseSync: "pario_close_sync", Pario, Kind::OnOff, Active;
        default = Some(&NO);
        "Whether closing a file first forces its data to storage, as a call of MPI_File_sync just before \
         would: slower, and after the close a crash of the machine loses nothing.";
    FdPartition: "pario_fd_partition", Pario, PARTITIONING, Active;
        same_on_all_ranks = true, default = Some(&AUTO);
        "How collective buffering deals the accessed region out to the aggregators: in even parts, in parts \
         aligned to the file system's lock unit, in blocks of that unit dealt out in turn, the same within \
         groups of as many aggregators as there are I/O servers, or as suits the file system. It counts for \
         writes, and for reads unless pario_fd_partition_read is set.";
    FdPartitionRead: "pario_fd_partition_read", Pario, PARTITIONING, Active;
        same_on_all_ranks = true;
        "The same as pario_fd_partition, for reads only. Unset means as pario_fd_partition, whose auto \
         chooses even or aligned parts for reads.";
    MaxAcc: "pario_max_acc", Pario, PREFETCHES, Active;
        default = Some(&FOUR), aliases = &["max_acc"];
        "How many of the blocks that guided prefetch has asked for an I/O agent reads before it gives them up \
         and asks for more; 0 turns guided prefetch off. On local file systems it is off unless this is set. \
         See pario_max_pre.";
    MaxPre: "pario_max_pre", Pario, PREFETCHES, Active;
        default = Some(&FOUR), aliases = &["max_pre"];
        "How many blocks guided prefetch asks for ahead of an I/O agent's reads. It concerns independent \
         reads of irregular pieces in data shipping; regular ones are left to the file system's own \
         read-ahead. Blocks are stripes of the partition, or stripes or blocks of the file system, at least 64 \
         KiB.";
    Schedule: "pario_schedule", Pario, Kind::Word(&["staggered", "fixed", "random"]), Active;
        default = Some(&STAGGERED), fixed_at_open = true;
        "With which of a partition's servers a rank begins an access that concerns several: each rank with \
         another, so that not all of them ask the same one first; all with the first; or each with one drawn \
         at random when it opens the file.";
    Strategy: "pario_strategy", Pario,
        Kind::Word(&["auto", "independent", "two-phase", "data-shipping", "client-directed",
            "server-directed"]), Active;
        same_on_all_ranks = true, default = Some(&AUTO);
        "How data moves between ranks and file. independent: each rank by itself. two-phase: collective \
         calls through aggregators. data-shipping: all calls through I/O agents that own the file's blocks \
         in turn, see IBM_io_buffer_size and pario_agents. auto: as suits file and access, within what the \
         hints on collective buffering say. For files on partitions there are two more. server-directed: \
         each rank goes to the servers, whose cache merges the pieces. client-directed: collective calls go to a cache \
         in the ranks' own memory, from which whole blocks go to the servers in the background; see \
         pario_tier1. auto measures which is cheaper. On a plain file these two mean auto, and a line on standard \
         error says so.";
    Tier1: "pario_tier1", Pario, Kind::Toggle, Active;
        same_on_all_ranks = true, fixed_at_open = true, default = Some(&AUTOMATIC);
        "Whether collective calls on a file of a partition may keep blocks in the memory of the ranks: always, never \
         (client-directed then means two-phase), or where the servers are on other hosts. Whoever else wants those \
         bytes gets them: the servers call them back. What is written so is on the servers after a sync or \
         a close, and is lost with a rank that dies before. A partition with tier1 = off has none of it, whatever the \
         hint says.";
    Tier1High: "pario_tier1_high", Pario, PERCENT, Active;
        same_on_all_ranks = true, fixed_at_open = true, default = Some(&HALF);
        "The share, in percent, of a rank's cached blocks that may be unstored before storing them becomes \
         urgent. Below it they are stored when they have not changed for a moment.";
    Tier1Low: "pario_tier1_low", Pario, PERCENT, Active;
        same_on_all_ranks = true, fixed_at_open = true, default = Some(&QUARTER);
        "The share, in percent, at which storing is no longer urgent. See pario_tier1_high.";
    Tier1Size: "pario_tier1_size", Pario, BUFFER, Active;
        same_on_all_ranks = true, fixed_at_open = true, default = Some(&MIB_64);
        "How much memory each rank gives to the cache of pario_tier1, for all its files together: the \
         largest that was asked for.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_entry_stands_at_its_id() {
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
                    entry.kind.parse(&entry.kind.spell(value)).as_ref(),
                    Some(value),
                    "{}",
                    entry.name
                );
            }
        }
    }

    #[test]
    fn families_stand_together() {
        let order: Vec<_> = table().iter().map(|e| Family::ALL.iter().position(|&f| f == e.family)).collect();
        assert!(order.is_sorted());
    }

    #[test]
    fn accepted_hints_say_what_they_are_kept_for() {
        for entry in table().iter().filter(|e| e.status == Status::Accepted) {
            assert!(entry.doc.contains("Kept "), "{}", entry.name);
        }
    }
}
