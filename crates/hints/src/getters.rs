//! The typed getters: one for each active hint.
//!
//! If several hints concern one decision, the getter combines them, so that callers need not know their precedence.
//! [`Hints::cb_read`] and [`Hints::fd_partition_read`] do so.

use crate::hint_type::HintValue;
use crate::hints::Hints;
use crate::schedule::Schedule;
use crate::table::HintId;
use pario_types::{PartitioningMethod, Strategy, Toggle};
use std::ops::Range;

impl Hints {
    /// The permission bits of a new file; `None` means 0666. The umask applies to both.
    pub fn file_perm(&self) -> Option<u32> {
        match self.value(HintId::FilePerm) {
            Some(&HintValue::Mode(bits)) => Some(bits),
            _ => None,
        }
    }

    /// The buffer size of data sieving in independent reads.
    pub fn ind_rd_buffer_size(&self) -> u64 {
        self.number(HintId::IndRdBufferSize)
    }

    /// The buffer size of data sieving in independent writes.
    pub fn ind_wr_buffer_size(&self) -> u64 {
        self.number(HintId::IndWrBufferSize)
    }

    /// Whether independent reads of noncontiguous data use data sieving.
    pub fn ds_read(&self) -> Toggle {
        self.toggle(HintId::DsRead)
    }

    /// Whether independent writes of noncontiguous data use data sieving (read-modify-write).
    pub fn ds_write(&self) -> Toggle {
        self.toggle(HintId::DsWrite)
    }

    /// Whether close forces the data to storage first.
    pub fn close_sync(&self) -> bool {
        self.switch(HintId::CloseSync) == Some(true)
    }

    /// The largest number of bytes that an aggregator accesses in one round.
    pub fn cb_buffer_size(&self) -> u64 {
        self.number(HintId::CbBufferSize)
    }

    /// The number of aggregators; `None` lets Pario choose.
    pub fn cb_nodes(&self) -> Option<u32> {
        self.small(HintId::CbNodes)
    }

    /// The nodes on which aggregators may run, in ROMIO's syntax, and whether a source has set the hint. If not, the
    /// list is ROMIO's default, one aggregator on each node.
    pub fn cb_config_list(&self) -> (&str, bool) {
        let text = match self.value(HintId::CbConfigList) {
            Some(HintValue::Text(text)) => text,
            other => unreachable!("cb_config_list is a text with a default, not {other:?}"),
        };
        (text, self.is_set(HintId::CbConfigList))
    }

    /// Whether collective reads use collective buffering: `romio_cb_read` if it is set, else the result of the hints
    /// that concern both directions.
    pub fn cb_read(&self) -> Toggle {
        self.collective(HintId::CbRead)
    }

    /// Whether collective writes use collective buffering: `romio_cb_write` if it is set, else the result of the hints
    /// that concern both directions.
    pub fn cb_write(&self) -> Toggle {
        self.collective(HintId::CbWrite)
    }

    fn collective(&self, id: HintId) -> Toggle {
        let apart =
            self.collective_buffering() == Some(false) || self.sparse_access() || self.largeblock_io();
        if self.is_set(id) {
            self.toggle(id)
        } else if apart {
            Toggle::Disable
        } else if self.switch(HintId::NoIndepRw) == Some(true) {
            Toggle::Enable
        } else {
            self.toggle(id)
        }
    }

    /// Whether the program promises to access the file only by collective calls. As in ROMIO, the promise has no
    /// effect if collective buffering is disabled for reads or for writes.
    pub fn no_indep_rw(&self) -> bool {
        let buffered = self.cb_read() != Toggle::Disable && self.cb_write() != Toggle::Disable;
        buffered && self.switch(HintId::NoIndepRw) == Some(true)
    }

    /// Whether collective calls may use collective buffering. [`Hints::cb_read`] and [`Hints::cb_write`] take it into
    /// account.
    pub fn collective_buffering(&self) -> Option<bool> {
        self.switch(HintId::CollectiveBuffering)
    }

    /// The number of servers over which the file is striped, or is to be striped if it is new.
    pub fn striping_factor(&self) -> Option<u32> {
        self.small(HintId::StripingFactor)
    }

    /// The stripe size, which is the lock unit.
    pub fn striping_unit(&self) -> Option<u64> {
        self.size(HintId::StripingUnit)
    }

    /// The server that gets the first stripe of a new file.
    pub fn start_iodevice(&self) -> Option<u32> {
        self.small(HintId::StartIodevice)
    }

    /// The size of an I/O agent's blocks before they are rounded up to whole file system blocks; `None` means 16
    /// blocks.
    pub fn io_buffer_size(&self) -> Option<u64> {
        self.size(HintId::IoBufferSize)
    }

    /// Whether data shipping is off and every rank accesses the file independently.
    pub fn largeblock_io(&self) -> bool {
        self.switch(HintId::LargeblockIo) == Some(true)
    }

    /// Whether the accesses of a collective call are far apart. [`Hints::cb_read`] and [`Hints::cb_write`] take it
    /// into account.
    pub fn sparse_access(&self) -> bool {
        self.switch(HintId::SparseAccess) == Some(true)
    }

    /// The partitioning of file domains in collective writes; `None` means the default of the file system.
    pub fn fd_partition(&self) -> Option<PartitioningMethod> {
        self.partitioning(HintId::FdPartition)
    }

    /// The partitioning of file domains in collective reads: that of writes unless the hint for reads is set. `None`
    /// means the default of the file system.
    pub fn fd_partition_read(&self) -> Option<PartitioningMethod> {
        let own = self.is_set(HintId::FdPartitionRead);
        self.partitioning(if own { HintId::FdPartitionRead } else { HintId::FdPartition })
    }

    /// The strategy of data access.
    pub fn strategy(&self) -> Strategy {
        self.word(HintId::Strategy, Strategy::from_name)
    }

    /// The choice of the server with which a rank begins.
    pub fn schedule(&self) -> Schedule {
        self.word(HintId::Schedule, Schedule::from_name)
    }

    /// The ranks that are I/O agents, in the order in which they own blocks. A rank may occur several times. `None`
    /// means the aggregators. The file may be open on fewer ranks than the list names.
    pub fn agents(&self) -> Option<Vec<u32>> {
        match self.value(HintId::Agents) {
            Some(HintValue::Numbers(ranks)) => Some(ranks.iter().map(|&rank| rank as u32).collect()),
            _ => None,
        }
    }

    /// Whether ranks may cache blocks of a partition's file in their memory.
    pub fn tier1(&self) -> Toggle {
        self.toggle(HintId::Tier1)
    }

    /// The size of the tier 1 cache in bytes, and its high and low watermark of dirty blocks in percent.
    pub fn tier1_size(&self) -> (u64, u8, u8) {
        let percent = |id| self.number(id).min(100) as u8;
        (self.number(HintId::Tier1Size), percent(HintId::Tier1High), percent(HintId::Tier1Low))
    }

    /// The largest number of bytes of data in one message to or from a server of a partition.
    pub fn network_buffer(&self) -> u64 {
        self.number(HintId::NetworkBuffer)
    }

    /// The ranges of the file that the rank will access soon.
    pub fn access_ranges(&self) -> Option<&[Range<u64>]> {
        self.extents(HintId::AccessRanges)
    }

    /// The ranges that the rank no longer needs.
    pub fn access_done(&self) -> Option<&[Range<u64>]> {
        self.extents(HintId::AccessDone)
    }

    /// The largest number of blocks that guided prefetch has in flight.
    pub fn max_pre(&self) -> u32 {
        self.number(HintId::MaxPre) as u32
    }

    /// The number of blocks that are read before guided prefetch requests more; 0 disables it.
    pub fn max_acc(&self) -> u32 {
        self.number(HintId::MaxAcc) as u32
    }

    fn switch(&self, id: HintId) -> Option<bool> {
        match self.value(id) {
            Some(&HintValue::Switch(on)) => Some(on),
            _ => None,
        }
    }

    fn extents(&self, id: HintId) -> Option<&[Range<u64>]> {
        match self.value(id) {
            Some(HintValue::Extents(all)) => Some(all),
            _ => None,
        }
    }

    fn size(&self, id: HintId) -> Option<u64> {
        match self.value(id) {
            Some(&HintValue::Size(n)) => Some(n),
            _ => None,
        }
    }

    /// A count; its range in the table fits a `u32`.
    fn small(&self, id: HintId) -> Option<u32> {
        match self.value(id) {
            Some(&HintValue::Count(n)) => u32::try_from(n).ok(),
            _ => None,
        }
    }

    /// A partitioning method; `None` for `auto` or an unset hint.
    fn partitioning(&self, id: HintId) -> Option<PartitioningMethod> {
        match self.value(id) {
            Some(&HintValue::Word(word)) => PartitioningMethod::from_name(word),
            _ => None,
        }
    }

    // The getters below are for hints with a default of the right type. A test checks that.

    fn number(&self, id: HintId) -> u64 {
        match self.value(id) {
            Some(&(HintValue::Size(n) | HintValue::Count(n))) => n,
            other => unreachable!("{id:?} is a number with a default, not {other:?}"),
        }
    }

    fn toggle(&self, id: HintId) -> Toggle {
        match self.value(id) {
            Some(&HintValue::Toggle(t)) => t,
            other => unreachable!("{id:?} is a toggle with a default, not {other:?}"),
        }
    }

    fn word<T>(&self, id: HintId, from_name: fn(&str) -> Option<T>) -> T {
        let value = self.value(id);
        let Some(choice) = value.and_then(|value| match value {
            HintValue::Word(word) => from_name(word),
            _ => None,
        }) else {
            unreachable!("{id:?} is a word with a default, not {value:?}")
        };
        choice
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::{ApplyOutcome, HintSource};

    fn with(all: &[(&str, &str)]) -> Hints {
        let mut hints = Hints::new();
        for (name, value) in all {
            assert_eq!(hints.apply(HintSource::Info, name, value), ApplyOutcome::Accepted, "{name}");
        }
        hints
    }

    #[test]
    fn defaults_are_romios() {
        let hints = Hints::new();
        assert_eq!(hints.ind_rd_buffer_size(), 4 << 20);
        assert_eq!(hints.ind_wr_buffer_size(), 512 << 10);
        assert_eq!((hints.ds_read(), hints.ds_write()), (Toggle::Automatic, Toggle::Automatic));
        assert_eq!((hints.file_perm(), hints.close_sync()), (None, false));
        assert_eq!((hints.cb_buffer_size(), hints.cb_nodes()), (16 << 20, None));
        assert_eq!(hints.cb_config_list(), ("*:1", false));
        assert_eq!((hints.cb_read(), hints.cb_write()), (Toggle::Automatic, Toggle::Automatic));
        assert_eq!((hints.no_indep_rw(), hints.collective_buffering()), (false, None));
    }

    #[test]
    fn defaults_of_the_other_hints() {
        let hints = Hints::new();
        assert_eq!(
            (hints.striping_factor(), hints.striping_unit(), hints.start_iodevice()),
            (None, None, None)
        );
        assert_eq!((hints.io_buffer_size(), hints.agents()), (None, None));
        assert_eq!((hints.largeblock_io(), hints.sparse_access()), (false, false));
        assert_eq!((hints.fd_partition(), hints.fd_partition_read()), (None, None));
        assert_eq!((hints.strategy(), hints.max_pre(), hints.max_acc()), (Strategy::Auto, 4, 4));
        assert_eq!(hints.schedule(), Schedule::Staggered);
        assert_eq!(hints.network_buffer(), 1 << 20);
        assert_eq!((hints.tier1(), hints.tier1_size()), (Toggle::Automatic, (64 << 20, 50, 25)));
    }

    #[test]
    fn strings_become_typed_values() {
        let hints = with(&[
            ("ind_rd_buffer_size", "64M"),
            ("ind_wr_buffer_size", "1k"),
            ("romio_ds_read", "disable"),
            ("romio_ds_write", "enable"),
            ("file_perm", "0600"),
            ("pario_close_sync", "enable"),
        ]);
        assert_eq!((hints.ind_rd_buffer_size(), hints.ind_wr_buffer_size()), (64 << 20, 1024));
        assert_eq!((hints.ds_read(), hints.ds_write()), (Toggle::Disable, Toggle::Enable));
        assert_eq!((hints.file_perm(), hints.close_sync()), (Some(0o600), true));
        assert_eq!(Hints::new().apply(HintSource::Info, "nc_align_size", "1"), ApplyOutcome::Unknown);
    }

    #[test]
    fn strings_of_collective_hints_become_typed_values() {
        let hints = with(&[
            ("cb_buffer_size", "16"),
            ("cb_nodes", "3"),
            ("cb_config_list", "*:1"),
            ("stripe_count", "4"),
            ("stripe_size", "64k"),
            ("start_iodevice", "0"),
            ("pario_strategy", "Two-Phase"),
        ]);
        assert_eq!((hints.cb_buffer_size(), hints.cb_nodes()), (16, Some(3)));
        assert_eq!(hints.cb_config_list(), ("*:1", true));
        assert_eq!((hints.striping_factor(), hints.striping_unit()), (Some(4), Some(64 << 10)));
        assert_eq!((hints.start_iodevice(), hints.strategy()), (Some(0), Strategy::TwoPhase));
    }

    #[test]
    fn strings_of_data_shipping_hints_become_typed_values() {
        let hints = with(&[
            ("IBM_io_buffer_size", "1M"),
            ("pario_agents", "0,2,0,1"),
            ("max_pre", "8"),
            ("max_acc", "0"),
            ("pario_access_ranges", "0+10,1k+2"),
            ("pario_access_done", "7+1"),
        ]);
        assert_eq!(hints.access_ranges(), Some(&[0..10, 1024..1026][..]));
        assert_eq!(hints.access_done().map(<[_]>::len), Some(1));
        assert_eq!((hints.io_buffer_size(), hints.agents()), (Some(1 << 20), Some(vec![0, 2, 0, 1])));
        assert_eq!((hints.max_pre(), hints.max_acc()), (8, 0));
    }

    #[test]
    fn the_more_specific_hint_on_collective_buffering_wins() {
        for apart in ["collective_buffering false", "IBM_sparse_access true", "IBM_largeblock_io true"] {
            let pair = apart.split_once(' ').expect("two words");
            let hints = with(&[pair, ("romio_cb_write", "automatic")]);
            assert_eq!((hints.cb_read(), hints.cb_write()), (Toggle::Disable, Toggle::Automatic), "{apart}");
        }
        let hints = with(&[("collective_buffering", "true")]);
        assert_eq!((hints.cb_read(), hints.collective_buffering()), (Toggle::Automatic, Some(true)));
    }

    #[test]
    fn no_indep_rw_enables_collective_buffering_unless_it_is_disabled() {
        let hints = with(&[("romio_no_indep_rw", "true")]);
        assert_eq!(
            (hints.no_indep_rw(), hints.cb_read(), hints.cb_write()),
            (true, Toggle::Enable, Toggle::Enable)
        );
        let hints = with(&[("romio_no_indep_rw", "true"), ("romio_cb_read", "disable")]);
        assert_eq!(
            (hints.no_indep_rw(), hints.cb_read(), hints.cb_write()),
            (false, Toggle::Disable, Toggle::Enable)
        );
    }

    #[test]
    fn reads_are_partitioned_as_writes_unless_their_hint_is_set() {
        use PartitioningMethod::{Even, GroupCyclic};
        let both = |hints: &Hints| (hints.fd_partition(), hints.fd_partition_read());
        let hints = with(&[("pario_fd_partition", "group-cyclic")]);
        assert_eq!(both(&hints), (Some(GroupCyclic), Some(GroupCyclic)));
        let hints = with(&[("pario_fd_partition", "group-cyclic"), ("pario_fd_partition_read", "auto")]);
        assert_eq!(both(&hints), (Some(GroupCyclic), None));
        assert_eq!(both(&with(&[("pario_fd_partition_read", "even")])), (None, Some(Even)));
    }
}
