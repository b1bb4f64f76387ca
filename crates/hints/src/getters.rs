//! What the rest of the system reads: a typed getter for each hint that is honoured.
//!
//! Where several hints speak of one thing, the getter says what they come to, so that no room has to know
//! more than one: [`Hints::cb_read`] and [`Hints::fd_partition_read`] do.

use pario_types::Toggle;

use crate::kind::Value;
use crate::set::Hints;
use crate::table::Id;
use std::ops::Range;

impl Hints {
    /// Permission bits of a file that is created; `None` means 0666. The umask applies to either.
    pub fn file_perm(&self) -> Option<u32> {
        match self.value(Id::FilePerm) {
            Some(&Value::Mode(bits)) => Some(bits),
            _ => None,
        }
    }

    /// Bytes of the buffer for sieving independent reads.
    pub fn ind_rd_buffer_size(&self) -> u64 {
        self.number(Id::IndRdBufferSize)
    }

    /// Bytes of the buffer for sieving independent writes.
    pub fn ind_wr_buffer_size(&self) -> u64 {
        self.number(Id::IndWrBufferSize)
    }

    /// Whether independent reads of scattered pieces read whole stretches.
    pub fn ds_read(&self) -> Toggle {
        self.toggle(Id::DsRead)
    }

    /// Whether independent writes of scattered pieces read, change and write back whole stretches.
    pub fn ds_write(&self) -> Toggle {
        self.toggle(Id::DsWrite)
    }

    /// Whether closing the file first forces its data to storage.
    pub fn close_sync(&self) -> bool {
        self.switch(Id::CloseSync) == Some(true)
    }

    /// Bytes that an aggregator takes in a round.
    pub fn cb_buffer_size(&self) -> u64 {
        self.number(Id::CbBufferSize)
    }

    /// How many aggregators; `None` leaves it to Pario.
    pub fn cb_nodes(&self) -> Option<u32> {
        self.small(Id::CbNodes)
    }

    /// Where aggregators may run, in ROMIO's words, and whether anybody has said so: if not, the words are
    /// ROMIO's default, one on each node.
    pub fn cb_config_list(&self) -> (&str, bool) {
        let text = match self.value(Id::CbConfigList) {
            Some(Value::Text(text)) => text,
            other => unreachable!("cb_config_list is a text with a default, not {other:?}"),
        };
        (text, self.is_set(Id::CbConfigList))
    }

    /// Whether collective reads go through aggregators: `romio_cb_read` if it is set, else what the hints
    /// about the whole file say.
    pub fn cb_read(&self) -> Toggle {
        self.collective(Id::CbRead)
    }

    /// Whether collective writes go through aggregators: `romio_cb_write` if it is set, else what the hints
    /// about the whole file say.
    pub fn cb_write(&self) -> Toggle {
        self.collective(Id::CbWrite)
    }

    fn collective(&self, id: Id) -> Toggle {
        let apart =
            self.collective_buffering() == Some(false) || self.sparse_access() || self.largeblock_io();
        if self.is_set(id) {
            self.toggle(id)
        } else if apart {
            Toggle::Disable
        } else if self.switch(Id::NoIndepRw) == Some(true) {
            Toggle::Enable
        } else {
            self.toggle(id)
        }
    }

    /// Whether the file is promised to be accessed by collective calls through aggregators only. The promise
    /// is void, as in ROMIO, where collective buffering is off for reads or for writes.
    pub fn no_indep_rw(&self) -> bool {
        let buffered = self.cb_read() != Toggle::Disable && self.cb_write() != Toggle::Disable;
        buffered && self.switch(Id::NoIndepRw) == Some(true)
    }

    /// Whether collective calls may gather data at aggregators; [`Hints::cb_read`] and [`Hints::cb_write`]
    /// take it into account.
    pub fn collective_buffering(&self) -> Option<bool> {
        self.switch(Id::CollectiveBuffering)
    }

    /// Over how many servers the file is striped, or is to be if it is new.
    pub fn striping_factor(&self) -> Option<u32> {
        self.small(Id::StripingFactor)
    }

    /// Bytes of a stripe: the lock unit.
    pub fn striping_unit(&self) -> Option<u64> {
        self.size(Id::StripingUnit)
    }

    /// The server that gets the first stripe of a new file.
    pub fn start_iodevice(&self) -> Option<u32> {
        self.small(Id::StartIodevice)
    }

    /// Bytes that belong to one I/O agent before the next has its turn, not yet rounded up to whole blocks;
    /// `None` means 16 blocks.
    pub fn io_buffer_size(&self) -> Option<u64> {
        self.size(Id::IoBufferSize)
    }

    /// Whether data shipping is off, and every rank accesses the file by itself.
    pub fn largeblock_io(&self) -> bool {
        self.switch(Id::LargeblockIo) == Some(true)
    }

    /// Whether the accesses of a collective call lie far apart; [`Hints::cb_read`] and [`Hints::cb_write`]
    /// take it into account.
    pub fn sparse_access(&self) -> bool {
        self.switch(Id::SparseAccess) == Some(true)
    }

    /// How collective writes deal the file out to aggregators; `None` means as suits the file system.
    pub fn fd_partition(&self) -> Option<&'static str> {
        self.chosen(Id::FdPartition)
    }

    /// How collective reads deal the file out to aggregators: as writes do unless the hint for reads is set.
    /// `None` means as suits the file system.
    pub fn fd_partition_read(&self) -> Option<&'static str> {
        let own = self.is_set(Id::FdPartitionRead);
        self.chosen(if own { Id::FdPartitionRead } else { Id::FdPartition })
    }

    /// How data moves between ranks and file: one of the words of `pario_strategy`, `auto` included.
    pub fn strategy(&self) -> &'static str {
        self.word(Id::Strategy)
    }

    /// With which of a partition's servers a rank begins: one of the words of `pario_schedule`.
    pub fn schedule(&self) -> &'static str {
        self.word(Id::Schedule)
    }

    /// The ranks that are I/O agents, in the order in which blocks are dealt to them, some of them perhaps
    /// several times; `None` means the aggregators. A file may be open on fewer ranks than are named here.
    pub fn agents(&self) -> Option<Vec<u32>> {
        match self.value(Id::Agents) {
            Some(Value::Numbers(ranks)) => Some(ranks.iter().map(|&rank| rank as u32).collect()),
            _ => None,
        }
    }

    /// Whether ranks may keep blocks of a partition's file in their memory.
    pub fn tier1(&self) -> Toggle {
        self.toggle(Id::Tier1)
    }

    /// Bytes of memory for that, and from and down to which percentage of it unstored blocks are stored at once.
    pub fn tier1_size(&self) -> (u64, u8, u8) {
        let percent = |id| self.number(id).min(100) as u8;
        (self.number(Id::Tier1Size), percent(Id::Tier1High), percent(Id::Tier1Low))
    }

    /// Ranges of the file that will be accessed soon.
    pub fn access_ranges(&self) -> Option<&[Range<u64>]> {
        self.extents(Id::AccessRanges)
    }

    /// Those of them that are done with.
    pub fn access_done(&self) -> Option<&[Range<u64>]> {
        self.extents(Id::AccessDone)
    }

    /// The most blocks that guided prefetch has under way.
    pub fn max_pre(&self) -> u32 {
        self.number(Id::MaxPre) as u32
    }

    /// The most blocks that guided prefetch accesses before it asks for more; 0 turns it off.
    pub fn max_acc(&self) -> u32 {
        self.number(Id::MaxAcc) as u32
    }

    fn switch(&self, id: Id) -> Option<bool> {
        match self.value(id) {
            Some(&Value::Switch(on)) => Some(on),
            _ => None,
        }
    }

    fn extents(&self, id: Id) -> Option<&[Range<u64>]> {
        match self.value(id) {
            Some(Value::Extents(all)) => Some(all),
            _ => None,
        }
    }

    fn size(&self, id: Id) -> Option<u64> {
        match self.value(id) {
            Some(&Value::Size(n)) => Some(n),
            _ => None,
        }
    }

    /// A count whose range in the table fits.
    fn small(&self, id: Id) -> Option<u32> {
        match self.value(id) {
            Some(&Value::Count(n)) => u32::try_from(n).ok(),
            _ => None,
        }
    }

    /// A word other than `auto`.
    fn chosen(&self, id: Id) -> Option<&'static str> {
        match self.value(id) {
            Some(&Value::Word(word)) if word != "auto" => Some(word),
            _ => None,
        }
    }

    // Those below are for hints whose table entry has a default of the right kind, which a test checks.

    fn number(&self, id: Id) -> u64 {
        match self.value(id) {
            Some(&(Value::Size(n) | Value::Count(n))) => n,
            other => unreachable!("{id:?} is a number with a default, not {other:?}"),
        }
    }

    fn toggle(&self, id: Id) -> Toggle {
        match self.value(id) {
            Some(&Value::Toggle(t)) => t,
            other => unreachable!("{id:?} is a toggle with a default, not {other:?}"),
        }
    }

    fn word(&self, id: Id) -> &'static str {
        match self.value(id) {
            Some(&Value::Word(word)) => word,
            other => unreachable!("{id:?} is a word with a default, not {other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::{Outcome, Source};

    fn with(all: &[(&str, &str)]) -> Hints {
        let mut hints = Hints::new();
        for (name, value) in all {
            assert_eq!(hints.apply(Source::Info, name, value), Outcome::Accepted, "{name}");
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
    fn defaults_of_the_others() {
        let hints = Hints::new();
        assert_eq!(
            (hints.striping_factor(), hints.striping_unit(), hints.start_iodevice()),
            (None, None, None)
        );
        assert_eq!((hints.io_buffer_size(), hints.agents()), (None, None));
        assert_eq!((hints.largeblock_io(), hints.sparse_access()), (false, false));
        assert_eq!((hints.fd_partition(), hints.fd_partition_read()), (None, None));
        assert_eq!((hints.strategy(), hints.max_pre(), hints.max_acc()), ("auto", 4, 4));
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
        assert_eq!(Hints::new().apply(Source::Info, "nc_align_size", "1"), Outcome::Unknown);
    }

    #[test]
    fn strings_about_collective_access_do_too() {
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
        assert_eq!((hints.start_iodevice(), hints.strategy()), (Some(0), "two-phase"));
    }

    #[test]
    fn strings_about_data_shipping_do_too() {
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
    fn the_narrower_hint_about_collective_buffering_counts_more() {
        for apart in ["collective_buffering false", "IBM_sparse_access true", "IBM_largeblock_io true"] {
            let pair = apart.split_once(' ').expect("two words");
            let hints = with(&[pair, ("romio_cb_write", "automatic")]);
            assert_eq!((hints.cb_read(), hints.cb_write()), (Toggle::Disable, Toggle::Automatic), "{apart}");
        }
        let hints = with(&[("collective_buffering", "true")]);
        assert_eq!((hints.cb_read(), hints.collective_buffering()), (Toggle::Automatic, Some(true)));
    }

    #[test]
    fn a_promise_of_collective_calls_enables_buffering_unless_it_is_off() {
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
    fn reads_are_dealt_out_as_writes_unless_told_otherwise() {
        let both = |hints: &Hints| (hints.fd_partition(), hints.fd_partition_read());
        let hints = with(&[("pario_fd_partition", "group-cyclic")]);
        assert_eq!(both(&hints), (Some("group-cyclic"), Some("group-cyclic")));
        let hints = with(&[("pario_fd_partition", "group-cyclic"), ("pario_fd_partition_read", "auto")]);
        assert_eq!(both(&hints), (Some("group-cyclic"), None));
        assert_eq!(both(&with(&[("pario_fd_partition_read", "even")])), (None, Some("even")));
    }
}
